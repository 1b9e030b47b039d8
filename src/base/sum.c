/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sum.h"

#include <string.h>

enum { LANES = 8 };

/* Each word enters one of eight chains. Every step of a chain is invertible, so data that
 * differs in one word gives different sums. */
static inline void enter(uint64_t h[LANES], const uint64_t w[LANES])
{
	/* Unrolled, the chains stay in registers. */
#pragma GCC unroll 8
	for (int l = 0; l < LANES; l++) {
		h[l] = (h[l] ^ w[l]) * 0x9E3779B97F4A7C15u;
		h[l] = h[l] << 29 | h[l] >> 35;
	}
}

uint64_t sum_bytes(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint64_t h[LANES] = {1, 2, 3, 4, 5, 6, 7, 8}, w[LANES];
	size_t at = 0;
	for (; n - at >= sizeof w; at += sizeof w) {
		memcpy(w, p + at, sizeof w);
		enter(h, w);
	}
	if (at < n) { /* filled up with zeros */
		memset(w, 0, sizeof w);
		memcpy(w, p + at, n - at);
		enter(h, w);
	}
	uint64_t sum = sum_mix(n);
	for (int l = 0; l < LANES; l++)
		sum = sum_mix(sum ^ h[l]);
	return sum;
}
