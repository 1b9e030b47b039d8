/* SPDX-License-Identifier: Apache-2.0
 *
 * What decode steps of some widths cost on this machine, measured at start. Thread: engine,
 * before the first request.
 */
#pragma once
#include "base/clock.h"
#include "engine/engine_guess.h"
#include "sched/draft.h"

/* Run steps of 1 to DRAFT_STEP tokens with guesses, as many widths as fit into max_us, and a
 * guess of the model's own layer, where it has one. The time of each width is the least of
 * a few. Costs of widths that were not reached stay 0. E_BACKEND, E_DEVICE. */
enum status widths_measure(struct engine *e, const struct clock *clock, int64_t max_us,
			   struct draft_cost *out, struct fail *fail) MUST_USE;

/* Have a GPU record steps of several streams with guesses, of the widths that c knows, as many
 * as fit into max_us: no request waits for that then. Other backends do nothing. E_BACKEND,
 * E_DEVICE. */
enum status widths_record(struct engine *e, const struct clock *clock, int64_t max_us,
			  const struct draft_cost *c, struct fail *fail) MUST_USE;

/* A step does not last longer than a wider one: where it did, something held it up, and the
 * cost is that of the wider one. */
void widths_flatten(struct draft_cost *c);

/* "1: 0.21, 2: 0.26, … ms" into out, of those measured. */
void widths_print(const struct draft_cost *c, struct buf *out);
