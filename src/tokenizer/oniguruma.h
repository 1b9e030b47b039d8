/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates the regular expressions of tokenizer.json from Oniguruma (Ruby syntax) to
 * PCRE2. Thread: any.
 */
#pragma once
#include "base/buf.h"

/* Appends to *out a PCRE2 pattern that matches as Oniguruma would. Compile it with
 * PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE. E_UNSUPPORTED names a construct that PCRE2
 * has no equal for. Some syntax errors are left for PCRE2 to report. */
enum status oniguruma_translate(struct str pattern, struct buf *out,
				struct fail *fail) MUST_USE;
