/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages and states of a graph between the device and the host's memory. Thread: engine.
 */
#pragma once
#include "engine/graph.h"

/* The function for engine_graph.move, and the bytes of one page or state. */
enum status graph_move(void *ctx, const struct engine_move *m);
size_t graph_move_bytes(const struct graph *g, bool is_state);
/* Takes the memory of g->mover, if limits.moves. */
enum status graph_move_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* Fills in g->mover, once the cache is allocated. */
enum status graph_move_begin(struct graph *g) MUST_USE;
