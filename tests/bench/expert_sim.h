/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes how often an expert would have been in memory. Replays recorded choices of routers
 * against a number of slots. A pure function of the recorded trace. Thread: any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Experts that were used together: those of one layer in one step, each once. */
struct expert_trace {
	int32_t n_experts;  /* of all layers */
	int32_t *expert;    /* (n_uses): group after group */
	size_t n_uses, cap_uses;
	size_t *end;        /* (n_groups) end of each group in `expert` */
	bool *begins_step;  /* (n_groups) true: a new step begins with this group */
	size_t n_groups, cap_groups;
	int32_t *predicted;     /* (n_predicted): group after group */
	size_t n_predicted, cap_predicted;
	size_t *predicted_end;  /* (n_groups) end of each group's predictions in `predicted` */
};

/* Append an expert to the predictions of the next group that is added. */
void expert_trace_predict(struct expert_trace *t, int32_t expert);

/* Append a group; ids may repeat and are kept once. */
void expert_trace_add(struct expert_trace *t, const int32_t *expert, size_t n,
		      bool begins_step);
void expert_trace_deinit(struct expert_trace *t);

enum expert_policy {
	EXPERT_POLICY_OURS,   /* expert_slots.h */
	EXPERT_POLICY_LRU,    /* least recently used leaves */
	EXPERT_POLICY_BELADY, /* the one whose next use is farthest away leaves: nothing
			       * does better [Belady 1966], but it knows the future */
	EXPERT_POLICY_COUNT
};
const char *expert_policy_name(enum expert_policy p); /* "halod", "lru", "belady" */

/* Counts the uses from group `first_group` on that find their expert in one of n_slots (at
 * least 1). Groups before it only fill the slots. A group larger than the slots passes through
 * them in parts. */
size_t expert_sim_hits(const struct expert_trace *t, enum expert_policy p, int32_t n_slots,
		       size_t first_group);
/* Like expert_sim_hits with our policy, and with the trace's predictions, which are read ahead when
 * expert_ahead.h says so. An expert that is read ahead counts as found. In units of time, a use
 * that is not found waits for 1, and a wrong prediction makes the step wait for `busy`: 0 if
 * computing takes so long that the disk is idle, 1 if the disk is never idle. *out_reads:
 * experts read. */
size_t expert_sim_ahead(const struct expert_trace *t, int32_t n_slots, size_t first_group,
			double busy, size_t *out_reads);
/* Number of uses from group first_group on. */
size_t expert_trace_uses(const struct expert_trace *t, size_t first_group);
