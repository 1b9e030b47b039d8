/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures at start what decode steps of some widths cost on this machine. Thread: engine,
 * before the first request.
 */
#pragma once
#include "base/clock.h"
#include "engine/engine_draft.h"
#include "sched/draft.h"

/* Runs steps of 1 to DRAFT_STEP tokens with drafts, as many widths as fit into max_us. If a
 * model drafts, its draft tokens are timed, too. The time of a width is the shortest
 * of a few runs. Widths that were not reached stay 0. E_BACKEND, E_DEVICE. */
enum status step_costs_measure(struct engine *e, const struct clock *clock, int64_t max_us,
			       struct draft_cost *out, struct fail *fail) MUST_USE;

/* Makes a GPU record graphs of steps of several streams with drafts, so that no request
 * waits for that. Records the widths that c knows, as many as fit into max_us. Other
 * backends do nothing. E_BACKEND, E_DEVICE. */
enum status step_costs_record(struct engine *e, const struct clock *clock, int64_t max_us,
			      const struct draft_cost *c, struct fail *fail) MUST_USE;

/* Corrects measurements: a step does not last longer than a wider one. Where it did,
 * something held it up, and it gets the wider one's cost. */
void step_costs_flatten(struct draft_cost *c);

/* Appends "1: 0.21, 2: 0.26, … ms" for the measured widths. */
void step_costs_print(const struct draft_cost *c, struct buf *out);
