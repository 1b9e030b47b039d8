/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule (Yang et al., Gated Delta Networks, 2025, eq. 10). Each value head
 * has a matrix S (V, K) as its state. The head's key and query are scaled to length 1,
 * the query then divided by sqrt(K). Token after token:
 *
 *   S *= exp(g);  S += beta * (v - S k) k^T;  y = S q
 *   g = decay * softplus(a + dt_bias),  beta = 1 / (1 + exp(-b))
 *
 * Scaling to length 1 is x / sqrt(sum x^2 + 1e-6). Value head h uses key and query head h
 * / (Hv / Hk), or h % Hk if heads_tiled. Source: modeling_qwen3_next.py of Hugging Face
 * Transformers, torch_recurrent_gated_delta_rule.
 *
 * by_channel: each channel of a key has a decay of its own (Kimi delta attention). Channel i of
 * head h reads channel h K + i of a and dt_bias:
 *
 *   S *= exp(g) for each column;  g_i = decay * softplus(a_i + dt_bias_i)
 *
 * g_min, a lower bound of g (Ling 3): g_i = g_min / (1 + exp(decay * (a_i + dt_bias_i)))
 *
 * Sources: modular_kimi_linear.py, torch_recurrent_kda, and modeling_bailing_hybrid.py,
 * BailingHybridForgetGate, of Hugging Face Transformers.
 *
 * skip: instead the state space of Mamba-2 (Dao and Gu, Transformers are SSMs, 2024, section
 * 7). Keys and queries stay as they are, values v are not corrected by what the state
 * has, and b is not read:
 *
 *   S *= exp(decay d);  S += d v k^T;  y = S q + skip v,  d = softplus(a a_scale + dt_bias)
 *
 * Source: modeling_granitemoehybrid.py, GraniteMoeHybridMambaLayer.torch_forward.
 *
 * A token's result depends on earlier tokens through S alone, so the cut of a sequence
 * into steps does not change any bit.
 *
 * norm: then this gated_norm follows, for the same tokens and heads; its x is y. The result has
 * the bits of the two operations in sequence.
 */
#pragma once
#include "kernels/ops/gated_norm.h"
#include "kernels/ops/seq_states.h"

struct delta_rule_args {
	int32_t n_tok, n_seq;
	int32_t n_k_heads, n_v_heads; /* Hk, Hv */
	int32_t k_dim, v_dim;         /* K, V: multiples of 4 */
	int32_t heads_tiled;          /* 0: head h uses key head h / (Hv / Hk); 1: h % Hk */
	int32_t by_channel;           /* not with skip */
	const void *qkv;              /* (T, 2 Hk K + Hv V) act: q, then k, then v */
	struct head_view a, b;        /* (Hv channels) f32; by_channel: a (Hv K channels) */
	const float *decay;           /* (Hv) f32, negative: -exp(A_log) */
	const float *dt_bias;         /* (Hv) f32; by_channel: (Hv, K) */
	const int32_t *first_tok;     /* (B+1) first token of each sequence */
	struct seq_states states;
	float *state;                 /* (n_slots, Hv, V, K) f32 */
	void *y;                      /* (T, Hv, V) act; work memory if norm has another y */
	const struct gated_norm_args *norm; /* host; operation to do after, or NULL */
	const float *skip;            /* (Hv) f32: Mamba-2's rule; NULL: the gated delta rule */
	float a_scale;                /* 0: 1; only with skip */
	float g_min;                  /* below 0, only with by_channel; 0: g has no lower bound */
};

void delta_rule_ref(const struct delta_rule_args *a);
