/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* Length of the sequence that lead byte c starts, or 0. lo..hi is the range of the second
 * byte; only four leads make it narrower than 80..BF (Unicode table 3-7). */
static size_t lead_info(unsigned char c, unsigned char *lo, unsigned char *hi)
{
	*lo = 0x80;
	*hi = 0xBF;
	if (c < 0x80)
		return 1;
	if (c >= 0xC2 && c <= 0xDF)
		return 2;
	if (c >= 0xE0 && c <= 0xEF) {
		if (c == 0xE0)
			*lo = 0xA0;
		if (c == 0xED)
			*hi = 0x9F;
		return 3;
	}
	if (c >= 0xF0 && c <= 0xF4) {
		if (c == 0xF0)
			*lo = 0x90;
		if (c == 0xF4)
			*hi = 0x8F;
		return 4;
	}
	return 0;
}

/* Number of bytes at the start of s that fit a well-formed sequence. *out_need is the
 * sequence's full length, or 0 if the first byte starts no sequence. */
static size_t prefix_length(struct str s, size_t *out_need)
{
	unsigned char lo, hi;
	size_t need = lead_info((unsigned char)s.p[0], &lo, &hi);
	*out_need = need;
	size_t have = 1;
	while (have < need && have < s.n) {
		unsigned char c = (unsigned char)s.p[have];
		if (c < lo || c > hi)
			break;
		lo = 0x80;
		hi = 0xBF;
		have++;
	}
	return have;
}

size_t utf8_decode(struct str s, uint32_t *out_cp)
{
	size_t need, have = prefix_length(s, &need);
	if (need == 0 || have < need) {
		*out_cp = UTF8_BAD;
		return have;
	}
	const unsigned char *p = (const unsigned char *)s.p;
	uint32_t cp = need == 1 ? p[0] : p[0] & (0xFFu >> (need + 1));
	for (size_t i = 1; i < need; i++)
		cp = cp << 6 | (p[i] & 0x3F);
	*out_cp = cp;
	return need;
}

size_t utf8_encode(uint32_t cp, char *out)
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	size_t n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, cp >>= 6)
		out[i] = (char)(0x80 | (cp & 0x3F));
	out[0] = (char)((0xF00u >> n & 0xFF) | cp);
	return n;
}

ptrdiff_t utf8_check(struct str s)
{
	size_t i = 0;
	while (i < s.n) {
		if ((unsigned char)s.p[i] < 0x80) {
			i++;
			continue;
		}
		uint32_t cp;
		size_t len = utf8_decode((struct str){s.p + i, s.n - i}, &cp);
		if (cp == UTF8_BAD)
			return (ptrdiff_t)i;
		i += len;
	}
	return -1;
}

size_t utf8_partial_tail(struct str s)
{
	for (size_t back = 1; back <= 3 && back <= s.n; back++) {
		struct str tail = {s.p + s.n - back, back};
		if (((unsigned char)tail.p[0] & 0xC0) == 0x80)
			continue;
		size_t need, have = prefix_length(tail, &need);
		return need > have && have == back ? back : 0;
	}
	return 0;
}

size_t utf8_count(struct str s)
{
	size_t count = 0;
	for (size_t i = 0; i < s.n; count++) {
		uint32_t cp;
		i += utf8_decode((struct str){s.p + i, s.n - i}, &cp);
	}
	return count;
}

void utf8_add_clean(struct buf *b, struct str s)
{
	size_t i = 0;
	while (i < s.n) {
		uint32_t cp;
		size_t len = utf8_decode((struct str){s.p + i, s.n - i}, &cp);
		if (cp == UTF8_BAD)
			buf_add(b, "\xEF\xBF\xBD", 3);
		else
			buf_add(b, s.p + i, len);
		i += len;
	}
}
