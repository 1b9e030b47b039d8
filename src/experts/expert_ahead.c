/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/expert_ahead.h"

enum { ENOUGH = 16, MOST = 256, MOST_USES = 8192 };

void expert_ahead_step(struct expert_ahead *a, double wait_s, int64_t n_uses)
{
	int way = expert_ahead_pays(a);
	a->wait_s[way] += wait_s;
	a->n_uses[way] += (double)n_uses;
	if (a->n_uses[way] >= MOST_USES) {
		a->wait_s[way] /= 2;
		a->n_uses[way] /= 2;
	}
	a->n_steps++;
}

void expert_ahead_count(struct expert_ahead *a, int32_t n, int32_t n_right)
{
	a->n_predicted += n;
	a->n_right += n_right;
	if (a->n_predicted < MOST)
		return;
	a->n_predicted /= 2;
	a->n_right /= 2;
}

/* True if steps wait less with reading ahead, or nothing was measured yet. */
static bool is_faster(const struct expert_ahead *a)
{
	if (a->n_uses[0] == 0 || a->n_uses[1] == 0)
		return true;
	return a->wait_s[1] * a->n_uses[0] < a->wait_s[0] * a->n_uses[1];
}

bool expert_ahead_pays(const struct expert_ahead *a)
{
	uint64_t at = a->n_steps % EXPERT_AHEAD_PERIOD;
	if (a->n_predicted < ENOUGH || 2 * a->n_right < a->n_predicted)
		return false;
	return at < 2 * EXPERT_AHEAD_TRIAL ? at >= EXPERT_AHEAD_TRIAL : is_faster(a);
}

bool expert_ahead_wants(const struct expert_ahead *a)
{
	return a->n_predicted < ENOUGH || expert_ahead_pays(a) ||
	       a->n_steps % EXPERT_AHEAD_EVERY == 0;
}
