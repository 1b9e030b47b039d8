/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules.
 *
 * Widths. Only some are used: each new one costs a GPU a graph, and a trial.
 *
 * Costs. The first step of a width is left out, since it warms caches up or records a
 * graph. Then costs follow the last steps. A width that was never seen is taken to cost
 * as much as the next narrower one that was: so it is tried once, and then known.
 *
 * Trust. A guess counts with a prior that grows with the match, and its evidence fades,
 * so that a text which turns from code to prose is noticed within some ten drafts.
 *
 * Loss. A draft that seems too dear is tried once in TRIAL refusals. A trial costs at
 * most one step of a few times the usual, so less than 2 % in all.
 */
#include "sched/draft.h"

#include "base/alloc.h"

#define FOLLOW 0.2  /* weight of the newest step in a cost */
#define CLIP 2.0    /* a step that lasted longer than this many times was held up */
#define FADE 0.8    /* of old evidence with each draft */
#define PRIOR 4.0   /* guesses that the prior counts for */
#define TRIAL 128
#define WORTH 1.03  /* tokens a second that a draft must give, to what there is without */

static const int widths[] = {1, 2, 3, 5, 7, 11, 15};
enum { N_WIDTHS = sizeof widths / sizeof *widths };

void draft_cost_note(struct draft_cost *c, int n_tok, int64_t us)
{
	double lasted = (double)us;
	if (n_tok < 1 || n_tok > DRAFT_STEP)
		return;
	double *cost = &c->us[n_tok];
	if (c->n[n_tok]++ < 2) { /* the first, and the one that takes its place */
		*cost = lasted;
		return;
	}
	if (lasted > CLIP * *cost)
		lasted = CLIP * *cost;
	*cost += FOLLOW * (lasted - *cost);
}

void draft_guess_note(struct draft_cost *c, int n, int64_t us)
{
	double each = n > 0 ? (double)us / n : 0;
	if (n < 1)
		return;
	if (c->n_guess++ < 2)
		c->guess_us = each;
	else
		c->guess_us += FOLLOW * (MIN(each, CLIP * c->guess_us) - c->guess_us);
}

/* 0: nothing is known. */
static double cost_of(const struct draft_cost *c, int n_tok)
{
	if (n_tok > DRAFT_STEP)
		n_tok = DRAFT_STEP;
	while (n_tok > 0 && c->n[n_tok] == 0)
		n_tok--;
	return c->us[n_tok];
}

static int class_of(int match)
{
	if (match == DRAFT_MODEL)
		return DRAFT_CLASSES - 1;
	return match < 5 ? 0 : match < 9 ? 1 : match < 17 ? 2 : 3;
}

void draft_trust_note(struct draft_trust *t, int match, int n, int n_right)
{
	int k = class_of(match);
	t->right[k] = FADE * t->right[k] + n_right;
	t->tried[k] = FADE * t->tried[k] + n_right + (n_right < n);
}

double draft_trust_of(const struct draft_trust *t, int match)
{
	static const double prior[DRAFT_CLASSES] = {0.4, 0.6, 0.75, 0.85, 0.6};
	int k = class_of(match);
	return (t->right[k] + PRIOR * prior[k]) / (t->tried[k] + PRIOR);
}

double draft_gain(double p, int n)
{
	double gain = 0, all = 1;
	for (int i = 0; i < n; i++)
		gain += all *= p;
	return gain;
}

static int widest(int max)
{
	int n = 0;
	for (int i = 0; i < N_WIDTHS && widths[i] <= max; i++)
		n = widths[i];
	return n;
}

int draft_width(struct draft_cost *c, const struct draft_step *s, double p)
{
	int best = 0, max = s->max < DRAFT_MAX ? s->max : DRAFT_MAX;
	double base = cost_of(c, s->n_tok);
	if (s->is_forced || max < 1)
		return widest(max);
	if (base <= 0 || c->n[s->n_tok] < 2) /* what it would cost without is not known */
		return 0;
	double rate = WORTH * s->n_expected / base;
	for (int i = 0; i < N_WIDTHS && widths[i] <= max; i++) {
		double cost = cost_of(c, s->n_tok + widths[i]) +
			      (s->is_model ? c->guess_us * widths[i] : 0);
		double with = (s->n_expected + draft_gain(p, widths[i])) / cost;
		if (with > rate) {
			rate = with;
			best = widths[i];
		}
	}
	if (best) {
		c->n_refused = 0;
	} else if (++c->n_refused >= TRIAL) {
		c->n_refused = 0;
		best = widest(max < 3 ? max : 3);
	}
	return best;
}
