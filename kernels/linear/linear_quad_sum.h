/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/linear.h for int4 weights; optionally fused with the norm before
 *           and with silu(gate) up after
 * LAYOUT    kernels/linear/linear_int4.h, kernels/linear/quad.h
 * GEOMETRY  a wave takes 16 rows. SPLIT waves divide the elements of K; ROWS such sets of
 *           waves are a workgroup. A wave starts the loads of its first weights before
 *           the activations are copied to LDS and normalised. Each workgroup normalises
 *           for itself, with the bits of rms_norm.hip; the first one writes the result.
 *           gate and up: row g of a lane is gate's, row g + 8 the same row of up. LDS:
 *           see QUAD_LDS
 * PRECISION as linear_int4_dot.h; the waves' sums are added in order. If there is a
 *           matrix unit, it sums 16 products at once.
 * ROOFLINE  a step of a lane is 32 bytes. Besides loads and scales it takes 72 conversion
 *           instructions and 64 dot2 (or 8 matrix products). On gfx11 this is as
 *           linear_int4_dot.h; an H200 could issue 7 TB/s and reads 4.6
 * TRIED     (on an NVIDIA H200, in us, the product alone in a separate program;
 *           linear_int4_dot.h in brackets) N 151936, K 2048: 45.3 (65.4), 82 % of the
 *           bandwidth of plain reads; N 24576, K 4096: 17.1 (24.1); N 4096, K 12288: 11.4
 *           (14.1); N 2048, K 4096: 4.2 (5.2).
 *           For the same four: activations loaded from memory to registers when needed:
 *           48.8, 18.8, 12.0, 4.1. For the first: loading the next weights one by one
 *           after each use: a third slower; without prefetching the next steps: 50.7.
 *           Within a step of a model, with norm and silu, N 24576, K 4096: 21.5, but 23.4
 *           if the norm's input is loaded after the weights. Resident workgroups that
 *           start the next rows' loads before the last use: no gain (21.8). nvcc had
 *           split each and_or in two: one instruction each, and places counted in steps,
 *           took N 24576, K 4096 from 20.9 to 18.6, and N 4096, K 12288 from 14 to 11.8.
 *           Two turns in flight, each loaded after its use: 25.3, or 19.4 with registers
 *           limited to three workgroups; one turn: 20.9.
 *           Half as many waves in a workgroup of quad4, with twice the workgroups: N
 *           6144, K 4096 from 8.1 to 7.5, N 5120, K 2048 from 5.3 to 4.7; the same for
 *           quad8: a gain of 0.1.
 *           On an H100, within a step: pieces of x beyond its end are made 0 after the
 *           weights are asked for (rms_norm_hold): N 5120, K 2048 from 6.3 to 5.7. nvcc has
 *           one counter for all loads to registers that are used behind a branch, so who
 *           waits for x waits for the weights, too. x and the norm's weights by hardware's
 *           copies to LDS instead, so that nobody does: 14.7, since these copies pass L1 by
 *           and all workgroups ask L2 for the same lines; N 6144, K 4096 from 8.6 to 24. The
 *           same of h in moe_quad.hip's down, and of the state in delta_rule.hip: no change.
 *           On an H200, within a step, N 24576, K 4096: 23.0 with the norm, 20.0 and a launch of
 *           2.3 without. Lanes of a token that is not there leave out their loads from LDS, so
 *           these take half as long: 22.9, but steps of Qwen3-30B-A3B are 20 % slower, since nvcc
 *           moves loads in experts' gate and up. Resident workgroups that go on to further rows:
 *           24.1, and registers spill.
 * SEE       kernels/ops/linear_ref.c, kernels/linear/linear_quad.def; linear_quad_lean.h
 *           for very many rows
 */
#pragma once
#include "kernels/linear/linear_int4_words.h"
#include "kernels/linear/quad.h"
#include "kernels/rows/rms_norm_row.h"
#include "kernels/rows/silu.h"

/* A thread's loads of the first token, issued before those of the weights because loads
 * return in order. x without a norm comes in pieces of eight halves. */
template <int THREADS> struct linear_quad_held {
	rms_norm_held<THREADS> x, norm;
};

template <int THREADS, bool HAS_NORM>
DEVICE void linear_quad_hold(const linear_int4_args &a, linear_quad_held<THREADS> *out)
{
	if (HAS_NORM && a.norm.x) {
		rms_norm_hold<THREADS, true>(a.norm.x, a.k, &out->x);
		rms_norm_hold<THREADS, true>(a.norm.weight, a.k, &out->norm);
		return;
	}
	UNROLL
	for (int i = 0; i < RMS_NORM_HELD(THREADS); i++) {
		int32_t p = (int32_t)thread_index() + i * THREADS;
		out->x.p[i] = {};
		if (p < a.k / 8)
			out->x.p[i].v[0] = *(const u32x4 *)(a.x + (size_t)p * 8);
	}
}

/* Copy the first token to LDS; some pieces are already in `held`. */
template <int THREADS, bool HAS_NORM>
DEVICE void linear_quad_stage(const linear_int4_args &a, const linear_quad_held<THREADS> &held,
			      u32x4 *to)
{
	LDS(float, part, RMS_NORM_WAVES);
	float scale = 0;
	if (HAS_NORM && a.norm.x)
		scale = rms_norm_scale<THREADS, true>(held.x, a.norm.x, a.k, a.norm.eps, part);
	UNROLL
	for (int i = 0; i < RMS_NORM_HELD(THREADS); i++) {
		int32_t p = (int32_t)thread_index() + i * THREADS;
		if (p >= a.k / 8)
			break;
		u32x4 v = held.x.p[i].v[0];
		if (HAS_NORM && a.norm.x)
			v = rms_norm_piece(held.x.p[i], held.norm.p[i], scale);
		if (HAS_NORM && a.norm.x && group_index_x() == 0)
			*(u32x4 *)(a.norm.y + (size_t)p * 8) = v;
		to[quad_place(p)] = quad_piece(v);
	}
	int32_t p = (int32_t)thread_index() + RMS_NORM_HELD(THREADS) * THREADS;
	for (; p < a.k / 8; p += THREADS) {
		u32x4 v;
		if (HAS_NORM && a.norm.x)
			v = rms_norm_piece(rms_norm_load<true>(a.norm.x, p * 8, a.k),
					   rms_norm_load<true>(a.norm.weight, p * 8, a.k), scale);
		else
			v = *(const u32x4 *)(a.x + (size_t)p * 8);
		if (HAS_NORM && a.norm.x && group_index_x() == 0)
			*(u32x4 *)(a.norm.y + (size_t)p * 8) = v;
		to[quad_place(p)] = quad_piece(v);
	}
}

/* Copy token t > 0 to LDS; zeros if there is no such token. */
template <int THREADS, bool HAS_NORM>
DEVICE void linear_quad_stage_next(linear_int4_args a, int32_t t, u32x4 *to)
{
	size_t at = (size_t)t * (size_t)a.k;
	if (t >= a.n_tok) {
		for (int32_t p = (int32_t)thread_index(); p < a.k / 8; p += THREADS)
			to[p] = u32x4{};
		return;
	}
	a.x += at;
	a.norm.x = a.norm.x ? a.norm.x + at : nullptr;
	a.norm.y += a.norm.x ? at : 0;
	linear_quad_held<THREADS> held;
	linear_quad_hold<THREADS, HAS_NORM>(a, &held);
	if (HAS_NORM && a.norm.x)
		group_barrier(); /* `part` (LDS) may be reused */
	linear_quad_stage<THREADS, HAS_NORM>(a, held, to);
}

/* Set row y of a lane to row `row` of p, or to p's last row if that is past the end. */
template <int KIND>
DEVICE void linear_quad_row(const linear_int4_args &a, const linear_int4_part &p, int32_t row,
			    int y, quad_rows *out)
{
	size_t n = (size_t)(row < p.n ? row : p.n - 1);
	out->q[y] = p.q + n * (size_t)p.pitch + lane_index() % 4 * 4;
	out->scales[y] = (const uint16_t *)p.scales + n * (size_t)a.n_groups;
	if constexpr (KIND == QUAD_ZERO) {
		out->zeros[y] = p.zero_points + n / 8 * (size_t)a.n_groups;
		out->zero_shift[y] = (uint32_t)n % 8 * 4;
	}
}

/* The total of one row and token: the waves' sums, added in order. */
template <int SPLIT> DEVICE float linear_quad_total(const float *sums, int32_t pitch)
{
	float x = sums[0];
	UNROLL
	for (int s = 1; s < SPLIT; s++)
		x += sums[s * pitch];
	return x;
}

/* Store silu(gate) up for one row of token t. */
DEVICE void linear_quad_put_pair(const linear_int4_args &a, const linear_int4_part &p, int32_t t,
				 int32_t row, float gate, float up)
{
	uint16_t g = f32_to_f16(p.bias ? gate + p.bias[row] : gate);
	uint16_t u = f32_to_f16(a.part[1].bias ? up + a.part[1].bias[row] : up);
	((uint16_t *)p.y)[(size_t)t * (size_t)p.n + (size_t)row] = (uint16_t)silu_mul_one(g, u);
}

/* Store the workgroup's rows from its waves' sums (SPLIT, M, ROWS * 16) in LDS. keep: as in
 * linear_quad. */
template <int M, int SPLIT, int ROWS>
DEVICE void linear_quad_store(const linear_int4_args &a, const linear_int4_part &p,
			      int32_t tile, const float *sums, float *keep)
{
	constexpr int32_t N = ROWS * QUAD_ROWS, PITCH = M * N, THREADS = SPLIT * ROWS * WAVE;
	int32_t shift = a.is_pair ? 3 : 4, each = 1 << shift;
	for (int32_t i = (int32_t)thread_index(); i < M * ROWS << shift; i += THREADS) {
		int32_t t = M > 1 ? (i >> shift) / ROWS : 0, r = i - (t * ROWS << shift);
		int32_t row = (tile << shift) + r;
		const float *from = sums + t * N + (r >> shift) * QUAD_ROWS + (r & (each - 1));
		if (t >= a.n_tok || row >= p.n)
			continue;
		float x = linear_quad_total<SPLIT>(from, PITCH);
		if (a.is_pair)
			linear_quad_put_pair(a, p, t, row, x,
					     linear_quad_total<SPLIT>(from + 8, PITCH));
		else
			x = linear_int4_put(&p, t, row, x);
		if (keep)
			keep[r] = x;
	}
}

/* The lane's two rows in a tile of its part. */
template <int KIND>
DEVICE quad_rows linear_quad_rows(const linear_int4_args &a, const linear_int4_part &p,
				  int32_t tile)
{
	int32_t g = (int32_t)lane_index() / 4;
	quad_rows rows;
	rows.shift = a.group_shift;
	rows.is_bf16 = p.is_bf16;
	linear_quad_row<KIND>(a, p, a.is_pair ? tile * 8 + g : tile * 16 + g, 0, &rows);
	if (a.is_pair)
		linear_quad_row<KIND>(a, a.part[1], tile * 8 + g, 1, &rows);
	else
		linear_quad_row<KIND>(a, p, tile * 16 + g + 8, 1, &rows);
	return rows;
}

/* keep: LDS, (16 ROWS) floats, for what is stored at M = 1 without a pair; or NULL. */
template <int M, int SPLIT, int ROWS, int UNR, int KIND>
DEVICE void linear_quad(const linear_int4_args &a, float *keep = nullptr)
{
	constexpr int32_t THREADS = SPLIT * ROWS * WAVE;
	constexpr bool HAS_NORM = M <= FUSED_NORM_TOK;
	LDS_DYNAMIC(u32x4, lds);
	float *sums = (float *)(lds + QUAD_ZEROS + M * (a.k / 8));
	linear_quad_held<THREADS> held;
	linear_quad_hold<THREADS, HAS_NORM>(a, &held);
	int32_t begin, none, wave = (int32_t)wave_index();
	linear_int4_part p = linear_int4_find(&a, &begin, &none);
	int32_t tile = ((int32_t)group_index_x() - begin) * ROWS;
	quad_rows rows = linear_quad_rows<KIND>(a, p, tile + wave / SPLIT);

	int32_t n_steps = a.k / QUAD_STEP, each = (n_steps + SPLIT - 1) / SPLIT;
	int32_t from = wave % SPLIT * each, end = from + each < n_steps ? from + each : n_steps;
	quad_step<KIND> first[UNR];
	if (from < end)
		quad_load_all<UNR, KIND>(rows, from, end, first);
	quad_zeros(lds);
	linear_quad_stage<THREADS, HAS_NORM>(a, held, lds + QUAD_ZEROS);
	for (int t = 1; t < M; t++)
		linear_quad_stage_next<THREADS, HAS_NORM>(a, t,
							  lds + QUAD_ZEROS + t * (a.k / 8));
	group_barrier();
	quad_sums<M> sum = {};
	if (from < end)
		quad_run<M, UNR, KIND>(rows, from, end, first, quad_inputs_of<M>(lds, a.k / 8),
				       &sum);
	quad_put<M>(sum, ROWS * QUAD_ROWS,
		    sums + wave % SPLIT * (M * ROWS * QUAD_ROWS) + wave / SPLIT * QUAD_ROWS);
	group_barrier();
	linear_quad_store<M, SPLIT, ROWS>(a, p, tile, sums, keep);
}
