/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 at the byte level: where characters begin and end. Properties of characters come
 * from utf8proc and PCRE2. Thread: any.
 */
#pragma once
#include "base/buf.h"

#define UTF8_BAD 0xFFFFFFFFu

/* Decode the first character of s (s.n > 0). Returns its length in bytes, 1..4, and its
 * code point. For a malformed sequence the code point is UTF8_BAD, and the length is the
 * part that one U+FFFD replaces (Unicode 15, section 3.9, "maximal subpart"). Surrogates
 * and overlong forms are malformed. */
size_t utf8_decode(struct str s, uint32_t *out_cp);

/* Write cp to out (room for 4 bytes) and return its length, 1..4. */
size_t utf8_encode(uint32_t cp, char *out);

/* Offset of the first malformed byte, or -1 if all of s is UTF-8. */
ptrdiff_t utf8_check(struct str s);

/* Number of bytes (0..3) at the end of s that begin a character and that further bytes
 * could complete. */
size_t utf8_partial_tail(struct str s);

/* Number of characters; each malformed part counts as one. */
size_t utf8_count(struct str s);

/* Append s with each malformed part replaced by U+FFFD. */
void utf8_add_clean(struct buf *b, struct str s);
