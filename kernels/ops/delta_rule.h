/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule (Yang et al., Gated Delta Networks, 2025, eq. 10): each value
 * head has a matrix S (V, K) as its memory. Token after token of a sequence, with the
 * head's key and query made of length 1, the query then divided by sqrt(K):
 *   S *= exp(g);  S += beta * (v - S k) k^T;  y = S q
 *   g = decay * softplus(a + dt_bias),  beta = 1 / (1 + exp(-b))
 * Length 1 is x / sqrt(sum x^2 + 1e-6). Value head h has the key and query of head
 * h / (Hv / Hk), or where heads_in_turn h % Hk. Source: modeling_qwen3_next.py of
 * Hugging Face Transformers, torch_recurrent_gated_delta_rule. A token's result depends
 * on those before it through S alone, so how they were cut into steps changes no bit.
 */
#pragma once
#include "kernels/ops/head_view.h"
#include "kernels/ops/seq_states.h"

struct delta_rule_args {
	int32_t n_tok, n_seq;
	int32_t n_k_heads, n_v_heads; /* Hk, Hv */
	int32_t k_dim, v_dim;         /* K, V: multiples of 4 */
	int32_t heads_in_turn;        /* 0 or 1: which key head is a value head's */
	const void *qkv;              /* (T, 2 Hk K + Hv V) act: q, then k, then v */
	struct head_view a, b;        /* (Hv channels) f32 */
	const float *decay;           /* (Hv) f32, below 0: -exp(A_log) */
	const float *dt_bias;         /* (Hv) f32 */
	const int32_t *first_tok;     /* (B+1) */
	struct seq_states states;
	float *state;                 /* (n_slots, Hv, V, K) f32 */
	void *y;                      /* (T, Hv, V) act */
};

void delta_rule_ref(const struct delta_rule_args *a);
