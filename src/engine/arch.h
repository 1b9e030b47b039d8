/* SPDX-License-Identifier: Apache-2.0
 *
 * An architecture says what a layer has and how it runs; graph.c does the rest.
 * Thread: as engine_create.
 */
#pragma once
#include "engine/graph.h"

struct arch {
	/* Loads the weights of layer i. */
	enum status (*load_layer)(struct graph *g, int i, struct fail *fail);
	/* Queues what layer i does to the residual stream g->x. */
	enum status (*run_layer)(struct graph *g, int i, const struct graph_step *s,
				 struct fail *fail);
};

#define ARCH(model_type, ident) extern const struct arch arch_##ident;
#include "engine/arch.def"
#undef ARCH
