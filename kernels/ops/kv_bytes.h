/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values in 8 bits. A row is what one head has of one token: K bytes and one scale
 * in float16. Element i is (byte[i] - 128) * scale.
 *
 * A row of keys goes through a Hadamard transform before it becomes bytes, and so does each
 * query. Their products stay the same, and a large channel of the keys does not coarsen the others
 * (docs/performance.md). The transform is by blocks of B elements, where B is the largest power
 * of two that divides K:
 *
 *   y[i] = sum over j of x[j] * (-1)^(number of ones in i & j) / sqrt(B)
 *
 *   scale    the largest magnitude of the row / 127, rounded to float16
 *   byte[i]  128 + x[i] / scale, rounded to nearest, within 1 to 255
 *
 * A row with an infinity or NaN gets the scale NaN, so its elements read as NaN. A row whose
 * scale rounds to 0 becomes zeros: its elements are below 4e-6.
 */
#pragma once
#include <math.h>
#include <stdint.h>

#include "model/formats/blocks.h"

enum { KV_BYTES_ZERO = 128, KV_BYTES_MOST = 127, KV_BYTES_NAN = 0x7E00 };

/* The float16 nearest to x, which is 0 or more and at most 65504. */
static inline uint16_t kv_bytes_half(double x)
{
	int e;
	frexp(x, &e);
	if (x == 0 || e < -13) /* subnormals, whose steps are all 2^-24 */
		e = -13;
	return (uint16_t)(((e + 13) << 10) + (int)rint(ldexp(x, 11 - e)));
}

/* The scale of a row; most: its largest magnitude, NaN if an element is NaN. */
static inline uint16_t kv_bytes_scale(double most)
{
	return most <= 65504.0 * KV_BYTES_MOST ? kv_bytes_half(most / KV_BYTES_MOST)
					       : KV_BYTES_NAN;
}

static inline float kv_bytes_value(uint8_t byte, uint16_t scale)
{
	return (float)(byte - KV_BYTES_ZERO) * blocks_f16(scale);
}

/* Elements of a block of the transform. */
static inline int32_t kv_bytes_block(int32_t n)
{
	return n & -n;
}

/* Hadamard transform of a row (n) in place. The definition, in double. */
void kv_bytes_hadamard_ref(float *x, int32_t n);
/* The row that stands for x (n): bytes (n) and *scale. The definition, in double. */
void kv_bytes_ref(const float *x, int32_t n, uint8_t *bytes, uint16_t *scale);
