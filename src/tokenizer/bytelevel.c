/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that are printable in Latin-1 (0x21..0x7E, 0xA1..0xAC, 0xAE..0xFF) stand for
 * themselves. GPT-2 assigned the other 68 bytes, in ascending order, the code points from
 * U+0100.
 */
#include "tokenizer/bytelevel.h"

#include "base/utf8.h"

/* The byte that code point cp stands for; -1: none. */
static int byte_of(uint32_t cp)
{
	if ((cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xAC) ||
	    (cp >= 0xAE && cp <= 0xFF))
		return (int)cp;
	if (cp < 0x100 || cp >= 0x100 + 68)
		return -1;
	int k = (int)cp - 0x100;
	if (k < 0x21)
		return k;
	if (k == 0x21)
		return 0x7F;
	return k < 67 ? 0x80 + (k - 0x22) : 0xAD;
}

bool bytelevel_decode(struct str spelled, struct buf *out)
{
	size_t before = out->n;
	for (size_t i = 0; i < spelled.n;) {
		uint32_t cp;
		i += utf8_decode((struct str){spelled.p + i, spelled.n - i},
				 &cp);
		int byte = byte_of(cp);
		if (byte < 0) {
			out->n = before;
			return false;
		}
		buf_add_c(out, (char)byte);
	}
	return true;
}

static uint32_t char_of(unsigned char byte)
{
	if (byte_of(byte) == byte)
		return byte;
	if (byte < 0x21)
		return 0x100 + byte;
	if (byte == 0x7F)
		return 0x121;
	return byte == 0xAD ? 0x143 : 0x122 + (byte - 0x80U);
}

void bytelevel_encode(struct str bytes, struct buf *out)
{
	char spelled[4];
	for (size_t i = 0; i < bytes.n; i++) {
		size_t n = utf8_encode(char_of((unsigned char)bytes.p[i]), spelled);
		buf_add(out, spelled, n);
	}
}
