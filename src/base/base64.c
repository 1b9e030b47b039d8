/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

/* The value 0..63 of a base64 digit, or 64 if c is none. */
static unsigned digit_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0') + 52;
	return c == '+' ? 62 : c == '/' ? 63 : 64;
}

bool base64_decode(struct str text, struct buf *out)
{
	uint32_t bits = 0;
	size_t n = text.n;
	while (n > 0 && text.n - n < 2 && text.p[n - 1] == '=')
		n--;
	if ((n != text.n && text.n % 4 != 0) || n % 4 == 1)
		return false;
	if (!buf_reserve(out, n / 4 * 3 + 3))
		return true; /* the request is over */
	for (size_t i = 0; i < n; i++) {
		unsigned digit = digit_of(text.p[i]);
		if (digit == 64)
			return false;
		bits = bits << 6 | digit;
		if (i % 4 == 3)
			for (int shift = 16; shift >= 0; shift -= 8)
				buf_add_c(out, (char)(bits >> shift));
	}
	/* Two or three digits are left after the groups of four. Their bits that fill no byte
	 * must be 0. */
	if (n % 4 == 2) {
		buf_add_c(out, (char)(bits >> 4));
		return (bits & 15) == 0;
	}
	if (n % 4 == 3) {
		buf_add_c(out, (char)(bits >> 10));
		buf_add_c(out, (char)(bits >> 2));
		return (bits & 3) == 0;
	}
	return true;
}
