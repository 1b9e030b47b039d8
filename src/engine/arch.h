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
