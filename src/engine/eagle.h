/* SPDX-License-Identifier: Apache-2.0
 *
 * An EAGLE-3 head, in a graph of its own beside the graph of the model that it drafts for. Thread:
 * engine.
 */
#pragma once
#include "engine/graph.h"

extern const struct family family_eagle;

/* Of the model: memory for the inputs of the layers that the head reads (limits.taps), and their
 * copies in a step, before layer i. */
enum status eagle_tap_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status eagle_tap(struct graph *g, int i, const struct graph_step *s,
		      struct fail *fail) MUST_USE;

/* Of the head, where limits.target is set: as those of mtp.h. */
enum status eagle_load(struct graph *g, struct fail *fail) MUST_USE;
enum status eagle_alloc(struct graph *g, struct fail *fail) MUST_USE;
enum status eagle_fill(struct graph *g, const struct graph_step *s, struct fail *fail) MUST_USE;
enum status eagle_run(struct graph *g, const struct graph_step *s, void **out,
		      struct fail *fail) MUST_USE;
