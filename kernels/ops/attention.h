/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention over the paged cache, prefill and decode alike. Token t of
 * sequence b sees positions 0 .. position[t] of b, or the last `window` of them, whose
 * keys and values are in the cache already, its own included. Query head h reads key
 * and value head h / (H / G):
 *   y[t][h] = sum_s p[s] v[s],  p = softmax_s(scale * q[t][h] . k[s])
 * Vaswani et al., Attention Is All You Need, 2017, eq. 1; Ainslie et al., GQA, 2023.
 *
 * sinks: each query head has one more logit, sinks[h] (not scaled), which takes its
 * share of the softmax and gives no value. OpenAI, gpt-oss model card, 2025.
 * v_dim: values are narrower (or wider) than keys. kv.v == NULL: there are no values,
 * the value of a position is the first v_dim elements of its key (the compressed cache
 * of MLA: DeepSeek-V2, 2024, section 2.1, with the products of the heads absorbed).
 *
 * fresh: the step's q, k and v are still raw, and not in the cache: first this
 * qk_norm_rope_kv, of the same tokens, heads and cache, whose q is this one's. y and the
 * cache get the bits that the operations one after the other give; q may stay as it is.
 */
#pragma once
#include "kernels/ops/kv_pages.h"
#include "kernels/ops/qk_norm_rope_kv.h"

struct attention_args {
	int32_t n_tok, n_seq, n_heads, n_kv_heads, head_dim;
	int32_t max_pages_per_seq;
	int32_t n_ctx_max;         /* host: no position reaches it; for geometry */
	int32_t window;            /* 0: all */
	float scale;
	const void *q;             /* (T, H, K) act */
	struct kv_pages kv;
	const int32_t *seq_of;     /* (T) */
	const int32_t *position;   /* (T) */
	const int32_t *first_tok;  /* (B+1): b's tokens, one or more, at positions in a
				    * row */
	const int32_t *page_table; /* (B, max_pages_per_seq) */
	void *y;                   /* (T, H, v_dim) act */
	const float *sinks;        /* (H) f32, or NULL */
	int32_t v_dim;             /* elements of a value; 0: head_dim */
	const struct qk_norm_rope_kv_args *fresh; /* host, or NULL */
};

static inline int32_t attention_v_dim(const struct attention_args *a)
{
	return a->v_dim ? a->v_dim : a->head_dim;
}

/* First position that is seen from `position`. */
static inline int32_t attention_first(const struct attention_args *a, int32_t position)
{
	return a->window && position >= a->window ? position - a->window + 1 : 0;
}

void attention_ref(const struct attention_args *a);
