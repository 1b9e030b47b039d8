/* SPDX-License-Identifier: Apache-2.0
 *
 * The MTP layer, as a part of the graph. Thread: engine.
 */
#pragma once
#include "engine/graph.h"

/* True if m has the MTP layer (config.mtp), but not all of it. out, 200 bytes: the name
 * of a tensor that is missing. */
bool graph_mtp_lacks(struct model *m, const struct family *family, char out[200]);

/* Loading and memory. Without limits.mtp these functions do nothing. */
enum status mtp_load(struct graph *g, struct fail *fail) MUST_USE;
enum status mtp_alloc(struct graph *g, struct fail *fail) MUST_USE;
/* In a step, after its layers: makes keys and values of all its tokens in this layer. */
enum status mtp_fill(struct graph *g, const struct graph_step *s, struct fail *fail) MUST_USE;
/* Runs all of it but the head, or the EAGLE-3 head of limits.target in its place. *out: hidden
 * states of the draft tokens, (T, D) act. */
enum status mtp_run(struct graph *g, const struct graph_step *s, void **out,
		    struct fail *fail) MUST_USE;

/* The same for a model with several residual streams (mtp_streams.c). g->x is m->x. */
enum status mtp_streams_load(struct graph *g, struct fail *fail) MUST_USE;
enum status mtp_streams_fill(struct graph *g, const struct graph_step *s,
			     struct fail *fail) MUST_USE;
enum status mtp_streams_run(struct graph *g, const struct graph_step *s, void **out,
			    struct fail *fail) MUST_USE;

/* Hidden states (struct mtp), which a head has too (eagle.h): those from `row` on, and all of them
 * as a table for embed_rows. */
void *mtp_hidden_at(const struct graph *g, int32_t row);
struct weight mtp_hidden_table(const struct graph *g);
