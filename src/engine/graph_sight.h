/* SPDX-License-Identifier: Apache-2.0
 *
 * Images in a step of a graph: rows in place of embeddings, what is added to them behind the
 * first layers, and the axes of rope. All are nothing without limits.sight. Thread: engine.
 */
#pragma once
#include "engine/graph.h"

/* Tokens of an image see each other: steps have last_seen. */
bool graph_sight_is_mutual(const struct graph *g);
/* What attention is to know of them in step s, in a layer with that window; else nothing. */
void graph_sight_see(const struct graph *g, const struct graph_step *s,
		     struct attention_args *a);
/* Positions have three axes. */
bool graph_sight_has_axes(const struct graph *g);
/* Memory. */
enum status graph_sight_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* Fill in the axes of rope, once the memory is there. */
enum status graph_sight_begin(struct graph *g) MUST_USE;
/* In a step, behind the embeddings. */
enum status graph_sight_rows(struct graph *g, const struct graph_step *s,
			     struct fail *fail) MUST_USE;
/* In a step, behind layer i. */
enum status graph_sight_add(struct graph *g, const struct graph_step *s, int i,
			    struct fail *fail) MUST_USE;
