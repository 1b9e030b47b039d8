/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "engine/graph.h"

enum { LEAST_BOUND = 256 };

/* Tokens and sequences of a step in 11 bits; 0: it is not recorded. Without draft tokens a
 * sequence has one token, and there are at most 1024 (engine_opts.max_seqs). Where draft tokens
 * are alone, the number of sequences does not matter. */
static uint64_t shape_of(const struct engine_batch *b, bool is_alone)
{
	enum { DRAFTS = 1024 };
	if (b->n_tok == b->n_seq)
		return (uint64_t)b->n_tok;
	if (!b->has_drafts || b->n_tok > ENGINE_DRAFT_TOK || b->n_logit_rows != b->n_tok)
		return 0;
	uint64_t n_seq = is_alone ? 0 : (uint64_t)b->n_seq;
	return DRAFTS + n_seq * ENGINE_DRAFT_TOK + (uint64_t)b->n_tok - 1;
}

uint16_t graph_shape_new_id(void)
{
	static _Atomic unsigned n;
	return (uint16_t)(atomic_fetch_add(&n, 1) % UINT16_MAX + 1);
}

struct graph_shape graph_shape_of(uint16_t graph_id, const struct graph_limits *limits,
				  const struct engine_batch *b)
{
	int32_t most = 0, bound = LEAST_BOUND;
	for (int i = 0; i < b->n_seq; i++)
		most = MAX(most, b->n_ctx[i]);
	if (shape_of(b, false) == 0 || b->n_views || b->n_logit_rows > GRAPH_LOGIT_ROWS)
		return (struct graph_shape){.n_ctx_max = most};
	while (bound < MAX(most, b->least_ctx))
		bound *= 2;
	/* One stream alone shares what attention reads among its draft tokens. */
	bool is_alone = b->n_seq > 1 && b->n_tok > b->n_seq && bound <= limits->alone_ctx;
	bound = MIN(bound, limits->n_ctx);
	/* bits, from the highest: 16, 11, 8, 1, and 28 for the context (config: ctx) */
	uint64_t key = (uint64_t)graph_id << 48 | shape_of(b, is_alone) << 37 |
		       (uint64_t)b->n_logit_rows << 29 | (uint64_t)b->has_lora << 28 |
		       (uint64_t)bound;
	return (struct graph_shape){key, bound, is_alone};
}
