/* SPDX-License-Identifier: Apache-2.0
 *
 * The drafters of a step, as rows of one table. Each says how many draft tokens of a stream are to
 * be verified; 0: it has none, or they are not worth it. How many are worth it is in draft.h.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "sched/sched_private.h"

#define BAD_DRAFTS_MAX 3 /* steps in a row with a failure: then the model drafts no longer */

/* What the model that drafts came to. Its failure costs no request anything but its drafts. The
 * first one of a step is told and counts. */
static bool note_run(struct sched *s, enum status st, struct fail *f)
{
	s->drafts_ran = true;
	if (st == OK || s->drafts_failed)
		return st == OK;
	s->drafts_failed = true;
	s->n_bad_drafts++;
	fail_default(f, st);
	log_error("drafts failed (%d in a row): %s%s", s->n_bad_drafts, f->text,
		  s->n_bad_drafts < BAD_DRAFTS_MAX ? "" : ". The model that drafts is not asked "
		  "again until halod loads it anew");
	if (s->n_bad_drafts >= BAD_DRAFTS_MAX)
		engine_draft_stop(s->o.engine);
	return false;
}

void drafters_note_step(struct sched *s)
{
	enum status st;
	struct fail f;
	if (engine_draft_filled(s->o.engine, &st, &f))
		note_run(s, st, &f);
}

/* A step without a failure ends a row of them. */
static void begin_step(struct sched *s)
{
	if (s->drafts_ran && !s->drafts_failed)
		s->n_bad_drafts = 0;
	s->drafts_ran = s->drafts_failed = false;
}

/* How many draft tokens of a stream are worth verifying; `step` and their mark say which. */
static int width_of(struct sched *s, struct sched_choice *c, const struct draft_step *step,
		    int mark)
{
	double p = draft_trust_of(&c->trust, &s->trust, mark);
	if (step->max < MAX(c->r->draft.n_min, 1))
		return 0;
	return draft_allowed(&c->r->draft, draft_width(&s->decode_cost, step, p), p);
}

/* Prompt lookup puts them into c->draft at once. */
static int look_up(struct sched *s, struct sched_choice *c, const struct draft_step *step)
{
	struct draft_step look = *step;
	look.max = choice_draft(c, step->max, step->is_forced);
	int width = look.max ? width_of(s, c, &look, c->draft_mark) : 0;
	c->has_idle_draft = look.max && !width;
	return width;
}

/* How many of the `behind` tokens that a model must read it may read now. */
static int read_most(struct sched *s, struct sched_choice *c, const struct draft_step *step,
		     int behind)
{
	int chunk = policy_chunk(s->o.prefill_chunk, s->o.step_target_us, &s->read_cost);
	int n = MIN(behind, chunk - s->n_read), n_out = (int)c->output.n;
	if (n < 1 || step->is_forced || c->goes_on_reading)
		return n;
	/* Its first chunk shows what it costs, which the engine's own model bounds before. Beside
	 * others that bound holds for the whole text, of which a part is of no use. */
	bool is_first = s->read_cost.tok_us <= 0, is_trial = is_first && step->n_streams < 2;
	const struct policy_cost *cost = is_first ? &s->prefill_cost : &s->read_cost;
	int all = is_trial ? n : behind;
	double all_us = cost->tok_us * all + cost->step_us * (1 + (all - 1) / chunk);
	if (!draft_may_read(&s->decode_cost, step, MIN(n_out, c->max_output - n_out), all_us))
		return 0;
	c->goes_on_reading = !is_trial;
	return n;
}

/* A model beside the engine's own reads more of a stream. A long text takes several steps, so that
 * no stream waits long. Returns how many tokens it must still read. */
static int read_behind(struct sched *s, struct sched_choice *c, const struct draft_step *step,
		       int behind)
{
	struct fail f = {0};
	int n_read, most = read_most(s, c, step, behind);
	int64_t begin_us = clock_now_us(s->o.clock);
	if (most < 1 ||
	    !note_run(s, engine_draft_read(s->o.engine, c->seq, most, &n_read, &f), &f))
		return behind;
	int64_t us = clock_now_us(s->o.clock) - begin_us;
	s->n_read += n_read;
	policy_cost_note(&s->read_cost, n_read, us);
	for (int i = 0; i < step->n_streams; i++)
		draft_read_note(&s->decode_cost, &s->sliced[i]->account, step->n_streams, us,
				s->sliced[i] == c);
	behind = engine_draft_behind(s->o.engine, c->seq);
	c->goes_on_reading &= behind > 0;
	return behind;
}

/* A model's are computed later, by draft_by_model, once it has read the text. */
static int ask_model(struct sched *s, struct sched_choice *c, const struct draft_step *step)
{
	struct draft_step ask = *step;
	ask.max = MIN(step->max, engine_draft_max(s->o.engine));
	ask.is_model = true;
	ask.is_awaited = c->awaits_model;
	int behind = ask.max < 1 ? -1 : engine_draft_behind(s->o.engine, c->seq);
	int width = behind < 0 ? 0 : width_of(s, c, &ask, DRAFT_MODEL);
	if (width < 1 || behind == 0)
		return width;
	c->awaits_model = true;
	return read_behind(s, c, step, behind) == 0 ? width : 0;
}

/* The drafters, the cheapest first. The first that has draft tokens for a stream drafts. */
static const struct drafter {
	enum sched_draft alone; /* the setting with which no other one drafts */
	bool is_model;
	int (*ask)(struct sched *s, struct sched_choice *c, const struct draft_step *step);
} drafters[] = {
	{SCHED_DRAFT_LOOKUP, false, look_up},
	{SCHED_DRAFT_MODEL, true, ask_model},
};

static int ask_drafters(struct sched *s, struct sched_choice *c, const struct draft_step *step,
			bool *is_model)
{
	int width = 0;
	for (size_t i = 0; i < ARRAY_LEN(drafters) && width < 1; i++) {
		const struct drafter *d = &drafters[i];
		*is_model = d->is_model;
		if (s->o.draft == SCHED_DRAFT_AUTO || s->o.draft == d->alone)
			width = d->ask(s, c, step);
	}
	return width;
}

/* The model computes draft tokens for the slices at[0..n). */
static void draft_by_model(struct sched *s, struct engine_draft *g, const int *at, int n)
{
	struct fail f = {0};
	int n_most = 0;
	s->draft_us = 0;
	int64_t begin_us = clock_now_us(s->o.clock);
	if (n == 0 || !note_run(s, engine_draft(s->o.engine, g, n, &f), &f))
		return;
	for (int i = 0; i < n; i++) {
		struct sched_choice *c = s->sliced[at[i]];
		n_most = MAX(n_most, g[i].n_out);
		if (g[i].n_out < 1)
			continue;
		c->draft_mark = DRAFT_MODEL; /* in the place of what lookup found */
		c->has_idle_draft = c->awaits_model = false;
		s->slices[at[i]] = choice_draft_slice(c, g[i].n_out);
	}
	s->draft_us = clock_now_us(s->o.clock) - begin_us;
	draft_model_note(&s->decode_cost, n_most, s->draft_us);
}

/* The smallest patience of the step's n streams, all but stream `but`. */
static double patience_but(struct sched *s, int n, int but)
{
	double least = DRAFT_LATE + DRAFT_START;
	for (int i = 0; i < n; i++)
		if (i != but)
			least = MIN(least, draft_patience(&s->sliced[i]->account));
	return least;
}

void drafters_add(struct sched *s, int n)
{
	struct engine_draft asked[DRAFT_STEP];
	int at[DRAFT_STEP], n_asked = 0;
	struct draft_step step = {.n_tok = 0, .n_streams = n, .n_expected = n,
				  .is_forced = s->o.draft != SCHED_DRAFT_AUTO};
	int room = engine_draft_room(s->o.engine);
	s->n_read = 0;
	begin_step(s);
	for (int i = 0; i < n; i++) {
		step.n_tok += s->slices[i].n;
		if (s->sliced[i]->state != CHOICE_DECODE || s->slices[i].n_logits != 1)
			return;
	}
	for (int i = 0; i < n && s->o.draft != SCHED_DRAFT_OFF; i++) {
		struct sched_choice *c = s->sliced[i];
		int left = c->max_output - (int)c->output.n - 1;
		step.max = MIN(MIN(left, c->r->draft.n_max), MIN(room, DRAFT_STEP) - step.n_tok);
		step.account = &c->account;
		if (s->slices[i].n != 1 || c->r->no_output || step.max < 1)
			continue;
		step.patience = patience_but(s, n, i);
		bool is_model;
		int width = ask_drafters(s, c, &step, &is_model);
		/* Draft tokens never take another stream's pages. */
		if (width < 1 ||
		    engine_seq_reserve_draft(s->o.engine, c->seq, 1 + width) != OK)
			continue;
		if (!is_model) {
			s->slices[i] = choice_draft_slice(c, width);
		} else {
			at[n_asked] = i;
			asked[n_asked++] = (struct engine_draft){
				.seq = c->seq, .token = choice_begin_draft(c), .n = width,
				.out = c->draft + 1};
		}
		step.n_tok += width;
		step.n_expected += draft_gain(
			draft_trust_of(&c->trust, &s->trust,
				       is_model ? DRAFT_MODEL : c->draft_mark), width);
	}
	draft_by_model(s, asked, at, n_asked);
}
