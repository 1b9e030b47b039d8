/* SPDX-License-Identifier: Apache-2.0
 *
 * A weight is read once for up to 64 tokens. K_BLOCK columns of four rows are decoded at
 * a time (16 KiB, half of a first-level cache) and multiplied from there. This also
 * serves a single token: storing and loading a float costs less than a second code path
 * with the same bits. Four rows by two tokens are in registers.
 */
#include "backend/cpu/cpu_tile.h"

#include <string.h>

#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

#define K_BLOCK 1024

typedef uint8_t vu8 __attribute__((vector_size(16)));
typedef uint16_t vu16 __attribute__((vector_size(16)));
typedef uint32_t vu32 __attribute__((vector_size(16)));

/* Interleave the elements of a and b: their lower halves, their upper halves. */
#define LOW8(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, \
					   5, 21, 6, 22, 7, 23)
#define HIGH8(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, \
					    28, 13, 29, 14, 30, 15, 31)
#define LOW16(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Convert eight integers 0..127 to floats (i - zero) * scale. 0x4B000000 | i are the bits
 * of 2^23 + i, so one exact subtraction converts and subtracts zero. */
VEC4_INLINE void scale_eight(vu16 i, vec4 offset, vec4 scale, float *out)
{
	const vu16 high = {0x4B00, 0x4B00, 0x4B00, 0x4B00,
			   0x4B00, 0x4B00, 0x4B00, 0x4B00};
	vec4 low = (vec4)LOW16(i, high);
	vec4 upper = (vec4)HIGH16(i, high);
	vec4_store(out, (low - offset) * scale);
	vec4_store(out + 4, (upper - offset) * scale);
}

/* Decode 16 bytes as 32 nibbles, the lower nibble of a byte first. */
static void decode_nibbles(const uint8_t *q, int n, int zero, float scale, float *out)
{
	vec4 offset = vec4_all(0x1p23f + (float)zero), factor = vec4_all(scale);
	int i = 0;
	for (; i + 32 <= n; i += 32, q += 16, out += 32) {
		vu8 bytes, none = {0};
		memcpy(&bytes, q, sizeof bytes);
		vu8 even = bytes & 15, odd = (vu8)((vu16)bytes >> 4) & 15;
		vu8 first = LOW8(even, odd);
		vu8 second = HIGH8(even, odd);
		scale_eight((vu16)LOW8(first, none), offset, factor, out);
		scale_eight((vu16)HIGH8(first, none), offset, factor, out + 8);
		scale_eight((vu16)LOW8(second, none), offset, factor, out + 16);
		scale_eight((vu16)HIGH8(second, none), offset, factor, out + 24);
	}
	for (; i < n; i += 2, q++, out += 2) {
		out[0] = (float)((*q & 15) - zero) * scale;
		out[1] = (float)((*q >> 4) - zero) * scale;
	}
}

static void decode_int4(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			float *out)
{
	size_t n_groups = (size_t)(w->k / w->group);
	const uint8_t *q = (const uint8_t *)w->q + (size_t)row * (size_t)w->k / 2;
	for (int32_t k = k0, end; k < k1; k = end) {
		size_t g = (size_t)(k / w->group);
		end = MIN(k1, (int32_t)(g + 1) * w->group);
		int zero = 8;
		if (w->zero_points) {
			const uint32_t *zeros = w->zero_points;
			zero = blocks_nibble(&zeros[(size_t)row / 8 * n_groups + g],
					     (size_t)row % 8);
		}
		float scale = blocks_float(w->scales, w->scale_type,
					   (size_t)row * n_groups + g);
		decode_nibbles(q + k / 2, end - k, zero, scale, out + (k - k0));
	}
}

static void decode_bf16(const uint16_t *q, int n, float *out)
{
	int i = 0;
	for (; i + 8 <= n; i += 8) {
		vu16 half, none = {0};
		memcpy(&half, q + i, sizeof half);
		vec4_store(out + i, (vec4)LOW16(none, half));
		vec4_store(out + i + 4, (vec4)HIGH16(none, half));
	}
	for (; i < n; i++)
		out[i] = blocks_bf16(q[i]);
}

/* Convert four halves in the low bits to floats. Moved into a float's fields, the bits
 * mean a value 2^112 too small, also for subnormals. Infinity and NaN come out as 2^16
 * and above, and get the exponent of all ones. */
VEC4_INLINE vec4 widen_half(vu32 half)
{
	vu32 magnitude = (half & 0x7FFF) << 13;
	vu32 is_special = (vu32)(magnitude >= (0x7C00u << 13));
	vec4 f = (vec4)magnitude * vec4_all(0x1p112f);
	return (vec4)((vu32)f | (is_special & 0x7F800000u) | (half & 0x8000) << 16);
}

static void decode_f16(const uint16_t *q, int n, float *out)
{
	int i = 0;
	for (; i + 8 <= n; i += 8) {
		vu16 half, none = {0};
		memcpy(&half, q + i, sizeof half);
		vec4_store(out + i, widen_half((vu32)LOW16(half, none)));
		vec4_store(out + i + 4, widen_half((vu32)HIGH16(half, none)));
	}
	for (; i < n; i++)
		out[i] = blocks_f16(q[i]);
}

static void part_bf16(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		      float *out)
{
	size_t at = (size_t)row * (size_t)w->k + (size_t)k0;
	decode_bf16((const uint16_t *)w->q + at, k1 - k0, out);
}

static void part_f16(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		     float *out)
{
	size_t at = (size_t)row * (size_t)w->k + (size_t)k0;
	decode_f16((const uint16_t *)w->q + at, k1 - k0, out);
}

static void part_f32(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		     float *out)
{
	size_t at = (size_t)row * (size_t)w->k + (size_t)k0;
	memcpy(out, (const float *)w->q + at, (size_t)(k1 - k0) * sizeof *out);
}

/* Faster decoders than weight_decode_part, which decodes the formats not listed here. */
static void (*const fast[QUANT_COUNT])(const struct weight *w, int32_t row, int32_t k0,
				       int32_t k1, float *out) = {
	[QUANT_INT4] = decode_int4,
	[QUANT_BF16] = part_bf16,
	[QUANT_F16] = part_f16,
	[QUANT_F32] = part_f32,
};

void cpu_tile_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		     float *out)
{
	int has_order = w->quant == QUANT_INT4 && (w->group_of || w->in_scale);
	if (fast[w->quant] && weight_is_dense(w) && !has_order && !w->source)
		fast[w->quant](w, row, k0, k1, out);
	else
		weight_decode_part(w, row, k0, k1, out);
}

/* out[j] += rows (four, K_BLOCK apart) times x[j], from column k0 on. */
static void multiply(const float *rows, int n, const float *const *x, int n_x,
		     int32_t k0, float (*out)[TILE_ROWS])
{
	const float *row[4] = {rows, rows + K_BLOCK, rows + 2 * K_BLOCK,
			       rows + 3 * K_BLOCK};
	vec4 sum[2];
	int j = 0;
	for (; j + 2 <= n_x; j += 2) {
		const float *two[2] = {x[j] + k0, x[j + 1] + k0};
		dot_rows(row, two, 2, n, sum);
		vec4_store(out[j], vec4_load(out[j]) + sum[0]);
		vec4_store(out[j + 1], vec4_load(out[j + 1]) + sum[1]);
	}
	if (j < n_x) {
		const float *one[1] = {x[j] + k0};
		dot_rows(row, one, 1, n, sum);
		vec4_store(out[j], vec4_load(out[j]) + sum[0]);
	}
}

void cpu_tile(const struct weight *w, int32_t n0, const float *const *x, int n_x,
	      float (*out)[TILE_ROWS])
{
	float rows[TILE_ROWS * K_BLOCK] __attribute__((aligned(16)));
	int n_rows = MIN(TILE_ROWS, w->n - n0);
	memset(out, 0, (size_t)n_x * sizeof *out);
	for (int32_t k0 = 0; k0 < w->k; k0 += K_BLOCK) {
		int n = MIN(K_BLOCK, w->k - k0);
		for (int r = 0; r < n_rows; r++)
			cpu_tile_decode(w, n0 + r, k0, k0 + n, rows + r * K_BLOCK);
		for (int r = n_rows; r < TILE_ROWS; r++)
			memset(rows + r * K_BLOCK, 0, (size_t)n * sizeof *rows);
		multiply(rows, n, x, n_x, k0, out);
	}
}
