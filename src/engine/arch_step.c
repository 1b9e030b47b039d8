/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "engine/arch.h"

enum { LEAST_BOUND = 256 };

uint16_t arch_graph_id(void)
{
	static _Atomic unsigned n;
	return (uint16_t)(atomic_fetch_add(&n, 1) % UINT16_MAX + 1);
}

uint64_t arch_step_key(uint16_t graph_id, const struct arch_limits *limits,
		       const struct engine_batch *b, int32_t *out_n_ctx_max)
{
	int32_t most = 0, bound = LEAST_BOUND;
	for (int i = 0; i < b->n_seq; i++)
		most = MAX(most, b->n_ctx[i]);
	*out_n_ctx_max = most;
	if (b->n_tok != b->n_seq || b->n_logit_rows > ARCH_LOGIT_ROWS)
		return 0;
	while (bound < most)
		bound *= 2;
	*out_n_ctx_max = MIN(bound, limits->n_ctx);
	/* 16 bits, 11 (engine_opts.max_seqs), 8, 29 (config: ctx) */
	return (uint64_t)graph_id << 48 | (uint64_t)b->n_tok << 37 |
	       (uint64_t)b->n_logit_rows << 29 | (uint64_t)*out_n_ctx_max;
}
