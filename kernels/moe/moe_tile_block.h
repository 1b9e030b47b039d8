/* SPDX-License-Identifier: Apache-2.0
 *
 * A workgroup's block of the experts' products, the body of moe_tile.hip and
 * moe_tile_units.hip. moe_tile.hip describes it.
 */
#pragma once
#include "kernels/moe/moe_act.h"
#include "kernels/moe/moe_tile.h"
#include "kernels/linear/tile_gemm.h"

/* Row `row` of w, or w's last row if that is past the end. */
template <class G> DEVICE gemm_row moe_tile_row(const weight_view &w, int32_t row)
{
	size_t n = (size_t)(row < w.n ? row : w.n - 1);
	gemm_row out = {};
	if constexpr (G::IS_UNITS) {
		out.unit = unit_row_at<G::UNIT>(w, row, unit_groups(w.k, w.group));
		return out;
	}
	out.q = (const char *)w.q + n * (size_t)w.pitch;
	if constexpr (G::IS_INT4) {
		size_t groups = (size_t)(w.k / w.group);
		out.scales = (const uint16_t *)w.scales + n * groups;
		if constexpr (G::HAS_ZEROS) {
			if (w.zero_points)
				out.zeros = w.zero_points + n / 8 * groups;
			out.zero_shift = (uint32_t)n % 8 * 4;
		}
	}
	return out;
}

/* The pair of row m of a block. Unused rows give the block's first pair. */
DEVICE uint32_t moe_tile_pair(const int32_t *pairs, int32_t m)
{
	return (uint32_t)(pairs[m] < 0 ? pairs[0] : pairs[m]);
}

/* Rows of a block that have pairs, in whole tiles. Unused rows are its last. Full blocks have
 * a loop of their own for int4 alone: it takes as long to compile again, and saves little. */
template <class G> DEVICE gemm_rows moe_tile_rows(const int32_t *pairs)
{
	int32_t n = 16;
	UNROLL
	for (int m = 16; m < G::BM; m += 16)
		n += pairs[m] >= 0 ? 16 : 0;
	n = (int32_t)wave_uniform((uint32_t)n);
	return {n, G::BM == 16 || (G::IS_INT4 && n == G::BM)};
}

/* Address of a pair's h. The division is in 32 bits, because one of 64 bits takes some
 * 150 instructions. */
DEVICE uint16_t *moe_tile_h(const moe_launch &m, uint32_t p)
{
	uint32_t n_slots = (uint32_t)m.n_slots;
	return moe_slot_h(m, p / n_slots, p % n_slots);
}

template <class G> DEVICE void moe_tile_up(const moe_tile_launch &a)
{
	int32_t at = (int32_t)wave_uniform(group_index_x());
	int32_t block = at / a.n_blocks, f0 = at % a.n_blocks * (G::BN / 2);
	int32_t e = a.block_expert[block];
	if (e < 0)
		return;
	const moe_launch &m = a.m;
	const int32_t *pairs = a.pairs + (size_t)block * G::BM;
	weight_view gate = m.table[e * MOE_PARTS + MOE_GATE];
	weight_view up = m.table[e * MOE_PARTS + MOE_UP];
	gemm_weight w = {m.dim, m.up_shift, m.is_bf16 != 0,
			 {m.up_shift, gate.scale_format, NULL}, m.x};
	gemm_sums<G> sum;
	auto x_row = [&](int32_t row) {
		uint32_t t = moe_tile_pair(pairs, row) / (uint32_t)m.n_slots;
		return t * (uint32_t)m.dim;
	};
	auto w_row = [&](int32_t n) {
		int32_t f = f0 + n / 32 * 16 + n % 16;
		return moe_tile_row<G>(n / 16 % 2 ? up : gate, f);
	};
	gemm_run<G>(&w, x_row, w_row, moe_tile_rows<G>(pairs), &sum);
	static_assert(G::NT % 2 == 0, "gate and up side by side");
	moe_pair p;
	p.expert = (size_t)e;
	p.is_shared = e == m.shared;
	int32_t m0 = gemm_wave_m(G::WAVES_N) * (G::MT * 16);
	f0 += gemm_wave_n(G::WAVES_N) * (G::NT * 8);
	UNROLL
	for (int r = 0; r < G::MT; r++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t pair = pairs[m0 + r * 16 + tile_row(i)];
			if (pair < 0)
				continue;
			uint16_t *h = p.h = moe_tile_h(m, (uint32_t)pair);
			UNROLL
			for (int n = 0; n < G::NT; n += 2) {
				int32_t f = f0 + n * 8 + tile_column(i);
				if (f < m.ffn)
					h[f] = moe_act(m, p, (size_t)f,
						       sum.v[r][n].v[i] * gate.factor,
						       sum.v[r][n + 1].v[i] *
							       up.factor);
			}
		}
}

/* Store a wave's outputs. The lane's columns are d0 and d0 + 1, and those 32 behind. D is a
 * multiple of eight. bias: (D), or NULL. */
template <class G>
DEVICE void moe_tile_put(const moe_tile_launch &a, const gemm_sums<G> &sum, const int32_t *pairs,
			 int32_t d0, float factor, const float *bias)
{
	int32_t m0 = gemm_wave_m(G::WAVES_N) * (G::MT * 16), dim = a.m.dim;
	float b[G::NT] = {};
	UNROLL
	for (int n = 0; n < G::NT; n++)
		if (bias && d0 + n / 2 * 32 < dim)
			b[n] = load_global<float>(bias + d0 + n / 2 * 32 + n % 2);
	UNROLL
	for (int r = 0; r < G::MT; r++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t pair = pairs[m0 + r * 16 + tile_row(i)];
			if (pair < 0)
				continue;
			uint16_t *out = a.out + (size_t)pair * (size_t)dim;
			UNROLL
			for (int n = 0; n < G::NT; n += 2) {
				int32_t d = d0 + n * 16;
				if (d < dim)
					*(uint32_t *)(out + d) =
						moe_out(sum.v[r][n].v[i] * factor + b[n]) |
						(uint32_t)moe_out(sum.v[r][n + 1].v[i] * factor +
								  b[n + 1]) << 16;
			}
		}
}

template <class G> DEVICE void moe_tile_down(const moe_tile_launch &a)
{
	int32_t at = (int32_t)wave_uniform(group_index_x());
	int32_t block = at / a.n_blocks, d0 = at % a.n_blocks * G::BN;
	int32_t e = a.block_expert[block];
	if (e < 0)
		return;
	const moe_launch &m = a.m;
	const int32_t *pairs = a.pairs + (size_t)block * G::BM;
	weight_view down = m.table[e * MOE_PARTS + MOE_DOWN];
	/* A block's pairs have one expert, so all their h are in one array. It has less than 2^32
	 * bytes: the host takes as many tokens at once as work memory has room for. */
	gemm_weight w = {m.ffn, m.down_shift, m.is_bf16 != 0,
			 {m.down_shift, down.scale_format, NULL},
			 e == m.shared ? m.shared_h : m.h};
	gemm_sums<G> sum;
	auto x_row = [&](int32_t row) {
		return (uint32_t)(moe_tile_h(m, moe_tile_pair(pairs, row)) - w.x);
	};
	/* Even rows of W in one tile, odd ones in the next: a lane stores two neighbours. */
	auto w_row = [&](int32_t n) {
		return moe_tile_row<G>(down, d0 + n / 32 * 32 + n % 16 * 2 + n / 16 % 2);
	};
	gemm_run<G>(&w, x_row, w_row, moe_tile_rows<G>(pairs), &sum);
	d0 += gemm_wave_n(G::WAVES_N) * (G::NT * 16) + 2 * tile_column(0);
	const float *bias = m.down_bias && e != m.shared
				    ? m.down_bias + (size_t)e * (size_t)m.dim : NULL;
	moe_tile_put<G>(a, sum, pairs, d0, down.factor, bias);
}

#define MOE_TILE(tile, name, format, bm, bn, bk, wm, wn) \
	KERNEL(wm * wn * WAVE) \
	void moe_tile_up_##tile##_##name##_kernel(moe_tile_launch a) \
	{ \
		moe_tile_up<gemm_tile<format, bm, bn, bk, wm, wn>>(a); \
	} \
	KERNEL(wm * wn * WAVE) \
	void moe_tile_down_##tile##_##name##_kernel(moe_tile_launch a) \
	{ \
		moe_tile_down<gemm_tile<format, bm, bn, bk, wm, wn>>(a); \
	}
