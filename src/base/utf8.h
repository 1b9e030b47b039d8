/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, the byte level only: what is a character, where does it end. Tables
 * of properties belong to utf8proc and PCRE2. Thread: any.
 */
#pragma once
#include "base/buf.h"

#define UTF8_BAD 0xFFFFFFFFu

/* Decode the first character of s (s.n > 0). Returns its length in bytes, 1..4,
 * and the code point; for a malformed sequence the code point is UTF8_BAD and
 * the length is that of the maximal part to replace by one U+FFFD (Unicode
 * 15, section 3.9, "maximal subpart"). Surrogates and overlongs are malformed. */
size_t utf8_decode(struct str s, uint32_t *out_cp);

/* Length 1..4 of cp in bytes, written to out (room for 4). */
size_t utf8_encode(uint32_t cp, char *out);

/* Offset of the first malformed byte, or -1 when s is all UTF-8. */
ptrdiff_t utf8_check(struct str s);

/* Bytes at the end of s that begin a character and could still become one when
 * more bytes come: 0..3. */
size_t utf8_partial_tail(struct str s);

/* Number of characters; a malformed part counts as one. */
size_t utf8_count(struct str s);

/* Append s with each malformed part replaced by U+FFFD. */
void utf8_add_clean(struct buf *b, struct str s);
