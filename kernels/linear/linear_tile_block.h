/* SPDX-License-Identifier: Apache-2.0
 *
 * A workgroup's block of the product, the body of linear_tile.hip and
 * linear_tile_units.hip. linear_tile.hip describes it.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/linear/linear_tile.h"
#include "kernels/linear/tile_gemm.h"

enum { LINEAR_TILE_BAND = 8 };

template <class G, uint32_t store, class B>
DEVICE void linear_tile_store(const gemm_sums<G> *sum, const linear_rows_part &p,
			      int32_t m0, int32_t n_tok, int32_t n0, B bias)
{
	gemm_each(sum, bias, [&](int32_t m, int32_t n, float x, float b) {
		if (m0 + m < n_tok && n0 + n < p.n)
			linear_store(p.y, (size_t)(m0 + m) * (size_t)p.n + (size_t)(n0 + n),
				     x * p.factor + b, store);
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

	linear_rows_part p = a.part[LINEAR_ROWS_MAX_PART - 1];
	UNROLL
	for (int i = LINEAR_ROWS_MAX_PART - 2; i >= 0; i--)
		if (n_block < a.part[i + 1].first_group)
			p = a.part[i];
	int32_t n0 = (n_block - p.first_group) * G::BN;

	gemm_weight w = {a.k, a.group_shift, p.scale_format == SCALE_BF16,
			 {a.group_shift, p.scale_format, NULL},
			 a.x + (size_t)m0 * (size_t)a.k};
	weight_view view = {};
	view.q = p.q;
	view.scales = p.scales;
	view.zero_points = p.zero_points;
	view.n = p.n;
	view.pitch = p.pitch;
	view.group_n = p.group_n;
	view.scale_format = p.scale_format;
	gemm_sums<G> sum;
	auto x_row = [&](int32_t m) {
		return (uint32_t)(m0 + m < a.m ? m : a.m - 1 - m0) * (uint32_t)a.k;
	};
	auto w_row = [&](int32_t n) {
		size_t row = (size_t)(n0 + n < p.n ? n0 + n : p.n - 1);
		gemm_row out = {};
		if constexpr (G::IS_UNITS) {
			out.unit = unit_row_at<G::UNIT>(view, n0 + n, a.n_groups);
			return out;
		}
		out.q = p.q + row * (size_t)p.pitch;
		if constexpr (G::IS_INT4) {
			out.scales = (const uint16_t *)p.scales + row * (size_t)a.n_groups;
			if (p.zero_points)
				out.zeros = p.zero_points + row / 8 * (size_t)a.n_groups;
			out.zero_shift = (uint32_t)row % 8 * 4;
		}
		return out;
	};
	gemm_run<G>(&w, x_row, w_row, {G::BM, true}, &sum);
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
	KERNEL_OF_MANY(wm * wn * WAVE, (gemm_tile<format, bm, bn, bk, wm, wn>::ROOM)) \
	void linear_tile_##tile##_##name##_kernel(linear_tile_args a) \
	{ \
		linear_tile<gemm_tile<format, bm, bn, bk, wm, wn>>(a); \
	}
