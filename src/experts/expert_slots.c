/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores decay relative to new uses: each step adds a larger amount for a use, which touches no
 * other score. When the amount has become large, all scores are scaled down together.
 */
#include "experts/expert_slots.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

#define TOO_LARGE 0x1p40

struct expert_slots {
	int32_t n_experts, n_slots;
	double *score;      /* (n_experts), in units of `unit` */
	double unit;        /* what a use adds in this step */
	int32_t *slot_of;   /* (n_experts); -1: none */
	int32_t *expert_in; /* (n_slots); -1: empty */
	bool *is_held;      /* (n_slots) */
};

struct expert_slots *expert_slots_create(int32_t n_experts, int32_t n_slots,
					 const float *scores)
{
	struct expert_slots *s = xcalloc(1, sizeof *s);
	s->n_experts = n_experts;
	s->n_slots = n_slots;
	s->unit = 1;
	s->score = xcalloc((size_t)n_experts, sizeof *s->score);
	s->slot_of = xcalloc((size_t)n_experts, sizeof *s->slot_of);
	s->expert_in = xcalloc((size_t)n_slots, sizeof *s->expert_in);
	s->is_held = xcalloc((size_t)n_slots, sizeof *s->is_held);
	for (int32_t e = 0; e < n_experts; e++) {
		s->slot_of[e] = -1;
		/* Scores come from a file: no value in it may break the order. */
		if (scores && isfinite(scores[e]) && scores[e] > 0)
			s->score[e] = MIN((double)scores[e], TOO_LARGE);
	}
	for (int32_t i = 0; i < n_slots; i++)
		s->expert_in[i] = -1;
	return s;
}

void expert_slots_destroy(struct expert_slots *s)
{
	if (!s)
		return;
	free(s->score);
	free(s->slot_of);
	free(s->expert_in);
	free(s->is_held);
	free(s);
}

void expert_slots_step(struct expert_slots *s)
{
	s->unit *= exp2(1.0 / EXPERT_HALF_LIFE);
	if (s->unit < TOO_LARGE)
		return;
	for (int32_t e = 0; e < s->n_experts; e++)
		s->score[e] /= s->unit;
	s->unit = 1;
}

void expert_slots_use(struct expert_slots *s, int32_t e)
{
	s->score[e] += s->unit;
}

/* The slot to use next: an empty one, or that of the expert with the lowest score. -1: all are
 * held. */
static int32_t expert_slots_choose(const struct expert_slots *s)
{
	int32_t best = -1;
	double lowest = INFINITY;
	for (int32_t i = 0; i < s->n_slots; i++) {
		if (s->expert_in[i] < 0)
			return i;
		if (!s->is_held[i] && s->score[s->expert_in[i]] < lowest) {
			best = i;
			lowest = s->score[s->expert_in[i]];
		}
	}
	return best;
}

bool expert_slots_take(struct expert_slots *s, int32_t e, struct expert_take *out)
{
	int32_t i = s->slot_of[e];
	*out = (struct expert_take){.slot = i, .left = -1, .is_hit = i >= 0};
	if (i < 0) {
		i = out->slot = expert_slots_choose(s);
		if (i < 0)
			return false;
		out->left = s->expert_in[i];
		if (out->left >= 0)
			s->slot_of[out->left] = -1;
		s->expert_in[i] = e;
		s->slot_of[e] = i;
	}
	s->is_held[i] = true;
	return true;
}

void expert_slots_release(struct expert_slots *s, int32_t e)
{
	if (s->slot_of[e] >= 0)
		s->is_held[s->slot_of[e]] = false;
}

void expert_slots_drop(struct expert_slots *s, int32_t e)
{
	int32_t i = s->slot_of[e];
	if (i < 0)
		return;
	s->is_held[i] = false;
	s->expert_in[i] = -1;
	s->slot_of[e] = -1;
}

int32_t expert_slots_find(const struct expert_slots *s, int32_t e)
{
	return s->slot_of[e];
}

void expert_slots_scores(const struct expert_slots *s, float *out)
{
	for (int32_t e = 0; e < s->n_experts; e++)
		out[e] = (float)(s->score[e] / s->unit);
}

struct scored_expert {
	double score;
	int32_t e;
};

static int compare(const void *a, const void *b)
{
	const struct scored_expert *x = a, *y = b;
	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return x->e < y->e ? -1 : x->e > y->e;
}

int32_t expert_slots_best(const struct expert_slots *s, int32_t *out)
{
	struct scored_expert *all = xcalloc((size_t)s->n_experts, sizeof *all);
	int32_t n = 0;
	for (int32_t e = 0; e < s->n_experts; e++)
		if (s->score[e] > 0)
			all[n++] = (struct scored_expert){s->score[e], e};
	qsort(all, (size_t)n, sizeof *all, compare);
	n = MIN(n, s->n_slots);
	for (int32_t i = 0; i < n; i++)
		out[i] = all[i].e;
	free(all);
	return n;
}
