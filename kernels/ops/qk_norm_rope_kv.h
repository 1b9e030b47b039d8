/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares queries, keys and values for attention. For each head of K elements:
 *
 *   q, k  are normalised over the head as rms_norm does (if norms are given)
 *   q, k  are rotated: in the first 2 n_freq elements, each pair (a, b) = (h[i],
 *         h[i + n_freq]) becomes (a cos - b sin, b cos + a sin)
 *   q, k  are Hadamard-transformed, if the cache is in 8 bits (kv_bytes.h)
 *   k, v  are written to the page and offset of each token's slot
 *
 * Source: modeling_qwen3.py of Hugging Face Transformers, Qwen3Attention.forward,
 * rotate_half.
 */
#pragma once
#include "kernels/ops/kv_pages.h"

struct qk_norm_rope_kv_args {
	int32_t n_tok, n_heads, n_kv_heads, head_dim;
	int32_t n_freq;      /* rotated pairs of a head, 0 .. K/2; 0: no rotation */
	float eps;
	void *q;             /* (T, H, K) act; changed in place */
	const void *k;       /* (T, G, K) act */
	const void *v;       /* (T, G, K) act */
	const float *q_norm; /* (K) f32 norm weights, or NULL: no norm */
	const float *k_norm; /* (K) f32 norm weights, or NULL: no norm */
	const float *rope;   /* (T, n_freq, 2) f32, from rope_table */
	const int32_t *slot; /* (T) page * P + offset; all different */
	struct kv_pages kv;  /* without kv heads: only its type is read, for q */
	/* Queries in rows that hold other data too: head h of token t is at (t * H + h) *
	 * q_pitch of q_from, and q is only written. NULL: q is read. */
	const void *q_from;  /* (T, H, q_pitch) act, or NULL */
	int32_t q_pitch;     /* >= K */
	/* The norm's weights multiply the head after its rotation. The rotation does not change a
	 * head's mean square. Source: modeling_hunyuan_v1_dense.py. */
	bool norm_after_rope;
	const float *q_scale; /* (T) f32: rotated queries are multiplied by it; NULL: 1 */
};

void qk_norm_rope_kv_ref(const struct qk_norm_rope_kv_args *a);
