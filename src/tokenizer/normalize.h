/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a text with trust marks to Unicode normalization form C. Thread: any.
 */
#pragma once
#include "base/markview.h"

/* Appends the NFC of v to out and returns true. v must be UTF-8. If a quick scan shows
 * that v is already in NFC, returns false and leaves out untouched. A character composed
 * from bytes of several writers gets the lowest trust of them. Time is linear for any
 * text. */
bool normalize_nfc(struct markview v, struct marked *out);
