/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest and largest widths are measured first, so that even a slow machine knows
 * both ends: costs between them lie on a line (draft.c). The test sequence is in a space of
 * the prefix cache that no request uses. Its tokens are spread over the vocabulary. So they
 * share fewer experts than a text, and the measured costs are rather too high.
 */
#include "sched/step_costs.h"

#include "base/alloc.h"

enum { RUNS = 4, DRAFTS = 3, DRAFTED = 3 };
/* no further runs of a width after this time, unless the last run was held up */
#define WIDTH_US 20000

static const int order[] = {1, 2, 8, 4, 16, 3, 6, 12, 32, 24};

static struct engine_seq *begin_sequence(struct engine *e, int32_t *first)
{
	int n_cached;
	*first = 0;
	const struct engine_prompt p = {.tokens = first, .n = 1,
					.space = STR("the widths at start")};
	return engine_seq_create_in(e, &p, &n_cached);
}

/* Runs a step of one token and n - 1 draft tokens, none of which is accepted. */
static enum status verify_drafts(struct engine *e, struct engine_seq *s, int n, struct fail *fail)
{
	int32_t ids[DRAFT_STEP];
	for (int i = 0; i < n; i++)
		ids[i] = (int32_t)((i + 1) * 7919LL % engine_n_vocab(e));
	struct engine_slice slice = {.seq = s, .tokens = ids, .n = n, .n_logits = n,
				     .n_draft = n - 1};
	enum status st = n > 1 ? engine_seq_reserve_draft(e, s, n) : engine_seq_reserve(e, s, n);
	if (st != OK)
		return st;
	st = engine_step(e, &slice, 1, fail);
	if (st == OK && n > 1)
		engine_seq_confirm(e, s, ids + 1, 0);
	return st;
}

/* The shortest of a few runs; 0: no room for such a step. The first run alone is not
 * enough, since it warms caches up. A run slower than the first was held up: another one
 * follows. */
static enum status time_width(struct engine *e, const struct clock *clock, int n, double *out_us,
			      struct fail *fail)
{
	int32_t first;
	struct engine_seq *s = begin_sequence(e, &first);
	int64_t all = 0;
	double first_us = 0;
	enum status st = OK;
	*out_us = 0;
	for (int i = 0; i < RUNS && st == OK && (all < WIDTH_US || *out_us > first_us); i++) {
		int64_t begin_us = clock_now_us(clock);
		st = verify_drafts(e, s, n, fail);
		int64_t us = clock_now_us(clock) - begin_us;
		if (i == 0)
			first_us = (double)us;
		if (i == 0)
			continue;
		all += us;
		*out_us = i == 1 ? (double)us : MIN(*out_us, (double)us);
	}
	engine_seq_destroy(e, s);
	if (*out_us > first_us)
		*out_us = first_us;
	if (st != E_NO_PAGES && st != E_CTX_LEN)
		return st;
	*out_us = 0;
	return OK;
}

void step_costs_flatten(struct draft_cost *c)
{
	double least = 0;
	for (int i = DRAFT_STEP; i > 0; i--) {
		if (c->start[i] <= 0)
			continue;
		least = least > 0 ? MIN(least, c->start[i]) : c->start[i];
		draft_cost_begin(c, i, least);
	}
}

/* Runs two steps of n tokens by two streams, one of them with draft tokens. In the first
 * the backend looks up kernels; the second is recorded. */
static enum status record(struct engine *e, int n, struct fail *fail)
{
	int32_t ids[DRAFT_STEP] = {0}, first;
	struct engine_seq *s[] = {begin_sequence(e, &first), begin_sequence(e, &first)};
	enum status st = engine_seq_reserve(e, s[0], 2);
	for (int i = 0; i < 2 && st == OK; i++) {
		const struct engine_slice slices[] = {
			{.seq = s[0], .tokens = ids, .n = 1, .n_logits = 1},
			{.seq = s[1], .tokens = ids, .n = n - 1, .n_logits = n - 1,
			 .n_draft = n - 2}};
		st = engine_seq_reserve_draft(e, s[1], n - 1);
		if (st == OK)
			st = engine_step(e, slices, 2, fail);
		if (st == OK)
			engine_seq_confirm(e, s[1], ids, 0);
	}
	engine_seq_destroy(e, s[0]);
	engine_seq_destroy(e, s[1]);
	return st;
}

enum status step_costs_record(struct engine *e, const struct clock *clock, int64_t max_us,
			      const struct draft_cost *c, struct fail *fail)
{
	enum { SHORTEST = 256 };
	int64_t until_us = clock_now_us(clock) + max_us;
	enum status st = OK;
	if (engine_max_seqs(e) < 2)
		return OK;
	for (int32_t ctx = SHORTEST; ctx <= engine_alone_ctx(e) && st == OK; ctx *= 2) {
		engine_set_least_ctx(e, ctx);
		for (size_t i = 0; i < ARRAY_LEN(order) && st == OK; i++) {
			double left = (double)(until_us - clock_now_us(clock));
			if (order[i] > 2 && c->start[order[i]] > 0 &&
			    3 * c->start[order[i]] < left)
				st = record(e, order[i], fail);
		}
	}
	engine_set_least_ctx(e, 0);
	return st == E_NO_PAGES || st == E_CTX_LEN ? OK : st;
}

static enum status time_model(struct engine *e, const struct clock *clock,
			    struct draft_cost *out, struct fail *fail)
{
	int32_t first, ids[DRAFTED];
	struct engine_seq *s = begin_sequence(e, &first);
	struct engine_draft g = {.seq = s, .n = MIN(DRAFTED, engine_draft_max(e)), .out = ids};
	enum status st = verify_drafts(e, s, 1, fail);
	if (st == OK)
		st = engine_seq_reserve_draft(e, s, 1 + g.n);
	for (int i = 0; i < DRAFTS && st == OK; i++) {
		int64_t begin_us = clock_now_us(clock);
		st = engine_draft(e, &g, 1, fail);
		if (i > 0)
			draft_model_note(out, g.n_out, clock_now_us(clock) - begin_us);
	}
	engine_seq_destroy(e, s);
	return st == E_NO_PAGES || st == E_CTX_LEN ? OK : st;
}

enum status step_costs_measure(struct engine *e, const struct clock *clock, int64_t max_us,
			       struct draft_cost *out, struct fail *fail)
{
	int64_t begin_us = clock_now_us(clock);
	int room = MIN(engine_draft_room(e), DRAFT_STEP);
	enum status st = OK;
	*out = (struct draft_cost){.n_draft = 0};
	if (room > 1 && engine_draft_max(e))
		st = time_model(e, clock, out, fail);
	for (size_t i = 0; i < ARRAY_LEN(order) && st == OK; i++) {
		double us, known = out->start[1] * order[i];
		int64_t left = max_us - (clock_now_us(clock) - begin_us);
		/* Skip a width that could take too long: a step costs at most n steps of
		 * one token, and the first run makes it two steps. */
		if (order[i] > room || (i > 0 && 2 * known > (double)left))
			continue;
		st = time_width(e, clock, order[i], &us, fail);
		if (st == OK && us > 0)
			draft_cost_begin(out, order[i], us);
		if (i == 0 && us <= 0)
			break;
	}
	step_costs_flatten(out);
	return st;
}

void step_costs_print(const struct draft_cost *c, struct buf *out)
{
	for (int i = 1; i <= DRAFT_STEP; i++)
		if (c->start[i] > 0)
			buf_addf(out, "%s%d: %.3g", out->n ? ", " : "", i, c->start[i] * 1e-3);
	buf_add_z(out, " ms");
}
