/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for f16, bf16, int8, fp8, nvfp4 and mxfp4 weights
 * LAYOUT    kernels/linear/linear_rows.h: rows as in the checkpoint
 *           (model/formats/blocks.h). A lane loads 16 bytes, so a wave reads 512 bytes of
 *           a row at once. LDS holds the activations in 16-byte pieces, in the order in
 *           which lanes read them. For formats of four bits a piece has the order 0 2 4 6
 *           1 3 5 7, because one mask extracts weights from a word in that order.
 * GEOMETRY  workgroups of 8 waves. A wave has 2 rows at a time with 2 steps of each in
 *           flight (4 x 16 bytes a lane), then goes on to further rows of the part. LDS:
 *           the activations of M tokens, at most 64 KiB.
 * PRECISION integers and small floats become halves exactly. 0x6400 | n is 1024 + n. An
 *           e4m3 or e2m1 moved into a half's fields is 2^-8 or 2^-14 of its value, and is
 *           scaled back. Products by v_dot2 in f32 (bf16: f32 fma); the partial sum of 16
 *           bytes is multiplied by its scale in f32
 * ROOFLINE  vector instructions for a step of 512 bytes at M = 1: int8 24 (8 permutes, 8
 *           packed subtractions, 8 dot2), f16 4, bf16 32, fp8 about 56, nvfp4 72. On 40
 *           compute units at 2.9 GHz that is 4.9 TB/s for int8, 1.6 for nvfp4; memory
 *           (0.256) is the limit. gfx1100: 9 and 3 TB/s, and memory has 0.864.
 * TRIED     (elsewhere, on gfx1151) 4 rows a wave, 2 waves: lm_head 2829 us instead of
 *           2568; loads of K <= 512 without prefetch: half the rate
 * SEE       kernels/ops/linear_ref.c; kernels/linear/linear_any.hip takes other shapes
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

/* Copy activations to LDS. A piece is eight of the K inputs. Each piece goes where its
 * lane will read it. */
template <int format>
DEVICE void linear_rows_stage(const uint16_t *x, int32_t k, u32x4 *to)
{
	constexpr int32_t EACH = linear_rows_of<format>::PIECES, STEP = EACH * WAVE;
	for (int32_t p = (int32_t)thread_index(); p < k / 8; p += LINEAR_ROWS_WAVES * WAVE) {
		u32x4 v = ((const u32x4 *)x)[p], out = v;
		if constexpr (linear_rows_bits(format) == 4) {
			out[0] = permute_bytes<0x5410>(v[0], v[1]);
			out[1] = permute_bytes<0x5410>(v[2], v[3]);
			out[2] = permute_bytes<0x7632>(v[0], v[1]);
			out[3] = permute_bytes<0x7632>(v[2], v[3]);
		}
		/* In an incomplete last step only the first lanes have elements, and only
		 * their pieces are stored. */
		int32_t step = p / STEP, lanes = k / 8 - step * STEP;
		lanes = lanes < STEP ? lanes / EACH : WAVE;
		to[step * STEP + p % EACH * lanes + p % STEP / EACH] = out;
	}
}

/* Sum of products of words [FROM, TO) of q and the pieces of x, which are `pitch` apart.
 * Both halves of `minus` are 1024 + the zero point (int8). */
template <int format, int FROM, int TO>
DEVICE float linear_rows_dot(u32x4 q, const u32x4 *x, int32_t pitch, uint32_t minus)
{
	float sum = 0;
	UNROLL
	for (int i = FROM; i < TO; i++) {
		if constexpr (format == WEIGHT_F16) {
			sum = dot2_f16(q[i], x[0][i], sum);
		} else if constexpr (format == WEIGHT_BF16) {
			uint32_t v = x[0][i];
			sum = fma_f32(bits_cast<float>(q[i] << 16),
				      f16_to_f32((uint16_t)v), sum);
			sum = fma_f32(bits_cast<float>(q[i] & 0xFFFF0000u),
				      f16_to_f32((uint16_t)(v >> 16)), sum);
		} else if constexpr (format == WEIGHT_INT8) {
			u32x4 v = x[i / 2 * pitch];
			uint32_t lo = permute_bytes<0x4140>(q[i], 0x64);
			uint32_t hi = permute_bytes<0x4342>(q[i], 0x64);
			sum = dot2_f16(sub2_f16(lo, minus), v[i % 2 * 2], sum);
			sum = dot2_f16(sub2_f16(hi, minus), v[i % 2 * 2 + 1], sum);
		} else if constexpr (format == WEIGHT_FP8) {
			u32x4 v = x[i / 2 * pitch];
			uint32_t h[2];
			small_halves<format>(q[i], h);
			sum = dot2_f16(fma2_f16(h[0], 0x5C005C00u, 0), v[i % 2 * 2], sum);
			sum = dot2_f16(fma2_f16(h[1], 0x5C005C00u, 0), v[i % 2 * 2 + 1], sum);
		} else {
			u32x4 v = x[i * pitch];
			UNROLL
			for (int s = 0; s < 2; s++) {
				uint32_t h[2];
				small_halves<format>(q[i] >> s * 4, h);
				sum = dot2_f16(fma2_f16(h[0], 0x74007400u, 0), v[s * 2], sum);
				sum = dot2_f16(fma2_f16(h[1], 0x74007400u, 0), v[s * 2 + 1],
					       sum);
			}
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

/* sum[t] += the product of q, which is elements [i, i + EACH) of row n, and token t. If a
 * row has several groups, it is scaled here. */
template <int M, int format>
DEVICE void linear_rows_use(const linear_rows_args &a, const linear_rows_part &p, u32x4 q,
			    int32_t n, int32_t i, const u32x4 *x, int32_t pitch, float *sum)
{
	constexpr bool HALVES = format == WEIGHT_NVFP4; /* 16 bytes hold two groups */
	float scale = 1, second = 1;
	uint32_t minus = 0x64806480u;
	if constexpr (linear_rows_bits(format) < 16) {
		size_t row = (size_t)(n / p.group_n) * (size_t)a.n_groups;
		/* With 8 bits or more, a scale for the whole row is applied to the final
		 * sum. */
		if (linear_rows_bits(format) == 4 || a.n_groups > 1)
			scale = linear_rows_scale<format>(p, row, i, a.group_shift);
		if constexpr (HALVES)
			second = linear_rows_scale<format>(p, row, i + 16, a.group_shift);
	}
	if (format == WEIGHT_INT8 && p.zero_points) {
		size_t at = (size_t)(n / 4) * (size_t)a.n_groups +
			    (size_t)(i >> a.group_shift);
		minus = (0x6400u + (p.zero_points[at] >> n % 4 * 8 & 255)) * 0x10001u;
	}
	UNROLL
	for (int t = 0; t < M; t++) {
		if constexpr (M > 2)
			schedule_barrier();
		/* Missing tokens repeat the last one. */
		const u32x4 *xt = x + (t < a.n_tok ? t : a.n_tok - 1) * (a.k / 8);
		if constexpr (HALVES) {
			sum[t] += linear_rows_dot<format, 0, 2>(q, xt, pitch, minus) * scale;
			sum[t] += linear_rows_dot<format, 2, 4>(q, xt, pitch, minus) * second;
		} else {
			sum[t] += linear_rows_dot<format, 0, 4>(q, xt, pitch, minus) * scale;
		}
	}
}

/* A lane's sums over all of K, for the rows from n on. Rows past the part's end repeat
 * its last one. */
template <int M, int format>
DEVICE void linear_rows_sum(const linear_rows_args &a, const linear_rows_part &p, int32_t n,
			    const u32x4 *lds, float (*sum)[M])
{
	using F = linear_rows_of<format>;
	enum { TILE = LINEAR_ROWS_TILE, AT_ONCE = M > 2 ? 1 : 2 };
	const char *q[TILE];
	int32_t row[TILE], lane = (int32_t)lane_index(), step = 0;
	int32_t whole = a.k / F::STEP, lanes = a.k % F::STEP / F::EACH;
	UNROLL
	for (int y = 0; y < TILE; y++) {
		row[y] = n + y < p.n ? n + y : p.n - 1;
		q[y] = p.q + (size_t)row[y] * (size_t)p.pitch + lane * 16;
	}
	for (; step + AT_ONCE <= whole; step += AT_ONCE) {
		u32x4 v[AT_ONCE][TILE];
		UNROLL
		for (int u = 0; u < AT_ONCE; u++)
			UNROLL
			for (int y = 0; y < TILE; y++)
				v[u][y] = load_nt<u32x4>(q[y] + (step + u) * WAVE * 16);
		UNROLL
		for (int u = 0; u < AT_ONCE; u++)
			UNROLL
			for (int y = 0; y < TILE; y++)
				linear_rows_use<M, format>(
					a, p, v[u][y], row[y],
					(step + u) * F::STEP + lane * F::EACH,
					lds + (step + u) * F::STEP / 8 + lane, WAVE, sum[y]);
	}
	for (; step <= whole; step++) {
		int32_t here = step < whole ? WAVE : lanes;
		if (lane >= here)
			break;
		UNROLL
		for (int y = 0; y < TILE; y++)
			linear_rows_use<M, format>(a, p, load_nt<u32x4>(q[y] + step * WAVE * 16),
						   row[y], step * F::STEP + lane * F::EACH,
						   lds + step * F::STEP / 8 + lane, here, sum[y]);
	}
}

/* Add up the lanes of each row; the first lane stores. */
template <int M, int format>
DEVICE void linear_rows_store(const linear_rows_args &a, const linear_rows_part &p,
			      int32_t n, float (*sum)[M])
{
	UNROLL
	for (int y = 0; y < LINEAR_ROWS_TILE; y++) {
		float scale = p.factor;
		if (linear_rows_bits(format) == 8 && a.n_groups == 1 && n + y < p.n)
			scale *= scale_at(p.scales, p.scale_format,
					  (size_t)((n + y) / p.group_n));
		UNROLL
		for (int t = 0; t < M; t++) {
			float x = wave_sum(sum[y][t]);
			if (lane_index() != 0 || n + y >= p.n || t >= a.n_tok)
				continue;
			x *= scale;
			if (p.bias)
				x += p.bias[n + y];
			linear_store(p.y, (size_t)t * (size_t)p.n + (size_t)(n + y), x,
				     p.store);
		}
	}
}

template <int M, int format> DEVICE void linear_rows(const linear_rows_args &a)
{
	constexpr int32_t ROWS = LINEAR_ROWS_WAVES * LINEAR_ROWS_TILE;
	LDS_DYNAMIC(u32x4, lds);
	for (int t = 0; t < M && t < a.n_tok; t++)
		linear_rows_stage<format>(a.x + (size_t)t * (size_t)a.k, a.k,
					  lds + t * (a.k / 8));
	group_barrier();

	int32_t group = (int32_t)group_index_x(), end = a.grid;
	linear_rows_part p = linear_rows_find(a, group, &end);
	int32_t n = (group - p.first_group) * ROWS + (int32_t)wave_index() * LINEAR_ROWS_TILE;
	for (; n < p.n; n += (end - p.first_group) * ROWS) {
		float sum[LINEAR_ROWS_TILE][M] = {};
		linear_rows_sum<M, format>(a, p, n, lds, sum);
		linear_rows_store<M, format>(a, p, n, sum);
	}
}
