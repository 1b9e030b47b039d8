/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions of tokenizer.json, which are Oniguruma's (Ruby syntax),
 * said in PCRE2's words. Thread: any.
 */
#pragma once
#include "base/buf.h"

/* Append to *out what PCRE2 must be given, with PCRE2_UTF, UCP and MULTILINE, to
 * match as Oniguruma does. What has no equal is refused by name (E_UNSUPPORTED),
 * never guessed; errors of syntax may also be left for PCRE2 to find. */
enum status oniguruma_translate(struct str pattern, struct buf *out,
				struct fail *fail) MUST_USE;
