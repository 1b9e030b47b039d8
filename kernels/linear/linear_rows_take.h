/* SPDX-License-Identifier: Apache-2.0
 *
 * 16 bytes of a row as halves with their scale, and their product with a token's pieces: for
 * linear_rows_dot.h, which says how exact that is.
 */
#pragma once
#include "kernels/weights/dequant.h"
#include "kernels/linear/linear_rows.h"

constexpr int linear_rows_bits(int format)
{
	return format == WEIGHT_F16 || format == WEIGHT_BF16   ? 16
	       : format == WEIGHT_INT8 || format == WEIGHT_FP8 ? 8
							       : 4;
}

/* What 16 bytes of a row hold: EACH elements, which are PIECES pieces of eight. */
template <int format> struct linear_rows_of {
	enum : int {
		EACH = LINEAR_ROWS_EACH(linear_rows_bits(format)),
		PIECES = EACH / 8,
		STEP = EACH * WAVE /* elements that a wave loads at once */
	};
};

/* 16 bytes of a row as pairs of halves (bf16: as they are), and their scale; for nvfp4 also the
 * scale of the second half. */
template <int format> struct linear_rows_taken {
	uint32_t h[linear_rows_of<format>::EACH / 2];
	float scale, second;
};

/* Both halves of `minus` are 1024 + the zero point (int8). */
template <int format> DEVICE void linear_rows_halves(u32x4 q, uint32_t minus, uint32_t *h)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		if constexpr (linear_rows_bits(format) == 16) {
			h[i] = q[i];
		} else if constexpr (format == WEIGHT_INT8) {
			h[2 * i] = sub2_f16(permute_bytes<0x4140>(q[i], 0x64), minus);
			h[2 * i + 1] = sub2_f16(permute_bytes<0x4342>(q[i], 0x64), minus);
		} else if constexpr (format == WEIGHT_FP8) {
			uint32_t pair[2];
			small_halves<format>(q[i], pair);
			h[2 * i] = fma2_f16(pair[0], 0x5C005C00u, 0);
			h[2 * i + 1] = fma2_f16(pair[1], 0x5C005C00u, 0);
		} else {
			UNROLL
			for (int s = 0; s < 2; s++) {
				uint32_t pair[2];
				small_halves<format>(q[i] >> s * 4, pair);
				h[4 * i + 2 * s] = fma2_f16(pair[0], 0x74007400u, 0);
				h[4 * i + 2 * s + 1] = fma2_f16(pair[1], 0x74007400u, 0);
			}
		}
	}
}

/* Sum of products of pairs [FROM, TO) of h and the pieces x. */
template <int format, int FROM, int TO>
DEVICE float linear_rows_dot(const uint32_t *h, const u32x4 *x)
{
	float sum = 0;
	UNROLL
	for (int i = FROM; i < TO; i++) {
		uint32_t v = x[i / 4][i % 4];
		if constexpr (format == WEIGHT_BF16) {
			sum = fma_f32(bits_cast<float>(h[i] << 16),
				      f16_to_f32((uint16_t)v), sum);
			sum = fma_f32(bits_cast<float>(h[i] & 0xFFFF0000u),
				      f16_to_f32((uint16_t)(v >> 16)), sum);
		} else {
			sum = dot2_f16(h[i], v, sum);
		}
	}
	return sum;
}

/* Scale of element i of a row; `row` is the index of the row's first scale. */
template <int format>
DEVICE float linear_rows_scale(const linear_rows_part &p, size_t row, int32_t i,
			       int32_t shift)
{
	size_t at = row + (size_t)(i >> shift);
	if constexpr (format == WEIGHT_NVFP4)
		return e4m3_to_f32(((const uint8_t *)p.scales)[at]);
	else if constexpr (format == WEIGHT_MXFP4)
		return e8m0_to_f32(((const uint8_t *)p.scales)[at]);
	else
		return scale_at(p.scales, p.scale_format, at);
}

/* Elements [i, i + EACH) of row n, which are q, with the scale of their group. With 8 bits or
 * more and one group a row the scale is 1. */
template <int format>
DEVICE void linear_rows_take(const linear_rows_args &a, const linear_rows_part &p, u32x4 q,
			     int32_t n, int32_t i, linear_rows_taken<format> *out)
{
	uint32_t minus = 0x64806480u;
	out->scale = out->second = 1;
	if constexpr (linear_rows_bits(format) < 16) {
		size_t row = (size_t)(n / p.group_n) * (size_t)a.n_groups;
		/* With 8 bits or more, a scale for the whole row is applied to the final
		 * sum. */
		if (linear_rows_bits(format) == 4 || a.n_groups > 1)
			out->scale = linear_rows_scale<format>(p, row, i, a.group_shift);
		if constexpr (format == WEIGHT_NVFP4)
			out->second = linear_rows_scale<format>(p, row, i + 16,
								a.group_shift);
	}
	if (format == WEIGHT_INT8 && p.zero_points) {
		size_t at = (size_t)(n / 4) * (size_t)a.n_groups +
			    (size_t)(i >> a.group_shift);
		minus = (0x6400u + (p.zero_points[at] >> n % 4 * 8 & 255)) * 0x10001u;
	}
	linear_rows_halves<format>(q, minus, out->h);
}
