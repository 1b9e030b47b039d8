/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to queries, keys and values before attention, for each head of K:
 *   q, k  normalised as rms_norm does it, over the head (where norms are given)
 *   q, k  rotated: the halves of the first 2 n_freq elements are pairs (a, b) =
 *         (h[i], h[i + n_freq]), which become (a cos - b sin, b cos + a sin)
 *   k, v  written to the page and offset of each token's slot
 * Source: modeling_qwen3.py of Hugging Face Transformers, Qwen3Attention.forward,
 * rotate_half.
 */
#pragma once
#include "kernels/ops/kv_pages.h"

struct qk_norm_rope_kv_args {
	int32_t n_tok, n_heads, n_kv_heads, head_dim;
	int32_t n_freq;      /* 0 .. K/2; 0: no rotation */
	float eps;
	void *q;             /* (T, H, K) act; changed in place */
	const void *k;       /* (T, G, K) act */
	const void *v;       /* (T, G, K) act */
	const float *q_norm; /* (K) f32, or NULL */
	const float *k_norm; /* (K) f32, or NULL */
	const float *rope;   /* (T, n_freq, 2) f32, of rope_table */
	const int32_t *slot; /* (T) page * P + offset; no two alike */
	struct kv_pages kv;
	/* Queries that come with more beside them: head h of token t is read at (t * H +
	 * h) * q_pitch of q_from and q is only written. NULL: they are in q. */
	const void *q_from;  /* (T, H, q_pitch) act, or NULL */
	int32_t q_pitch;     /* >= K */
	const float *q_scale; /* (T) f32: rotated queries are multiplied by it; NULL: 1 */
};

void qk_norm_rope_kv_ref(const struct qk_norm_rope_kv_args *a);
