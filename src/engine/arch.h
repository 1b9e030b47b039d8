/* SPDX-License-Identifier: Apache-2.0
 *
 * An architecture turns a model's settings and tensors into a graph that runs on a
 * backend. Thread: as engine_create.
 */
#pragma once
#include "engine/engine.h"

/* What the graph must hold memory for. */
struct arch_limits {
	int32_t n_ctx, page_size, n_pages, max_seqs, max_batch_tok;
};

/* Logits come off the device in pieces of this many rows. */
enum { ARCH_LOGIT_ROWS = 64 };

/* The key of backend.step_begin for this batch. A step is recorded where each sequence
 * has one token and all logits come in one piece: then its launches depend on the
 * number of tokens, that of logit rows, and *out_n_ctx_max (for geometry), which no
 * n_ctx exceeds and which is one of few numbers: powers of two, up to limits->n_ctx.
 * 0, and the largest n_ctx itself, for other batches. graph_id: arch_graph_id() of
 * this graph, since others may share its backend. */
uint64_t arch_step_key(uint16_t graph_id, const struct arch_limits *limits,
		       const struct engine_batch *b, int32_t *out_n_ctx_max);
/* Another for each graph, not 0. Thread: any. */
uint16_t arch_graph_id(void);

struct arch {
	/* Bytes of cache a token takes, in all layers. */
	size_t (*kv_token_bytes)(const struct model *m, const struct backend *b);
	/* Loads every weight and takes all memory of the device. The graph uses m and
	 * b until it is destroyed. */
	enum status (*create)(struct model *m, struct backend *b,
			      const struct arch_limits *limits,
			      struct engine_graph *out, struct fail *fail);
};

#define ARCH(model_type, ident) extern const struct arch arch_##ident;
#include "engine/arch.def"
#undef ARCH
