/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps recorded as graphs (hip_graph.c). Thread: engine.
 */
#pragma once
#include "backend/hip/hip.h"

enum status hip_step_begin(struct backend *b, uint64_t key, bool *out_run);
enum status hip_step_end(struct backend *b, bool *out_again);
/* True if a step is being captured. Then `what` cannot be done: this refuses it, and the
 * recording will be discarded. */
bool hip_graph_is_open(struct hip *h, const char *what);
/* Discard all graphs, because memory whose addresses they may hold is being freed. */
void hip_graph_clear(struct hip *h);
/* The file of backend_opts.graph_notes: read it, and set no_graphs if it tells of two ends of the
 * process at one place with this version of the runtime. */
void hip_graph_notes_open(struct hip *h, const char *path);
/* The device has done all that was queued, so the first step as a graph is no trial any more. */
void hip_graph_ran(struct hip *h);
