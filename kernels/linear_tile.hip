/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/linear.h for many tokens: Y = X W' + bias, or added to Y
 * LAYOUT    kernels/linear_tile.h. W int4 as in the checkpoint, f16, or bf16; X f16
 * GEOMETRY  kernels/tile_gemm.h, a workgroup a block of BLOCK_M x BLOCK_N. Workgroups
 *           in order of launch take BAND blocks of tokens for each block of outputs, so
 *           that those that run together share both X and W in the caches. LDS: 41 KiB
 *           at 128 x 128 x 32 int4, 61 KiB bf16.
 * PRECISION int4, f16: products are exact, sums f32; scales in f32 on the sum of each
 *           group. bf16: X as two bf16, exactly; sums f32
 * ROOFLINE  gfx11: a v_wmma takes 32 cycles of its SIMD for 16 x 16 x 16, so a step of
 *           128 x 128 x 32 is 512 cycles of each of 8 waves. Beside it: dequantization
 *           208 vector instructions over the 8 waves (26 a wave, 5 %); scaling of groups
 *           of 32, 64 fma a wave, 32 where they pair (6 to 12 %; of 128 a quarter);
 *           24 LDS loads of 16 bytes a lane a wave: 8 waves x 24 x 4 cycles of 128 bytes
 *           = 768 of the 1024 cycles that two SIMDs need: LDS is nearly as busy as
 *           the matrix units, so larger wave tiles than 64 x 32 would pay, if registers
 *           allowed. Expected 75 % of 59 TFLOP/s on 40 compute units.
 * TRIED     weights rounded to f16 with their scale: no fold, but an error of 2^-12 a
 *           weight, and scales above 65504 / 8 overflow; K padded per group in place of
 *           fold at its end: the same; two bf16 terms of X against rounding W to f16:
 *           twice the products, but right for any bf16
 * SEE       kernels/linear_ref.c, kernels/linear_tile.def, kernels/linear_int4_dot.h (few
 *           tokens)
 */
#include "kernels/dialect.h"
#include "kernels/linear_tile.h"
#include "kernels/tile_gemm.h"

enum { LINEAR_TILE_BAND = 8 };

template <class G, uint32_t store, class B>
DEVICE void linear_tile_store(const gemm_sums<G> *sum, const linear_int4_part &p,
			      int32_t m0, int32_t n_tok, int32_t n0, B bias)
{
	gemm_each(sum, bias, [&](int32_t m, int32_t n, float x, float b) {
		if (m0 + m < n_tok && n0 + n < p.n)
			linear_store(p.y, (size_t)(m0 + m) * (size_t)p.n + (size_t)(n0 + n),
				     x + b, store);
	});
}

template <class G> DEVICE void linear_tile(const linear_tile_args &a)
{
	int32_t m_blocks = LINEAR_TILE_BLOCKS(a.m, (int32_t)G::BM);
	int32_t at = (int32_t)wave_uniform(group_index_x());
	int32_t band = at / (LINEAR_TILE_BAND * a.n_blocks) * LINEAR_TILE_BAND;
	int32_t high = m_blocks - band;
	high = high < LINEAR_TILE_BAND ? high : LINEAR_TILE_BAND;
	at -= band * a.n_blocks;
	int32_t m0 = (band + at % high) * G::BM, n_block = at / high;

	linear_int4_part p = a.part[LINEAR_INT4_MAX_PART - 1];
	UNROLL
	for (int i = LINEAR_INT4_MAX_PART - 2; i >= 0; i--)
		if (n_block < a.part[i + 1].first_group)
			p = a.part[i];
	int32_t n0 = (n_block - p.first_group) * G::BN;

	gemm_weight w = {a.k, a.group_shift, p.is_bf16 != 0};
	gemm_sums<G> sum;
	auto x_row = [&](int32_t m) {
		m = m0 + m < a.m ? m0 + m : a.m - 1;
		return a.x + (size_t)m * (size_t)a.k;
	};
	auto w_row = [&](int32_t n) {
		size_t row = (size_t)(n0 + n < p.n ? n0 + n : p.n - 1);
		gemm_row out = {};
		out.q = p.q + row * (size_t)p.pitch;
		if constexpr (G::IS_INT4) {
			out.scales = (const uint16_t *)p.scales + row * (size_t)a.n_groups;
			if (p.zero_points)
				out.zeros = p.zero_points + row / 8 * (size_t)a.n_groups;
			out.zero_shift = (uint32_t)row % 8 * 4;
		}
		return out;
	};
	gemm_run<G>(&w, x_row, w_row, &sum);
	auto bias = [&](int32_t n) {
		return p.bias && n0 + n < p.n ? p.bias[n0 + n] : 0;
	};
	if (p.store == LINEAR_TO_F16)
		linear_tile_store<G, LINEAR_TO_F16>(&sum, p, m0, a.m, n0, bias);
	else if (p.store == LINEAR_TO_F32)
		linear_tile_store<G, LINEAR_TO_F32>(&sum, p, m0, a.m, n0, bias);
	else
		linear_tile_store<G, LINEAR_ADD_F32>(&sum, p, m0, a.m, n0, bias);
}

#define LINEAR_TILE(tile, name, format, bm, bn, bk, wm, wn) \
	KERNEL(wm * wn * WAVE) \
	void linear_tile_##tile##_##name##_kernel(linear_tile_args a) \
	{ \
		linear_tile<gemm_tile<format, bm, bn, bk, wm, wn>>(a); \
	}
#define TILE(tile, bm, bn, bk, wm, wn, rate) \
	LINEAR_TILE(tile, int4g32, GEMM_INT4_G32, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, int4, GEMM_INT4, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, f16, GEMM_F16, bm, bn, bk, wm, wn) \
	LINEAR_TILE(tile, bf16, GEMM_BF16, bm, bn, bk, wm, wn)
#include "kernels/linear_tile.def"
#undef TILE
#undef LINEAR_TILE
