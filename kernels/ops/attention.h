/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention over the paged cache, for prefill and decode. Token t of sequence b
 * sees the positions 0 .. position[t] of b, or only the last `window` of these, or with
 * is_chunked those from the last multiple of `window` on (Llama 4). Their
 * keys and values are already in the cache, including the token's own. Query head h reads
 * key and value head h / (H / G):
 *
 *   y[t][h] = sum_s p[s] v[s],  p = softmax_s(scale * q[t][h] . k[s])
 *
 * Vaswani et al., Attention Is All You Need, 2017, eq. 1; Ainslie et al., GQA, 2023.
 *
 * last_seen: token t sees the positions up to last_seen[t], which may come after its own. Vision
 * towers, encoders, and images in prompts need this. The first position that t sees does not
 * change. Within a sequence last_seen never becomes smaller. With a cache in int8, no token sees
 * beyond the last token that its sequence has in the step.
 *
 * sinks: each query head has one more logit, sinks[h] (not multiplied by scale), which
 * takes part in the softmax and has no value. OpenAI, gpt-oss model card, 2025.
 *
 * v_dim: values may be narrower or wider than keys. kv.v == NULL: there are no separate
 * values, and the value of a position is the first v_dim elements of its key. This is the
 * compressed cache of MLA (DeepSeek-V2, 2024, section 2.1, with absorbed projections).
 *
 * fused: the step's q, k and v are still raw and not in the cache. The operation first
 * does this qk_norm_rope_kv, for the same tokens, heads and cache, and its result is q. y
 * and the cache have the bits of the two operations in sequence; q itself may stay
 * unchanged.
 */
#pragma once
#include "kernels/ops/kv_pages.h"
#include "kernels/ops/qk_norm_rope_kv.h"

struct attention_args {
	int32_t n_tok, n_seq, n_heads, n_kv_heads, head_dim;
	int32_t max_pages_per_seq;
	int32_t n_ctx_max; /* host: all positions are below this; only for launch geometry */
	int32_t window;            /* positions that a token sees up to its own; 0: all */
	bool is_chunked;           /* window is the size of a chunk, a power of two */
	const int32_t *last_seen;  /* (T) last position that each token sees; NULL: its own */
	float scale;
	const void *q;             /* (T, H, K) act */
	struct kv_pages kv;
	const int32_t *seq_of;     /* (T) sequence of each token */
	const int32_t *position;   /* (T) position of each token in its sequence */
	const int32_t *first_tok;  /* (B+1) b's first token; b has at least one, at
				    * consecutive positions */
	const int32_t *page_table; /* (B, max_pages_per_seq) */
	void *y;                   /* (T, H, v_dim) act */
	const float *sinks;        /* (H) f32 attention sinks, or NULL */
	int32_t v_dim;             /* elements of a value; 0: head_dim */
	const struct qk_norm_rope_kv_args *fused; /* host; operation to do first, or NULL */
};

static inline int32_t attention_v_dim(const struct attention_args *a)
{
	return a->v_dim ? a->v_dim : a->head_dim;
}

/* First position that token t sees. */
static inline int32_t attention_first(const struct attention_args *a, int32_t t)
{
	int32_t position = a->position[t];
	if (a->is_chunked)
		return position & -a->window;
	return a->window && position >= a->window ? position - a->window + 1 : 0;
}

/* Last position that token t sees. */
static inline int32_t attention_last(const struct attention_args *a, int32_t t)
{
	return a->last_seen ? a->last_seen[t] : a->position[t];
}

void attention_ref(const struct attention_args *a);
