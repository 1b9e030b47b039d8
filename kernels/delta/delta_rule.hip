/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/delta_rule.h; fused with the gated norm after it, in a step of one token
 *           a sequence. delta_channels_*: by_channel; state_space_*: the rule of Mamba-2
 * LAYOUT    qkv (T, 2 Hk K + Hv V), y (T, Hv, V) f16; a, b, state (n_slots, Hv, V, K) f32
 * GEOMETRY  (V over 32, B Hv) workgroups of eight waves. Eight lanes hold a row of the
 *           state in registers (16 numbers each at K = 128) from a sequence's first token
 *           in the step to its last. So both decode and prefill read and write the state
 *           once. LDS holds keys and queries of delta_tok tokens, normalised to length 1, their
 *           product, values and gates (delta_stage.h), and decays of channels. The next tokens'
 *           are loaded meanwhile. y = S q of the new state is that of the old one, which need
 *           not wait for the change, and the change times k q.
 * PRECISION f32; every fourth of a lane's products in order, the four sums as a tree, then a tree
 *           over its row's eight lanes; y rounded once
 * ROOFLINE  decode of 32 heads of 128 x 128: 4.2 MB read and written, 128 workgroups, 17
 *           us at 240 GB/s. Prefill on gfx1151: 72 vector instructions for a wave and token at
 *           K = 128, and 12 to bring it to LDS: 1024 waves take 1 ms for 2,048 tokens. On
 *           gfx1100 there are five waves a SIMD, whose chain is one tree.
 * TRIED     the chunked form (WY) on matrix units, built and run on fibers: sixteen tokens at once,
 *           a wave for sixteen columns of the state, which stays in registers. Keys and queries
 *           are exact halves; the state, U, T and M are two halves each. A wave has 54 v_wmma a
 *           chunk.
 *           All layers of Qwen3.5-35B-A3B then take 44.1 in place of 65.6 ms of 4,096 tokens on
 *           gfx1151, by prediction, and 25.5 in place of 27.9 on gfx1100, where 32 workgroups
 *           are few. The layer with its projections is 1.07 times as fast, a prompt 1.02.
 *           States err by 4.1e-6 where 1.6e-6 are allowed. Without the state's second half for
 *           queries: 41.7 ms. Chunks would have to start at fixed positions, or a token's bits
 *           would depend on how the prompt is cut. One lane a row: no trees, but 128 registers
 *           of state and a quarter of the waves.
 * SEE       kernels/ops/delta_rule_ref.c
 */
#include "kernels/delta/delta_stage.h"
#include "kernels/delta/gated_norm_row.h"

/* Column of number i in lane l's part of a row. Numbers lie in groups of 4, and a lane's
 * groups are DELTA_LANES * 4 apart. */
DEVICE int32_t delta_column(int32_t lane, int32_t i)
{
	return (i / 4 * DELTA_LANES + lane) * 4;
}

/* Copy a row of the state from memory to registers. */
template <int N>
DEVICE void delta_load(const float *row, int32_t lane, int32_t k_dim, float *s)
{
	UNROLL
	for (int32_t i = 0; i < N; i += 4) {
		int32_t c = delta_column(lane, i);
		u32x4 v = {0, 0, 0, 0};
		if (c < k_dim)
			v = *(const u32x4 *)(row + c);
		UNROLL
		for (int32_t j = 0; j < 4; j++)
			s[i + j] = bits_cast<float>(v[j]);
	}
}

template <int N>
DEVICE void delta_save(float *row, int32_t lane, int32_t k_dim, const float *s)
{
	UNROLL
	for (int32_t i = 0; i < N; i += 4) {
		int32_t c = delta_column(lane, i);
		u32x4 v;
		UNROLL
		for (int32_t j = 0; j < 4; j++)
			v[j] = bits_cast<uint32_t>(s[i + j]);
		if (c < k_dim)
			*(u32x4 *)(row + c) = v;
	}
}

/* A lane's part of a row of keys or queries. */
template <int N> DEVICE void delta_part(const float *row, int32_t lane, float *out)
{
	UNROLL
	for (int32_t i = 0; i < N; i += 4) {
		u32x4 v = *(const u32x4 *)(row + delta_column(lane, i));
		UNROLL
		for (int32_t j = 0; j < 4; j++)
			out[i + j] = bits_cast<float>(v[j]);
	}
}

/* Update one row by token i of LDS; returns the product of the new row and the query. That is the
 * old row's product, which need not wait for the change, and the change's. */
template <int N, delta_rule_kind KIND>
DEVICE float delta_token(float *s, const delta_lds<N, KIND> &in, int32_t i, int32_t lane, float v)
{
	constexpr bool BY_CHANNEL = KIND == DELTA_CHANNELS;
	float k[N], q[N], keep[BY_CHANNEL ? N : 1], seen[4], y[4];
	/* In a scalar register, clang pairs the products with it (v_dual_mul_f32). */
	if constexpr (BY_CHANNEL)
		delta_part<N>(in.keep[i], lane, keep);
	else
		keep[0] = bits_cast<float>(wave_uniform(bits_cast<uint32_t>(in.keep[i][0])));
	float change = in.beta[i];
	delta_part<N>(in.k[i], lane, k);
	delta_part<N>(in.q[i], lane, q);
	UNROLL
	for (int32_t c = 0; c < N; c++) {
		s[c] *= keep[BY_CHANNEL ? c : 0];
		seen[c % 4] = c < 4 ? s[c] * k[c] : seen[c % 4] + s[c] * k[c];
		y[c % 4] = c < 4 ? s[c] * q[c] : y[c % 4] + s[c] * q[c];
	}
	if constexpr (KIND != DELTA_SPACE)
		v -= lanes_sum<DELTA_LANES>(seen[0] + seen[1] + (seen[2] + seen[3]), 11);
	change *= v;
	UNROLL
	for (int32_t c = 0; c < N; c++)
		s[c] += change * k[c];
	return lanes_sum<DELTA_LANES>(y[0] + y[1] + (y[2] + y[3]), 12) + change * in.product[i];
}

/* The workgroup of a head that finishes last normalises the head. */
DEVICE void delta_norm(const delta_rule_launch &a)
{
	LDS(uint32_t, before, 1);
	uint32_t i = group_index_y(), n = (uint32_t)(a.v_dim + DELTA_ROWS - 1) / DELTA_ROWS;
	bool is_last = group_arrive(&a.arrived[i], before) + 1 == n;
	if (!is_last || wave_index() > 0)
		return;
	if (lane_index() == 0)
		a.arrived[i] = 0;
	gated_norm_row(a.norm, (int32_t)i);
}

/* N: numbers of a row in each lane. */
template <int N, delta_rule_kind KIND> DEVICE void delta_rule(const delta_rule_launch &a)
{
	constexpr bool IS_SPACE = KIND == DELTA_SPACE;
	constexpr int32_t TOK = delta_tok<N, KIND>;
	using LdsOf = delta_lds<N, KIND>;
	LDS(LdsOf, lds, 1);
	int32_t b = (int32_t)group_index_y() / a.n_v_heads;
	int32_t h = (int32_t)group_index_y() % a.n_v_heads;
	int32_t key = a.heads_tiled ? h % a.n_k_heads : h / (a.n_v_heads / a.n_k_heads);
	delta_head head = {h, key * a.k_dim, (int32_t)group_index_x() * DELTA_ROWS, a.decay[h],
			   KIND == DELTA_CHANNELS ? 0 : a.dt_bias[h]};
	int32_t lane = (int32_t)thread_index() % DELTA_LANES;
	int32_t r = (int32_t)thread_index() / DELTA_LANES, v = head.v0 + r;
	bool is_row = v < a.v_dim;
	size_t n_heads = (size_t)a.n_v_heads, n_state = (size_t)a.v_dim * (size_t)a.k_dim;
	float *state = a.state + (size_t)h * n_state + (size_t)(is_row ? v : 0) * (size_t)a.k_dim;
	n_state *= n_heads; /* from slot to slot */
	int32_t from = a.states.from[b], to = a.states.to[b], save = a.states.save[b];
	int32_t t0 = a.first_tok[b], end = a.first_tok[b + 1], save_at = a.states.save_at[b];
	float s[N], skip = IS_SPACE ? a.skip[h] : 0;
	UNROLL
	for (int32_t i = 0; i < N; i++)
		s[i] = 0;
	if (from >= 0)
		delta_load<N>(state + (size_t)from * n_state, lane, a.k_dim, s);
	delta_piece<N, KIND> next;
	if (t0 < end)
		delta_ask<N, KIND>(a, head, t0, end - t0, &next);
	for (; t0 < end; t0 += TOK) {
		int32_t n = end - t0 < TOK ? end - t0 : TOK;
		delta_stage<N, KIND>(a, head, next, n, lds);
		group_barrier();
		if (t0 + TOK < end)
			delta_ask<N, KIND>(a, head, t0 + TOK, end - t0 - TOK, &next);
		/* Each lane of a row keeps the y of one token, and all store at once. */
		for (int32_t i0 = 0; i0 < n; i0 += DELTA_LANES) {
			float kept = 0;
			int32_t last = i0 + DELTA_LANES < n ? i0 + DELTA_LANES : n;
			for (int32_t i = i0; i < last; i++) {
				float x = lds->v[i][r];
				float y = delta_token<N, KIND>(s, *lds, i, lane, x);
				if constexpr (IS_SPACE)
					y += skip * x;
				kept = lane == i - i0 ? y : kept;
				if (is_row && save >= 0 && save_at == t0 + i)
					delta_save<N>(state + (size_t)save * n_state, lane,
						      a.k_dim, s);
			}
			size_t t = (size_t)(t0 + i0 + lane);
			if (is_row && i0 + lane < n)
				a.y[(t * n_heads + (size_t)h) * (size_t)a.v_dim + (size_t)v] =
					f32_to_f16(kept);
		}
		group_barrier(); /* wait before the next tokens overwrite keys and queries */
	}
	if (is_row)
		delta_save<N>(state + (size_t)to * n_state, lane, a.k_dim, s);
	if (!IS_SPACE && a.norm.weight)
		delta_norm(a);
}

#define DELTA(name, kind, n) \
	KERNEL(DELTA_WAVES * WAVE) \
	void name##_n##n##_kernel(delta_rule_launch a) \
	{ \
		delta_rule<n, kind>(a); \
	}
#define DELTA_ALL(name, kind) \
	DELTA(name, kind, 4) \
	DELTA(name, kind, 8) \
	DELTA(name, kind, 16) \
	DELTA(name, kind, 32)
DELTA_ALL(delta_rule, DELTA_HEADS)
DELTA_ALL(delta_channels, DELTA_CHANNELS)
DELTA_ALL(state_space, DELTA_SPACE)
