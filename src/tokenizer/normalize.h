/* SPDX-License-Identifier: Apache-2.0
 *
 * Unicode normalization form C of a text that knows who wrote it. Thread: any.
 */
#pragma once
#include "base/markview.h"

/* Append the NFC of v (which must be UTF-8) to out and return true; or return
 * false, out untouched, where v is seen at a glance to be NFC already. A
 * character composed from several writers' counts as the least trusted one's.
 * Time is linear whatever the text. */
bool normalize_nfc(struct markview v, struct marked *out);
