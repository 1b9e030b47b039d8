/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of delta_rule.hip: the way of keys, queries, values and gates from memory to LDS.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/delta/delta_launch.h"

/* Most elements K of a key, if each lane has n numbers of a row of the state. */
#define DELTA_WIDTH(n) ((n) * DELTA_LANES)

DEVICE float delta_number(const float_heads &v, int32_t t, int32_t c)
{
	return v.p[(size_t)t * (size_t)v.row + (size_t)(c / v.dim) * (size_t)v.pitch +
		   (size_t)(c % v.dim)];
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

/* What a state forgets: by one number a head, by one for each channel of its keys, or as a state
 * space of Mamba-2 does. */
enum delta_rule_kind { DELTA_HEADS, DELTA_CHANNELS, DELTA_SPACE };

/* Tokens in LDS at once. With decays of 256 channels for 16 tokens LDS would take 51 KB. */
template <int N, delta_rule_kind KIND>
constexpr int32_t delta_tok = N > 16 && KIND == DELTA_CHANNELS ? DELTA_TOK / 2 : DELTA_TOK;

/* What a thread brings to LDS of delta_tok tokens, on its way. A wave has the keys and queries of
 * DELTA_WAVES tokens apart, and with DELTA_CHANNELS their decays (a); a thread values of
 * DELTA_WAVES tokens apart, and a token's gates. */
template <int N, delta_rule_kind KIND> struct delta_piece {
	static constexpr int32_t TOK = delta_tok<N, KIND>, TOKENS = TOK / DELTA_WAVES;
	static constexpr int32_t EACH = DELTA_WIDTH(N) / WAVE;
	static constexpr bool BY_CHANNEL = KIND == DELTA_CHANNELS;
	uint16_t k[TOKENS][EACH], q[TOKENS][EACH], v[TOKENS];
	float a[BY_CHANNEL ? TOKENS : 1][BY_CHANNEL ? EACH : 1], b;
};

/* A workgroup's head: its keys begin at column `key`, its rows at row v0. */
struct delta_head {
	int32_t h, key, v0;
	float decay, dt_bias;
};

/* Start the loads of tokens [t, t + n). Nothing waits for them. */
template <int N, delta_rule_kind KIND>
DEVICE void delta_ask(const delta_rule_launch &a, const delta_head &at, int32_t t, int32_t n,
		      delta_piece<N, KIND> *out)
{
	using P = delta_piece<N, KIND>;
	size_t n_keys = (size_t)(a.n_k_heads * a.k_dim);
	size_t row = 2 * n_keys + (size_t)(a.n_v_heads * a.v_dim);
	int32_t lane = (int32_t)lane_index(), wave = (int32_t)wave_uniform(wave_index());
	int32_t v = at.v0 + lane < a.v_dim ? at.v0 + lane : 0;
	static_assert((int)DELTA_ROWS == (int)WAVE, "a wave has a token's values");
	UNROLL
	for (int32_t j = 0; j < P::TOKENS; j++) {
		int32_t i = wave + j * DELTA_WAVES;
		const uint16_t *x = a.qkv + (size_t)(t + (i < n ? i : 0)) * row;
		const uint16_t *q = x + at.key;
		UNROLL
		for (int32_t e = 0; e < P::EACH; e++) {
			uint32_t c = (uint32_t)(e * WAVE + lane);
			c = c < (uint32_t)a.k_dim ? c : 0;
			out->q[j][e] = q[c];
			out->k[j][e] = (q + n_keys)[c];
			if constexpr (P::BY_CHANNEL)
				out->a[j][e] = delta_number(a.a, t + (i < n ? i : 0),
							    at.h * a.k_dim + (int32_t)c);
		}
		out->v[j] = (x + 2 * n_keys + (size_t)(at.h * a.v_dim))[(uint32_t)v];
	}
	int32_t i = (int32_t)thread_index();
	if (i >= P::TOK || i >= n)
		return;
	if constexpr (!P::BY_CHANNEL)
		out->a[0][0] = delta_number(a.a, t + i, at.h);
	out->b = a.b.p ? delta_number(a.b, t + i, at.h) : 0;
}

/* LDS of delta_tok tokens. Keys and queries are 0 behind their last column. */
template <int N, delta_rule_kind KIND> struct delta_lds {
	static constexpr int32_t TOK = delta_tok<N, KIND>;
	float k[TOK][DELTA_WIDTH(N)], q[TOK][DELTA_WIDTH(N)];
	float v[TOK][DELTA_ROWS];
	float keep[TOK][KIND == DELTA_CHANNELS ? DELTA_WIDTH(N) : 1];
	float beta[TOK], product[TOK]; /* product: k q */
};

/* exp(decay log(1 + e^step)) = 2^(decay log2(1 + e^step)) */
DEVICE float delta_keep(float decay, float step)
{
	float soft = step > 20 ? step * 1.44269504f
			       : fast_log2(1 + fast_exp2(step * 1.44269504f));
	return fast_exp2(decay * soft);
}

/* exp(g_min / (1 + e^(decay step))) */
DEVICE float delta_keep_above(float g_min, float decay, float step)
{
	return fast_exp2(fast_rcp(1 + fast_exp2(decay * step * 1.44269504f)) * 1.44269504f * g_min);
}

/* Put what delta_ask loaded of n tokens into LDS. Keys and queries get length 1, and queries the
 * scale; those of a state space stay as they are. */
template <int N, delta_rule_kind KIND>
DEVICE void delta_stage(const delta_rule_launch &a, const delta_head &at,
			const delta_piece<N, KIND> &from, int32_t n, delta_lds<N, KIND> *to)
{
	using P = delta_piece<N, KIND>;
	int32_t lane = (int32_t)lane_index(), wave = (int32_t)wave_uniform(wave_index());
	UNROLL
	for (int32_t j = 0; j < P::TOKENS; j++) {
		int32_t i = wave + j * DELTA_WAVES;
		float k[P::EACH], q[P::EACH], kk = 0, qq = 0, kq = 0;
		if (i >= n)
			break;
		UNROLL
		for (int32_t e = 0; e < P::EACH; e++) {
			bool is_in = e * WAVE + lane < a.k_dim;
			k[e] = is_in ? f16_to_f32(from.k[j][e]) : 0;
			q[e] = is_in ? f16_to_f32(from.q[j][e]) : 0;
			kk += k[e] * k[e];
			qq += q[e] * q[e];
			kq += k[e] * q[e];
		}
		float k_by = 1, q_by = 1;
		if constexpr (KIND != DELTA_SPACE) {
			k_by = fast_rsqrt(wave_sum(kk, 1) + 1e-6f);
			q_by = a.q_scale * fast_rsqrt(wave_sum(qq, 2) + 1e-6f);
		}
		kq = wave_sum(kq, 3);
		UNROLL
		for (int32_t e = 0; e < P::EACH; e++) {
			to->k[i][e * WAVE + lane] = k[e] * k_by;
			to->q[i][e * WAVE + lane] = q[e] * q_by;
			if constexpr (P::BY_CHANNEL) {
				int32_t c = e * WAVE + lane < a.k_dim ? e * WAVE + lane : 0;
				float step = from.a[j][e] + a.dt_bias[at.h * a.k_dim + c];
				to->keep[i][e * WAVE + lane] =
					a.has_min
						? delta_keep_above(a.g_min, at.decay, step)
						: delta_keep(at.decay, step);
			}
		}
		to->v[i][lane] = f16_to_f32(from.v[j]);
		if (lane == 0)
			to->product[i] = kq * k_by * q_by;
	}
	int32_t i = (int32_t)thread_index();
	if (i >= n)
		return;
	float step = (KIND == DELTA_SPACE ? from.a[0][0] * a.a_scale : from.a[0][0]) + at.dt_bias;
	if constexpr (KIND == DELTA_SPACE) {
		float soft = step > 20 ? step : delta_log1p(fast_exp2(step * 1.44269504f));
		to->keep[i][0] = fast_exp2(at.decay * soft * 1.44269504f);
		to->beta[i] = soft;
	} else {
		if constexpr (!P::BY_CHANNEL)
			to->keep[i][0] = delta_keep(at.decay, step);
		to->beta[i] = fast_rcp(1 + fast_exp2(from.b * -1.44269504f));
	}
}
