/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/moe_experts.h for many tokens
 * LAYOUT    kernels/moe_tile.h, pairs as moe_align.hip has sorted them; weights int4,
 *           f16 or bf16, all experts of the same
 * GEOMETRY  up, down: kernels/tile_gemm.h, a workgroup a block of pairs and BLOCK_N
 *           rows; X is gathered by pair. up: every other 16 rows of the block are of
 *           gate, those between of up, so that a lane has both sums of its h and writes
 *           silu(g) u. combine: (D over 256, T), a thread a number of y, the slots in
 *           their order. Rows of a block that are no pair compute what the first pair
 *           does, and are not stored.
 * PRECISION as linear_tile.hip; h rounded to f16; f32 from there to y
 * ROOFLINE  Qwen3-30B-A3B, 512 tokens: 32 pairs an expert, 226 MB of weights a layer
 *           (0.9 ms at 256 GB/s; 19 TFLOP/s would hide behind it), 39 GFLOP with the
 *           last blocks' rests: bound by memory on Strix Halo up to about 1,000 tokens.
 *           out costs 8 D bytes a pair: 8 MB in 226.
 * TRIED     down adding to y in f32 atomics: no `out`, but sums of another order each
 *           time; larger blocks at 512 tokens: half of their rows are empty
 * SEE       kernels/moe_experts_ref.c, kernels/moe_tile.def, kernels/linear_tile.hip
 */
#include "kernels/moe_act.h"
#include "kernels/moe_tile.h"
#include "kernels/tile_gemm.h"

/* Row `row` of w, or its last. */
template <class G> DEVICE gemm_row moe_tile_row(const weight_view &w, int32_t row)
{
	size_t n = (size_t)(row < w.n ? row : w.n - 1);
	gemm_row out = {};
	out.q = (const char *)w.q + n * (size_t)w.pitch;
	if constexpr (G::IS_INT4) {
		size_t groups = (size_t)(w.k / w.group);
		out.scales = (const uint16_t *)w.scales + n * groups;
		if (w.zero_points)
			out.zeros = w.zero_points + n / 8 * groups;
		out.zero_shift = (uint32_t)n % 8 * 4;
	}
	return out;
}

/* The pair of row m of a block; the first, where there is none. */
DEVICE size_t moe_tile_pair(const int32_t *pairs, int32_t m)
{
	return (size_t)(pairs[m] < 0 ? pairs[0] : pairs[m]);
}

DEVICE uint16_t *moe_tile_h(const moe_launch &m, size_t p)
{
	size_t n = (size_t)m.n_slots, u = (size_t)m.n_used, slot = p % n, t = p / n;
	return slot == u ? m.shared_h + t * (size_t)m.ffn
			 : m.h + (t * u + slot) * (size_t)m.ffn;
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
	gemm_weight w = {m.dim, m.up_shift, m.is_bf16 != 0};
	gemm_sums<G> sum;
	auto x_row = [&](int32_t row) {
		size_t t = moe_tile_pair(pairs, row) / (size_t)m.n_slots;
		return m.x + t * (size_t)m.dim;
	};
	auto w_row = [&](int32_t n) {
		int32_t f = f0 + n / 32 * 16 + n % 16;
		return moe_tile_row<G>(n / 16 % 2 ? up : gate, f);
	};
	gemm_run<G>(&w, x_row, w_row, &sum);
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
			uint16_t *h = moe_tile_h(m, (size_t)pair);
			UNROLL
			for (int n = 0; n < G::NT; n += 2) {
				int32_t f = f0 + n * 8 + tile_column(i);
				if (f < m.ffn)
					h[f] = moe_act(m, p, (size_t)f,
						       sum.v[r][n].v[i],
						       sum.v[r][n + 1].v[i]);
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
	gemm_weight w = {m.ffn, m.down_shift, m.is_bf16 != 0};
	gemm_sums<G> sum;
	auto x_row = [&](int32_t row) {
		return moe_tile_h(m, moe_tile_pair(pairs, row));
	};
	auto w_row = [&](int32_t n) { return moe_tile_row<G>(down, d0 + n); };
	gemm_run<G>(&w, x_row, w_row, &sum);
	auto bias = [&](int32_t n) {
		bool is_in = m.down_bias && e != m.shared && d0 + n < m.dim;
		return is_in ? m.down_bias[(size_t)e * (size_t)m.dim + (size_t)(d0 + n)] : 0;
	};
	gemm_each(&sum, bias, [&](int32_t row, int32_t n, float x, float b) {
		int32_t pair = pairs[row];
		if (pair >= 0 && d0 + n < m.dim)
			a.out[(size_t)pair * (size_t)m.dim + (size_t)(d0 + n)] = x + b;
	});
}

KERNEL(MOE_COMBINE_THREADS) void moe_combine_kernel(moe_tile_launch a)
{
	size_t d = group_index_x() * MOE_COMBINE_THREADS + thread_index();
	size_t t = group_index_y(), dim = (size_t)a.m.dim, n = (size_t)a.m.n_slots;
	if (d >= dim)
		return;
	float *y = a.m.y + t * dim + d, sum = *y;
	const float *out = a.out + t * n * dim + d;
	for (size_t s = 0; s < n; s++)
		sum += out[s * dim] * moe_slot_weight(a.m, t, s);
	*y = sum;
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
#define TILE(tile, bm, bn, bk, wm, wn, rate) \
	MOE_TILE(tile, int4g32, GEMM_INT4_G32, bm, bn, bk, wm, wn) \
	MOE_TILE(tile, int4, GEMM_INT4, bm, bn, bk, wm, wn) \
	MOE_TILE(tile, f16, GEMM_F16, bm, bn, bk, wm, wn) \
	MOE_TILE(tile, bf16, GEMM_BF16, bm, bn, bk, wm, wn)
#include "kernels/moe_tile.def"
#undef TILE
#undef MOE_TILE
