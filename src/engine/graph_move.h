/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages and states of a graph between the device and the host's memory. Thread: engine.
 */
#pragma once
#include "engine/graph.h"

/* engine_graph.move of a graph and what belongs to it, and the bytes of a page or state. */
enum status graph_move(void *ctx, const struct engine_move *m);
enum status graph_move_wait(void *ctx);
/* The same of engine_graph.alloc_pinned, where the backend has it. */
void *graph_alloc_pinned(void *ctx, size_t n_bytes);
void graph_free_pinned(void *ctx, void *p);
size_t graph_move_bytes(const struct graph *g, bool is_state);
/* Takes the memory of g->mover, if limits.moves. */
enum status graph_move_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* Fills in g->mover, once the cache is allocated. */
enum status graph_move_begin(struct graph *g) MUST_USE;
