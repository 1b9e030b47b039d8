/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts are compared once for each choice that starts: they may be as long as the context,
 * and the line as long as the queue. Waiting cannot last for ever. The running choice fills
 * the pages, or it stops running; then c is compared with those that run by then.
 */
#include "sched/share.h"

#include "sched/sched_private.h"

/* The choice that c waits for, if it runs and has not come as far yet; else NULL. */
static struct sched_choice *awaited(const struct sched *s, const struct sched_choice *c)
{
	for (int i = 0; i < s->n_run; i++)
		if (s->run[i]->start_no == c->share.start_no &&
		    engine_seq_length(s->run[i]->seq) < c->share.n)
			return s->run[i];
	return NULL;
}

/* Of the running choices, finds the one that is about to compute most of c's prompt. */
static struct sched_choice *find_lead(const struct sched *s, const struct sched_choice *c,
				      const struct engine_prompt *p, int *out_n)
{
	struct sched_choice *best = NULL;
	*out_n = 0;
	for (int i = 0; i < s->n_run; i++) {
		struct sched_choice *lead = s->run[i];
		/* It may stand still for long: others with lower numbers go before it, c too. */
		if (lead->r->priority > c->r->priority)
			continue;
		const struct engine_prompt other = choice_engine_prompt(lead);
		int n = engine_common(s->o.engine, p, &other);
		if (n > engine_seq_length(lead->seq) && n > *out_n) {
			best = lead;
			*out_n = n;
		}
	}
	return best;
}

/* Chooses the running choice that c waits for, or NULL. */
static struct sched_choice *share_choose(struct sched *s, struct sched_choice *c)
{
	const struct engine_prompt p = choice_engine_prompt(c);
	if (c->share.start_no)
		c->share.n_seen = 0;
	c->share.start_no = 0;
	if (choice_scores(c) || c->share.n_seen == s->n_starts)
		return NULL;
	c->share.n_seen = s->n_starts;
	struct sched_choice *lead = find_lead(s, c, &p, &c->share.n);
	c->share.start_no = lead ? lead->start_no : 0;
	return lead;
}

bool share_waits(struct sched *s, struct sched_choice *c)
{
	struct sched_choice *lead = awaited(s, c);
	if (!lead)
		lead = share_choose(s, c);
	/* In each iteration: a sequence remembers only the next place where it leaves its state. */
	if (lead)
		engine_seq_leave_state(s->o.engine, lead->seq, c->share.n);
	return lead != NULL;
}
