/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares the queries and the compressed key of MLA for attention. A key has C elements,
 * from which the keys and values of all heads derive, and N elements that rope rotates:
 *
 *   key    normalises the C elements as rms_norm does, rotates the last N, and writes all
 *          to the page and offset of the token's slot
 *   query  rotates the last N elements of each head, and multiplies them by q_scale; the
 *          first C are already in place
 *
 * Rotated pairs (a, b) are (x[2i], x[2i+1]) if is_interleaved, else (x[i], x[i + N/2]).
 * In both cases the result a cos - b sin goes to i, and b cos + a sin to i + N/2. The
 * product of query and key does not depend on that order. Source: modeling_deepseek_v3.py
 * of Hugging Face Transformers, DeepseekV3Attention.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/kv_pages.h"

struct mla_rope_kv_args {
	int32_t n_tok, n_heads;      /* T, H */
	int32_t c_dim, rope_dim;     /* C, N; N is even */
	bool is_interleaved;
	float eps, q_scale;
	const void *q_from; /* (T, H, q_pitch) act: the N elements are the last of each head */
	int32_t q_pitch;
	void *q;                     /* (T, H, C + N) act: the last N are written */
	const void *kv_from;         /* (T, C + N) act */
	const float *norm;           /* (C) f32 */
	const float *rope;           /* (T, N/2, 2) f32, from rope_table */
	const int32_t *slot;         /* (T) page * P + offset; all different */
	struct kv_pages kv;          /* k (n_pages, 1, P, C + N), v NULL */
};

void mla_rope_kv_ref(const struct mla_rope_kv_args *a);
