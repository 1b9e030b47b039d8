/* SPDX-License-Identifier: Apache-2.0
 *
 * A workgroup's block of the product, the body of linear_tile.hip and
 * linear_tile_units.hip. linear_tile.hip describes it.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/linear/linear_tile.h"
#include "kernels/linear/tile_gemm.h"
#include "kernels/rows/silu.h"

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

/* Row n of a part, or its last row if that is past the end. */
template <class G>
DEVICE gemm_row linear_tile_row(const linear_tile_args &a, const linear_rows_part &p, int32_t n)
{
	size_t row = (size_t)(n < p.n ? n : p.n - 1);
	gemm_row out = {};
	if constexpr (G::IS_UNITS) {
		weight_view view = {};
		view.q = p.q;
		view.scales = p.scales;
		view.zero_points = p.zero_points;
		view.n = p.n;
		view.pitch = p.pitch;
		view.group_n = p.group_n;
		view.scale_format = p.scale_format;
		out.unit = unit_row_at<G::UNIT>(view, n, a.n_groups);
		return out;
	}
	out.q = p.q + row * (size_t)p.pitch;
	if constexpr (G::IS_INT4)
		out.scales = (const uint16_t *)p.scales + row * (size_t)a.n_groups;
	if constexpr (G::HAS_ZEROS) {
		if (p.zero_points)
			out.zeros = p.zero_points + row / 8 * (size_t)a.n_groups;
		out.zero_shift = (uint32_t)row % 8 * 4;
	}
	return out;
}

DEVICE float linear_tile_bias(const linear_rows_part &p, int32_t n)
{
	return p.bias && n < p.n ? p.bias[n] : 0;
}

/* Store silu(gate) up for outputs f0 on. Tiles of gate and of up take turns. */
template <class G>
DEVICE void linear_tile_store_pair(const linear_tile_args &a, const gemm_sums<G> &sum, int32_t m0,
				   int32_t f0)
{
	const linear_rows_part &p = a.part[0], &q = a.part[1];
	m0 += gemm_wave_m(G::WAVES_N) * (G::MT * 16);
	f0 += gemm_wave_n(G::WAVES_N) * (G::NT * 8);
	UNROLL
	for (int n = 0; n + 1 < G::NT; n += 2)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t f = f0 + n * 8 + tile_column(i);
			float gate_bias = linear_tile_bias(p, f), up_bias = linear_tile_bias(q, f);
			UNROLL
			for (int r = 0; r < G::MT; r++) {
				int32_t m = m0 + r * 16 + tile_row(i);
				if (m >= a.m || f >= p.n)
					continue;
				uint16_t gate = f32_to_f16(sum.v[r][n].v[i] * p.factor + gate_bias);
				uint16_t up = f32_to_f16(sum.v[r][n + 1].v[i] * q.factor + up_bias);
				((uint16_t *)p.y)[(size_t)m * (size_t)p.n + (size_t)f] =
					(uint16_t)silu_mul_one(gate, up);
			}
		}
}

template <class G> DEVICE void linear_tile(const linear_tile_args &a)
{
	constexpr bool HAS_PAIRS = LINEAR_TILE_PAIRS(G::BN, G::WAVES_N);
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
	gemm_sums<G> sum;
	auto x_row = [&](int32_t m) {
		return (uint32_t)(m0 + m < a.m ? m : a.m - 1 - m0) * (uint32_t)a.k;
	};
	auto w_row = [&](int32_t n) {
		if (!HAS_PAIRS || !a.is_pair)
			return linear_tile_row<G>(a, p, n0 + n);
		int32_t f = n0 / 2 + n / 32 * 16 + n % 16;
		gemm_row gate = linear_tile_row<G>(a, a.part[0], f);
		gemm_row up = linear_tile_row<G>(a, a.part[1], f);
		return n / 16 % 2 ? up : gate;
	};
	gemm_run<G>(&w, x_row, w_row, {G::BM, true}, &sum);
	if constexpr (HAS_PAIRS)
		if (a.is_pair) {
			linear_tile_store_pair(a, sum, m0, n0 / 2);
			return;
		}
	auto bias = [&](int32_t n) { return linear_tile_bias(p, n0 + n); };
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
