/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/moe_experts.h, struct moe_lora: low = s scale[t] A x, then B low. That of
 *           gate and up goes to `high`, which the experts' kernels add as they add biases
 *           (moe_act.h). That of down is weighted, and added to y behind them
 * LAYOUT    kernels/moe/moe_lora_launch.h; A (R, K) and B (R, N) of each expert, f32, f16 or bf16
 * GEOMETRY  few tokens take a launch before gate and up, and one behind down. up: 512 threads
 *           compute all of low of a pair's gate or up, as lora_add.hip, and then an element of
 *           `high` each, (F over 512, times 2 U, T). LDS: the waves' sums, and low.
 *           down: 8 waves. A wave takes every eighth slot, computes low for itself, and then two
 *           elements of y a lane; then the waves' sums are added in order. (D over 64, T). LDS: 8
 *           numbers of low a wave, and a sum for each.
 *           Many tokens go by blocks of 16 pairs of one expert, so that A and B stay in L2, and
 *           four pairs of one adapter share a read. low_tiles: 8 waves, two rows of A each,
 *           (blocks times parts, R over 16). high_*_tiles: 256 threads, a column of B each,
 *           (blocks times parts, columns over 256)
 * PRECISION f32
 * ROOFLINE  bound by memory: A and B of the chosen experts are read once for each pair. Rank 16 of
 *           Qwen3-30B-A3B in bfloat16: 2.2 MB a token and layer, 8 us at 256 GB/s
 * TRIED     sums B low in the epilogue of gate and up: registers of each format's kernel, of steps
 *           without adapters, too. (by prediction) many tokens as few: each pair reads A and B
 *           from MALL, and a prompt of 4,096 tokens takes 5.6 times as long
 * SEE       kernels/ops/moe_experts_ref.c, kernels/rows/lora_add.hip
 */
#include "kernels/rows/lora_rows.h"
#include "kernels/moe/moe_act.h"
#include "kernels/moe/moe_lora_launch.h"

/* The adapter's matrices for a pair; rank 0: it changes nothing. */
DEVICE lora_part moe_lora_part(const moe_lora_launch &a, uint32_t t, uint32_t u, int32_t part)
{
	lora_part none = {nullptr, nullptr, 0, 0, LORA_F32, 0};
	int32_t i = a.adapter[t];
	if (i < 0)
		return none;
	size_t e = (size_t)a.id[t * (uint32_t)a.n_used + u];
	return a.part[((size_t)i * (size_t)a.n_experts + e) * MOE_PARTS + (size_t)part];
}

/* Element f of what is added to gate or up of a pair; old: the bias. */
template <int TYPE>
DEVICE float moe_lora_up(const moe_lora_launch &a, const lora_part &p, uint32_t t, int32_t f,
			 float old, float *lds)
{
	lora_input v = {a.x + (size_t)t * (size_t)a.x_token, 0, (size_t)a.n_in, a.n_in,
			a.by_fours != 0};
	auto ahead = lora_load_ahead<TYPE, LORA_ROWS>(p, 0, f, a.ffn);
	const float *low = lora_own_low<TYPE>(p, v, p.scale * a.scale[t], lds);
	return old + lora_high<TYPE>(p, [&](int32_t r) { return low[r]; }, f, a.ffn, ahead);
}

/* Where nothing is added, -0 keeps the bits of every number. */
KERNEL(LORA_THREADS)
void moe_lora_up_kernel(moe_lora_launch a)
{
	LDS_DYNAMIC(float, lds);
	uint32_t pieces = ((uint32_t)a.ffn + LORA_THREADS - 1) / LORA_THREADS;
	uint32_t t = group_index_y(), row = group_index_x() / pieces, u = row / 2, at = row % 2;
	int32_t f = (int32_t)(group_index_x() % pieces * LORA_THREADS + thread_index());
	lora_part p = moe_lora_part(a, t, u, MOE_GATE + (int32_t)at);
	const float *bias = at ? a.up_bias : a.gate_bias;
	size_t ffn = (size_t)a.ffn, pair = (size_t)t * (size_t)a.n_used + u;
	size_t to = (at * (size_t)a.n_tok * (size_t)a.n_used + pair) * ffn;
	int32_t n = f < a.ffn ? f : a.ffn - 1;
	float sum = bias ? bias[(size_t)a.id[pair] * ffn + (size_t)n] : -0.f;
	if (p.rank && p.type == LORA_F32)
		sum = moe_lora_up<LORA_F32>(a, p, t, n, sum, lds);
	else if (p.rank && p.type == LORA_F16)
		sum = moe_lora_up<LORA_F16>(a, p, t, n, sum, lds);
	else if (p.rank)
		sum = moe_lora_up<LORA_BF16>(a, p, t, n, sum, lds);
	if (f < a.ffn)
		a.high[to + (size_t)f] = sum;
}

/* sum[j] += weight * B low of a pair in this lane's columns d + j WAVE, by a wave. low: LDS of the
 * wave, MOE_LORA_LOWS numbers. */
template <int TYPE>
DEVICE void moe_lora_down(const moe_lora_launch &a, const lora_part &p, uint32_t t, uint32_t u,
			  int32_t d, float *low, float (&sum)[MOE_LORA_EACH])
{
	int32_t lane = (int32_t)lane_index();
	size_t pair = (size_t)t * (size_t)a.n_used + u;
	float weight = a.weight[pair], scale = p.scale * a.scale[t], high[MOE_LORA_EACH] = {};
	lora_input v = {a.x + (size_t)t * (size_t)a.x_token + u * (size_t)a.x_slot, 0,
			(size_t)a.n_in, a.n_in, a.by_fours != 0};
	for (int32_t r0 = 0; r0 < p.rank; r0 += MOE_LORA_LOWS) {
		float rows[MOE_LORA_LOWS] = {};
		lora_ahead<TYPE, MOE_LORA_LOWS> b[MOE_LORA_EACH];
		UNROLL
		for (int32_t j = 0; j < MOE_LORA_EACH; j++) {
			int32_t n = d + j * WAVE;
			b[j] = lora_load_ahead<TYPE, MOE_LORA_LOWS>(
				p, r0, n < a.dim ? n : a.dim - 1, a.dim);
		}
		lora_products<TYPE>(p, v, r0, lane, WAVE, rows);
		wave_barrier();
		lora_wave_sums(rows, low);
		wave_barrier();
		UNROLL
		for (int32_t j = 0; j < MOE_LORA_EACH; j++)
			UNROLL
			for (int32_t i = 0; i < MOE_LORA_LOWS; i++)
				high[j] += r0 + i < p.rank
						   ? low[i] * lora_ahead_at(b[j], i)
						   : 0;
	}
	UNROLL
	for (int32_t j = 0; j < MOE_LORA_EACH; j++)
		sum[j] += weight * scale * high[j];
}

KERNEL(MOE_LORA_WAVES * WAVE)
void moe_lora_down_kernel(moe_lora_launch a)
{
	LDS(float, sums, MOE_LORA_WAVES * MOE_LORA_COLUMNS);
	LDS(float, lows, MOE_LORA_WAVES * MOE_LORA_LOWS);
	uint32_t t = group_index_y(), lane = lane_index(), wave = wave_index();
	float *low = lows + wave * MOE_LORA_LOWS, sum[MOE_LORA_EACH];
	int32_t first = (int32_t)(group_index_x() * MOE_LORA_COLUMNS), d = first + (int32_t)lane;
	if (a.adapter[t] < 0)
		return;
	UNROLL
	for (int32_t j = 0; j < MOE_LORA_EACH; j++)
		sum[j] = -0.f;
	for (uint32_t u = wave; u < (uint32_t)a.n_used; u += MOE_LORA_WAVES) {
		lora_part p = moe_lora_part(a, t, u, MOE_DOWN);
		if (p.rank && p.type == LORA_F32)
			moe_lora_down<LORA_F32>(a, p, t, u, d, low, sum);
		else if (p.rank && p.type == LORA_F16)
			moe_lora_down<LORA_F16>(a, p, t, u, d, low, sum);
		else if (p.rank)
			moe_lora_down<LORA_BF16>(a, p, t, u, d, low, sum);
	}
	UNROLL
	for (int32_t j = 0; j < MOE_LORA_EACH; j++)
		sums[wave * MOE_LORA_COLUMNS + j * WAVE + lane] = sum[j];
	group_barrier();
	uint32_t n = thread_index();
	if (n >= MOE_LORA_COLUMNS || first + (int32_t)n >= a.dim)
		return;
	float all = sums[n];
	for (uint32_t w = 1; w < MOE_LORA_WAVES; w++)
		all += sums[w * MOE_LORA_COLUMNS + n];
	a.y[(size_t)t * (size_t)a.dim + (size_t)first + n] += all;
}

/* --- many tokens ------------------------------------------------------------------------ */

/* Four pairs at most that a workgroup computes at once. */
struct moe_lora_group {
	lora_part part;               /* of all of them; rank 0: nothing is added */
	uint32_t pair[MOE_LORA_GROUP]; /* token * n_slots + slot; beyond n: the first */
	int32_t n;
};

/* The expert of part `at` of all blocks; -1: it has no pairs. */
DEVICE int32_t moe_lora_expert(const moe_lora_tiles &t, uint32_t at)
{
	uint32_t each = (uint32_t)t.block_m / MOE_LORA_BLOCK;
	int32_t expert = t.block_expert[at / each];
	bool has_pairs = expert >= 0 && expert != t.shared && t.pairs[at * MOE_LORA_BLOCK] >= 0;
	return has_pairs ? expert : -1;
}

DEVICE int32_t moe_lora_adapter(const moe_lora_tiles &t, uint32_t pair)
{
	return t.a.adapter[t.t0 + (int32_t)(pair / (uint32_t)t.n_slots)];
}

/* The pairs from i on that have one adapter: four of them, or one. */
DEVICE moe_lora_group moe_lora_next(const moe_lora_tiles &t, const int32_t *pairs, int32_t i,
				    size_t e, int32_t part)
{
	moe_lora_group g = {{nullptr, nullptr, 0, 0, LORA_F32, 0}, {}, 0};
	uint32_t first = wave_uniform((uint32_t)pairs[i]);
	int32_t adapter = moe_lora_adapter(t, first);
	bool is_same = true;
	UNROLL
	for (int32_t k = 0; k < MOE_LORA_GROUP; k++) {
		int32_t p = i + k < MOE_LORA_BLOCK ? pairs[i + k] : -1;
		is_same &= p >= 0 && moe_lora_adapter(t, (uint32_t)p) == adapter;
		g.pair[k] = wave_uniform(is_same ? (uint32_t)p : first);
	}
	g.n = is_same ? MOE_LORA_GROUP : 1;
	if (adapter >= 0)
		g.part = t.a.part[((size_t)adapter * (size_t)t.a.n_experts + e) * MOE_PARTS +
				  (size_t)part];
	return g;
}

/* The pair's place among all of the step's, token * n_used + slot. */
DEVICE size_t moe_lora_place(const moe_lora_tiles &t, uint32_t pair)
{
	uint32_t n = (uint32_t)t.n_slots, token = pair / n;
	return ((size_t)t.t0 + token) * (size_t)t.a.n_used + (pair - token * n);
}

/* sums: this lane's part of the products of rows `row` and `other` of A and x of N pairs. Each is
 * added in one order, whatever N is. */
template <int TYPE, int N>
DEVICE void moe_lora_products(const lora_part &p, size_t row, size_t other,
			      const uint16_t *const *x, int32_t n_in, float (*sums)[2])
{
	for (int32_t k = (int32_t)lane_index(); k < n_in; k += WAVE) {
		float a = lora_number<TYPE>(p.a, row + (size_t)k);
		float b = lora_number<TYPE>(p.a, other + (size_t)k);
		UNROLL
		for (int q = 0; q < N; q++) {
			float v = f16_to_f32(load_global<uint16_t>(x[q] + k));
			sums[q][0] = fma_f32(a, v, sums[q][0]);
			sums[q][1] = fma_f32(b, v, sums[q][1]);
		}
	}
}

/* The same by fours. */
template <int TYPE, int N>
DEVICE void moe_lora_fours(const lora_part &p, size_t row, size_t other,
			   const uint16_t *const *x, int32_t n_in, float (*sums)[2])
{
	for (int32_t k = (int32_t)lane_index() * 4; k < n_in; k += WAVE * 4) {
		float a[4], b[4], v[N][4];
		lora_load_four<TYPE>(p.a, row + (size_t)k, a);
		lora_load_four<TYPE>(p.a, other + (size_t)k, b);
		UNROLL
		for (int q = 0; q < N; q++)
			lora_load_four<LORA_F16>(x[q], (size_t)k, v[q]);
		UNROLL
		for (int q = 0; q < N; q++)
			UNROLL
			for (int e = 0; e < 4; e++) {
				sums[q][0] = fma_f32(a[e], v[q][e], sums[q][0]);
				sums[q][1] = fma_f32(b[e], v[q][e], sums[q][1]);
			}
	}
}

/* low of rows r and r + 1 of a group. */
template <int TYPE, int N>
DEVICE void moe_lora_group_low(const moe_lora_tiles &t, const moe_lora_group &g, int32_t r,
			       uint32_t at)
{
	const uint16_t *x[N];
	float sums[N][2] = {};
	size_t row = (size_t)r * (size_t)t.a.n_in;
	size_t other = r + 1 < g.part.rank ? row + (size_t)t.a.n_in : row;
	UNROLL
	for (int q = 0; q < N; q++) {
		size_t place = moe_lora_place(t, g.pair[q]), u = (size_t)t.a.n_used;
		x[q] = t.a.x + (t.a.x_slot ? place * (size_t)t.a.x_slot
					   : place / u * (size_t)t.a.x_token);
	}
	if (t.a.by_fours)
		moe_lora_fours<TYPE, N>(g.part, row, other, x, t.a.n_in, sums);
	else
		moe_lora_products<TYPE, N>(g.part, row, other, x, t.a.n_in, sums);
	UNROLL
	for (int q = 0; q < N; q++) {
		size_t place = moe_lora_place(t, g.pair[q]);
		float *low = t.a.low + (2 * place + at) * (size_t)t.a.rank;
		float scale = g.part.scale * t.a.scale[place / (uint32_t)t.a.n_used];
		float one = wave_sum(sums[q][0]) * scale, two = wave_sum(sums[q][1]) * scale;
		if (lane_index() == 0) {
			low[r] = one;
			if (r + 1 < g.part.rank)
				low[r + 1] = two;
		}
	}
}

template <int N>
DEVICE void moe_lora_typed_low(const moe_lora_tiles &t, const moe_lora_group &g, int32_t r,
			       uint32_t at)
{
	if (g.part.type == LORA_F32)
		moe_lora_group_low<LORA_F32, N>(t, g, r, at);
	else if (g.part.type == LORA_F16)
		moe_lora_group_low<LORA_F16, N>(t, g, r, at);
	else
		moe_lora_group_low<LORA_BF16, N>(t, g, r, at);
}

KERNEL(MOE_LORA_THREADS)
void moe_lora_low_tiles_kernel(moe_lora_tiles t)
{
	uint32_t parts = (uint32_t)t.a.n_parts, at = group_index_x() % parts;
	uint32_t block = group_index_x() / parts;
	const int32_t *pairs = t.pairs + (size_t)block * MOE_LORA_BLOCK;
	int32_t r = (int32_t)(group_index_y() * MOE_LORA_ROWS + wave_index() * 2);
	int32_t e = moe_lora_expert(t, block);
	if (e < 0)
		return;
	for (int32_t i = 0; i < MOE_LORA_BLOCK && pairs[i] >= 0;) {
		moe_lora_group g = moe_lora_next(t, pairs, i, (size_t)e, t.a.first + (int32_t)at);
		i += g.n;
		if (r >= g.part.rank)
			continue;
		if (g.n == 1)
			moe_lora_typed_low<1>(t, g, r, at);
		else
			moe_lora_typed_low<MOE_LORA_GROUP>(t, g, r, at);
	}
}

/* Row n of B low of N pairs, of `size`. Each is added in one order, whatever N is. */
template <int TYPE, int N>
DEVICE void moe_lora_highs(const lora_part &p, const float *const *low, int32_t n, int32_t size,
			   float *sums)
{
	for (int32_t r = 0; r < p.rank; r++) {
		float b = lora_number<TYPE>(p.b, (size_t)r * (size_t)size + (size_t)n);
		UNROLL
		for (int q = 0; q < N; q++)
			sums[q] = fma_f32(load_global<float>(low[q] + r), b, sums[q]);
	}
}

template <int N>
DEVICE void moe_lora_typed_high(const moe_lora_tiles &t, const moe_lora_group &g, int32_t n,
				int32_t size, uint32_t at, float *sums)
{
	const float *low[N];
	UNROLL
	for (int q = 0; q < N; q++)
		low[q] = t.a.low + (2 * moe_lora_place(t, g.pair[q]) + at) * (size_t)t.a.rank;
	if (g.part.type == LORA_F32)
		moe_lora_highs<LORA_F32, N>(g.part, low, n, size, sums);
	else if (g.part.type == LORA_F16)
		moe_lora_highs<LORA_F16, N>(g.part, low, n, size, sums);
	else
		moe_lora_highs<LORA_BF16, N>(g.part, low, n, size, sums);
}

/* Calls store(pair, sum) with element n of B low for each pair of the block. */
template <class Store>
DEVICE void moe_lora_each_high(const moe_lora_tiles &t, const int32_t *pairs, size_t e,
			       uint32_t at, int32_t n, int32_t size, Store store)
{
	for (int32_t i = 0; i < MOE_LORA_BLOCK && pairs[i] >= 0;) {
		moe_lora_group g = moe_lora_next(t, pairs, i, e, t.a.first + (int32_t)at);
		float sums[MOE_LORA_GROUP] = {};
		i += g.n;
		if (g.part.rank && g.n == 1)
			moe_lora_typed_high<1>(t, g, n, size, at, sums);
		else if (g.part.rank)
			moe_lora_typed_high<MOE_LORA_GROUP>(t, g, n, size, at, sums);
		UNROLL
		for (int q = 0; q < MOE_LORA_GROUP; q++)
			if (q < g.n)
				store(g.pair[q], g.part.rank ? sums[q] : -0.f);
	}
}

KERNEL(MOE_LORA_THREADS)
void moe_lora_high_up_tiles_kernel(moe_lora_tiles t)
{
	size_t ffn = (size_t)t.a.ffn, n_pairs = (size_t)t.a.n_tok * (size_t)t.a.n_used;
	uint32_t at = group_index_x() % 2, block = group_index_x() / 2;
	int32_t e = moe_lora_expert(t, block);
	const int32_t *pairs = t.pairs + (size_t)block * MOE_LORA_BLOCK;
	int32_t f = (int32_t)(group_index_y() * MOE_LORA_THREADS + thread_index());
	const float *biases = at ? t.a.up_bias : t.a.gate_bias;
	bool is_in = f < t.a.ffn;
	if (e < 0)
		return;
	f = is_in ? f : 0;
	float bias = biases ? biases[(size_t)e * ffn + (size_t)f] : -0.f;
	moe_lora_each_high(t, pairs, (size_t)e, at, f, t.a.ffn, [&](uint32_t pair, float sum) {
		size_t to = at * n_pairs + moe_lora_place(t, pair);
		if (is_in)
			t.a.high[to * ffn + (size_t)f] = bias + sum;
	});
}

KERNEL(MOE_LORA_THREADS)
void moe_lora_high_down_tiles_kernel(moe_lora_tiles t)
{
	size_t dim = (size_t)t.a.dim;
	int32_t e = moe_lora_expert(t, group_index_x());
	const int32_t *pairs = t.pairs + (size_t)group_index_x() * MOE_LORA_BLOCK;
	int32_t d = (int32_t)(group_index_y() * MOE_LORA_THREADS + thread_index());
	bool is_in = d < t.a.dim;
	if (e < 0)
		return;
	d = is_in ? d : 0;
	moe_lora_each_high(t, pairs, (size_t)e, 0, d, t.a.dim, [&](uint32_t pair, float sum) {
		uint16_t *out = t.out + (size_t)pair * dim + (size_t)d;
		if (is_in)
			*out = moe_out(f16_to_f32(*out) * MOE_OUT_PART + sum);
	});
}
