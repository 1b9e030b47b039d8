/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer that guesses, as a part of the graph. Thread: engine.
 */
#pragma once
#include "engine/graph.h"

/* Does m have the layer that guesses (config.mtp), but not all of it? out, 200 bytes: the
 * name of a tensor that is missing. */
bool graph_mtp_lacks(struct model *m, const struct arch *arch, char out[200]);

/* Loading and memory; all are nothing without limits.mtp. */
enum status mtp_load(struct graph *g, struct fail *fail) MUST_USE;
enum status mtp_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* In a step, behind its layers: keys and values of all its tokens. */
enum status mtp_fill(struct graph *g, const struct graph_step *s, struct fail *fail) MUST_USE;
/* All of it but the head: hidden states of the guesses, (T, D) act. */
enum status mtp_run(struct graph *g, const struct graph_step *s, void **out,
		    struct fail *fail) MUST_USE;
