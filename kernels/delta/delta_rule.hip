/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/delta_rule.h; fused with the gated norm after it, in a step of one token
 *           a sequence. state_space_*: the rule of Mamba-2
 * LAYOUT    qkv (T, 2 Hk K + Hv V), y (T, Hv, V) f16; a, b, state (n_slots, Hv, V, K) f32
 * GEOMETRY  (V over 32, B Hv) workgroups of eight waves. Eight lanes hold a row of the
 *           state in registers (16 numbers each at K = 128) from a sequence's first token
 *           in the step to its last. So both decode and prefill read and write the state
 *           once. LDS holds the keys and queries of DELTA_TOK tokens, normalised to
 *           length 1.
 * PRECISION f32; a lane's products in order, then a tree over its row's eight lanes; y
 *           rounded once
 * ROOFLINE  decode of 32 heads of 128 x 128: 4.2 MB read and written, 128 workgroups, 17
 *           us at 240 GB/s. Prefill: some 70 instructions for a wave and token at K =
 *           128, with a dependent chain of two trees; 1024 waves take about 40 us for 512
 *           tokens.
 * TRIED     (on paper) the chunked form (WY): its matrix products would have to start at
 *           fixed positions, or a token's bits would depend on how the prompt is cut; and
 *           at 32 waves, chunks of 64 give too few workgroups to pay off. One lane a row:
 *           no trees, but 128 registers of state and a quarter of the waves.
 * SEE       kernels/ops/delta_rule_ref.c
 */
#include "kernels/delta/gated_norm_row.h"

/* Column of number i in lane l's part of a row. Numbers lie in groups of 4, and a lane's
 * groups are DELTA_LANES * 4 apart. */
DEVICE int32_t delta_column(int32_t lane, int32_t i)
{
	return (i / 4 * DELTA_LANES + lane) * 4;
}

/* Scale n numbers x to length 1, times `scale`, by one wave. */
DEVICE void delta_unit(const uint16_t *x, int32_t n, float scale, float *out, int site)
{
	float squares = 0;
	for (int32_t i = (int32_t)lane_index(); i < n; i += WAVE) {
		float v = f16_to_f32(x[i]);
		squares += v * v;
	}
	float by = scale * fast_rsqrt(wave_sum(squares, site) + 1e-6f);
	for (int32_t i = (int32_t)lane_index(); i < n; i += WAVE)
		out[i] = f16_to_f32(x[i]) * by;
}

DEVICE float delta_number(const float_heads &v, int32_t t, int32_t c)
{
	return v.p[(size_t)t * (size_t)v.row + (size_t)(c / v.dim) * (size_t)v.pitch +
		   (size_t)(c % v.dim)];
}

/* Copy n halves to floats unchanged, by one wave. */
DEVICE void delta_plain(const uint16_t *x, int32_t n, float *out)
{
	for (int32_t i = (int32_t)lane_index(); i < n; i += WAVE)
		out[i] = f16_to_f32(x[i]);
}

/* log(1 + e). Below 1/8 by its series, because 1 + e loses the digits of a small e. */
DEVICE float delta_log1p(float e)
{
	if (e >= 0.125f)
		return fast_log2(1 + e) * 0.693147181f;
	float sum = 0;
	UNROLL
	for (int32_t i = 7; i > 0; i--)
		sum = (i % 2 ? 1.f : -1.f) / (float)i + sum * e;
	return sum * e;
}

/* Put tokens [t, t + n) of head h into LDS: k, q (DELTA_TOK, K), gates (keep, beta). */
template <bool IS_SPACE>
DEVICE void delta_stage(const delta_rule_launch &a, int32_t h, int32_t t, int32_t n, float *k,
			float *q, float *gates)
{
	int32_t n_keys = a.n_k_heads * a.k_dim;
	int32_t key = (a.heads_in_turn ? h % a.n_k_heads
				       : h / (a.n_v_heads / a.n_k_heads)) * a.k_dim;
	size_t row = (size_t)(2 * n_keys + a.n_v_heads * a.v_dim);
	for (int32_t i = (int32_t)wave_index(); i < n; i += DELTA_WAVES) {
		const uint16_t *x = a.qkv + (size_t)(t + i) * row + (size_t)key;
		if constexpr (IS_SPACE) {
			delta_plain(x, a.k_dim, q + i * a.k_dim);
			delta_plain(x + n_keys, a.k_dim, k + i * a.k_dim);
		} else {
			delta_unit(x, a.k_dim, a.q_scale, q + i * a.k_dim, 1);
			delta_unit(x + n_keys, a.k_dim, 1, k + i * a.k_dim, 2);
		}
	}
	int32_t i = (int32_t)thread_index();
	if (i >= n)
		return;
	float step = delta_number(a.a, t + i, h) + a.dt_bias[h];
	/* keep = exp(decay log(1 + e^step)) = 2^(decay log2(1 + e^step)) */
	if constexpr (IS_SPACE) {
		float soft = step > 20 ? step : delta_log1p(fast_exp2(step * 1.44269504f));
		gates[2 * i] = fast_exp2(a.decay[h] * soft * 1.44269504f);
		gates[2 * i + 1] = soft;
	} else {
		float soft = step > 20 ? step * 1.44269504f
				       : fast_log2(1 + fast_exp2(step * 1.44269504f));
		gates[2 * i] = fast_exp2(a.decay[h] * soft);
		gates[2 * i + 1] = fast_rcp(
			1 + fast_exp2(delta_number(a.b, t + i, h) * -1.44269504f));
	}
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

/* Update one row by one token; returns the row's product S q. */
template <int N, bool IS_SPACE>
DEVICE float delta_token(float *s, const float *k, const float *q, int32_t lane,
			 int32_t k_dim, float keep, float beta, float v)
{
	float key[N], seen = 0, y = 0;
	UNROLL
	for (int32_t i = 0; i < N; i += 4) {
		int32_t c = delta_column(lane, i);
		UNROLL
		for (int32_t j = 0; j < 4; j++) {
			key[i + j] = c < k_dim ? k[c + j] : 0;
			s[i + j] *= keep;
			if constexpr (!IS_SPACE)
				seen += s[i + j] * key[i + j];
		}
	}
	float change = beta * v;
	if constexpr (!IS_SPACE)
		change = beta * (v - lanes_sum<DELTA_LANES>(seen, 11));
	UNROLL
	for (int32_t i = 0; i < N; i += 4) {
		int32_t c = delta_column(lane, i);
		UNROLL
		for (int32_t j = 0; j < 4; j++) {
			s[i + j] += change * key[i + j];
			y += s[i + j] * (c < k_dim ? q[c + j] : 0);
		}
	}
	return lanes_sum<DELTA_LANES>(y, 12);
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
template <int N, bool IS_SPACE = false> DEVICE void delta_rule(const delta_rule_launch &a)
{
	LDS_DYNAMIC(float, delta_lds);
	float *k = delta_lds, *q = k + DELTA_TOK * a.k_dim, *gates = q + DELTA_TOK * a.k_dim;
	int32_t b = (int32_t)group_index_y() / a.n_v_heads;
	int32_t h = (int32_t)group_index_y() % a.n_v_heads;
	int32_t lane = (int32_t)thread_index() % DELTA_LANES;
	int32_t v = (int32_t)(group_index_x() * DELTA_ROWS + thread_index() / DELTA_LANES);
	bool is_row = v < a.v_dim;
	int32_t row_v = is_row ? v : 0;
	size_t head = (size_t)a.v_dim * (size_t)a.k_dim, at = (size_t)row_v * (size_t)a.k_dim;
	size_t heads = (size_t)a.n_v_heads;
	size_t row = (size_t)(2 * a.n_k_heads * a.k_dim + a.n_v_heads * a.v_dim);
	const uint16_t *values = a.qkv + 2 * a.n_k_heads * a.k_dim + h * a.v_dim + row_v;
	int32_t from = a.states.from[b], to = a.states.to[b], save = a.states.save[b];
	float s[N];
	UNROLL
	for (int32_t i = 0; i < N; i++)
		s[i] = 0;
	if (from >= 0)
		delta_load<N>(a.state + ((size_t)from * heads + (size_t)h) * head + at, lane,
			      a.k_dim, s);
	int32_t end = a.first_tok[b + 1], save_at = a.states.save_at[b];
	for (int32_t t0 = a.first_tok[b]; t0 < end; t0 += DELTA_TOK) {
		int32_t n = end - t0 < DELTA_TOK ? end - t0 : DELTA_TOK;
		delta_stage<IS_SPACE>(a, h, t0, n, k, q, gates);
		group_barrier();
		for (int32_t i = 0; i < n; i++) {
			size_t t = (size_t)(t0 + i);
			float x = f16_to_f32(values[t * row]);
			float y = delta_token<N, IS_SPACE>(s, k + i * a.k_dim, q + i * a.k_dim,
							   lane, a.k_dim, gates[2 * i],
							   gates[2 * i + 1], x);
			if constexpr (IS_SPACE)
				y += a.skip[h] * x;
			if (is_row && lane == 0)
				a.y[(t * heads + (size_t)h) * (size_t)a.v_dim + (size_t)v] =
					f32_to_f16(y);
			if (is_row && save >= 0 && save_at == t0 + i)
				delta_save<N>(a.state + ((size_t)save * heads + (size_t)h) *
							       head + at,
					      lane, a.k_dim, s);
		}
		group_barrier(); /* wait before the next tokens overwrite keys and queries */
	}
	if (is_row)
		delta_save<N>(a.state + ((size_t)to * heads + (size_t)h) * head + at, lane,
			      a.k_dim, s);
	if (!IS_SPACE && a.norm.weight)
		delta_norm(a);
}

#define DELTA(n) \
	KERNEL(DELTA_WAVES * WAVE) \
	void delta_rule_n##n##_kernel(delta_rule_launch a) \
	{ \
		delta_rule<n>(a); \
	}
DELTA(4)
DELTA(8)
DELTA(16)
DELTA(32)

#define STATE_SPACE(n) \
	KERNEL(DELTA_WAVES * WAVE) \
	void state_space_n##n##_kernel(delta_rule_launch a) \
	{ \
		delta_rule<n, true>(a); \
	}
STATE_SPACE(4)
STATE_SPACE(8)
STATE_SPACE(16)
STATE_SPACE(32)
