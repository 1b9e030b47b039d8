/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread of a model in memory that has the requests of its batches computed: one batch at a time,
 * the oldest first, some requests at a time, as requests of the background (sched/policy.c).
 * Embeddings, which the scheduler does not know, are computed one by one while it is idle.
 *
 * An answer is in the journal before its request is forgotten. So a process that ends, in whatever
 * way, leaves what another one goes on with. While the disk is full nothing new begins, and the
 * answers that are there wait for room. Thread: io.
 */
#pragma once
#include "api/api.h"
#include "batch/batch_records.h"
#include "sched/sched.h"

struct batch_run;

struct batch_run_opts {
	const struct api *api;
	struct sched *sched; /* NULL: it computes nothing, validates, and ends what is over */
	struct batch_store *store;
	struct batch_whose whose; /* the batches of this model */
	bool (*is_one)(void *ctx, struct str a, struct str b); /* struct batch_rules.is_one */
	void *ctx;                                             /* of is_one */
	int n_at_once; /* requests */
	int max_lines; /* of a batch's file */
	size_t max_line_bytes;
};

/* E_LIMIT: the system permits no thread. */
enum status batch_run_start(const struct batch_run_opts *o, struct batch_run **out,
			    struct fail *fail) MUST_USE;
/* A batch was made or cancelled. Thread: any. */
void batch_run_wake(struct batch_run *r);
/* Call it when sched_run has returned. NULL is fine. */
void batch_run_stop(struct batch_run *r);
