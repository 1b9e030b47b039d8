/* SPDX-License-Identifier: Apache-2.0
 *
 * When reading ahead pays. A pure policy: it reads no clock and no file.
 *
 * Someone guesses which experts the next layer will use. A guess counts only where its
 * expert is not in memory. Two things must hold for it to be read:
 *
 *   At least half of the guesses are right. They are counted also while nothing is read,
 *   in one step of EXPERT_AHEAD_EVERY.
 *   Steps wait for less time, a use, with it than without. Where computing takes long, reads
 *   are done beside it. Where the disk is always busy, wrong guesses only take its time. Of
 *   each EXPERT_AHEAD_PERIOD steps the first run without, then as many with it, and the
 *   others in the better way.
 *
 * Thread: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { EXPERT_AHEAD_EVERY = 16, EXPERT_AHEAD_PERIOD = 128, EXPERT_AHEAD_TRIAL = 8 };

/* Zeros: nothing was measured. */
struct expert_ahead {
	double n_guessed, n_right;  /* they count half after 128 guesses or more */
	uint64_t n_steps;
	double wait_s[2], n_uses[2]; /* steps without guesses, with them; aged in the same way */
};

/* A step begins, in which guesses are possible. In the one before, n_uses experts were used,
 * and it waited for wait_s. */
void expert_ahead_step(struct expert_ahead *a, double wait_s, int64_t n_uses);
/* Of n guesses whose experts were not there, n_right were used. */
void expert_ahead_count(struct expert_ahead *a, int32_t n, int32_t n_right);
/* Are guesses read in this step? */
bool expert_ahead_pays(const struct expert_ahead *a);
/* Is a guess wanted in this step? */
bool expert_ahead_wants(const struct expert_ahead *a);
