/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of what products read and write (model/formats/turn.h), in a graph. Thread: engine.
 */
#pragma once
#include "engine/graph_calls.h"

/* What a graph keeps of them. */
struct graph_turns {
	struct turn_memory memory; /* on the device */
	struct device_turn **on;   /* (n_on), each host's matrix once */
	struct weight_turns **of;  /* (n_of) of weights */
	size_t n_on, n_of;
};

/* Sets p->out->turns, where the layer `name` has some. E_UNSUPPORTED for what is read by
 * another operation than linear. */
enum status graph_turns_load(struct graph *g, const char *name, const struct graph_part *p,
			     struct fail *fail) MUST_USE;
/* The same for the output head, g->head, whose outputs never turn. */
enum status graph_turns_head(struct graph *g, struct fail *fail) MUST_USE;
/* E_UNSUPPORTED if one of n weights, which another operation reads, has turns. */
enum status graph_turns_none(const struct weight *const *w, size_t n, const char *what,
			     struct fail *fail) MUST_USE;
enum status graph_turns_alloc(struct graph *g, struct fail *fail) MUST_USE;
void graph_turns_free(struct graph *g);
