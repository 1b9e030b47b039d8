/* SPDX-License-Identifier: Apache-2.0
 *
 * When reading ahead pays. A pure policy: it reads no clock and no file.
 *
 * The engine predicts which experts the next layer will use. Only predictions of experts that are
 * not in memory count. Two things must hold for the predicted experts to be read:
 *
 *   At least half of the predictions are right. While nothing is read ahead, predictions are still
 *   counted in one step of EXPERT_AHEAD_EVERY.
 *   Steps wait less time for each use of an expert with reading ahead than without. If
 *   computing takes long, reads run beside it. If the disk is always busy, wrong predictions only
 *   take its time. Of each EXPERT_AHEAD_PERIOD steps, the first run without reading ahead, then
 *   as many with it, and the rest in the better way.
 *
 * Thread: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { EXPERT_AHEAD_EVERY = 16, EXPERT_AHEAD_PERIOD = 128, EXPERT_AHEAD_TRIAL = 8 };

/* All zeros: nothing was measured. */
struct expert_ahead {
	double n_predicted, n_right; /* both are halved when 128 predictions are reached, so
				      * that old ones count less */
	uint64_t n_steps;
	double wait_s[2], n_uses[2]; /* [0]: steps without reading ahead, [1]: with; old ones
				      * count less in the same way */
};

/* A step begins in which predictions are possible. In the step before, n_uses experts were used,
 * and the step waited wait_s for them. */
void expert_ahead_step(struct expert_ahead *a, double wait_s, int64_t n_uses);
/* Count n predictions of experts that were not in memory, of which n_right were then used. */
void expert_ahead_count(struct expert_ahead *a, int32_t n, int32_t n_right);
/* True if predicted experts are to be read in this step. */
bool expert_ahead_pays(const struct expert_ahead *a);
/* True if predictions are to be made in this step, to read experts or only to count. */
bool expert_ahead_wants(const struct expert_ahead *a);
