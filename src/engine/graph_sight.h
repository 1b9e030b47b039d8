/* SPDX-License-Identifier: Apache-2.0
 *
 * Images in a step of a graph: rows in place of embeddings, what is added to them behind the
 * first layers, and the axes of rope. All are nothing without limits.sight. Thread: engine.
 */
#pragma once
#include "engine/graph.h"

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
/* n numbers in the backend's type of activations; what is too large becomes the largest. */
void graph_sight_to_act(const struct graph *g, const float *x, size_t n, void *out);
