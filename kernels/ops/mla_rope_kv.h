/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries and the compressed key of MLA before attention. A key is C elements that
 * stand for keys and values of all heads, and N that turn with the position:
 *   key    compressed C normalised as rms_norm does it, then the last N turned; written
 *          to the page and offset of the token's slot
 *   query  of each head its last N turned, times q_scale; its first C are there already
 * Turned are pairs (a, b) = (x[2i], x[2i+1]) where is_interleaved, else (x[i], x[i +
 * N/2]); they become a cos - b sin at i and b cos + a sin at i + N/2 in either case,
 * which for the product of a query and a key is all the same. Source:
 * modeling_deepseek_v3.py of Hugging Face Transformers, DeepseekV3Attention.
 */
#pragma once
#include <stdbool.h>

#include "kernels/ops/kv_pages.h"

struct mla_rope_kv_args {
	int32_t n_tok, n_heads;      /* T, H */
	int32_t c_dim, rope_dim;     /* C, N; N is even */
	bool is_interleaved;
	float eps, q_scale;
	const void *q_from;          /* (T, H, q_pitch) act: the N elements are the last */
	int32_t q_pitch;
	void *q;                     /* (T, H, C + N) act: the last N are written */
	const void *kv_from;         /* (T, C + N) act */
	const float *norm;           /* (C) f32 */
	const float *rope;           /* (T, N/2, 2) f32, of rope_table */
	const int32_t *slot;         /* (T) page * P + offset; no two alike */
	struct kv_pages kv;          /* k (n_pages, 1, P, C + N), v NULL */
};

void mla_rope_kv_ref(const struct mla_rope_kv_args *a);
