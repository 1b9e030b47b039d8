/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/draft.h"

#include "base/alloc.h"
#include "sched/lookup.h"

#include "tests/tap.h"

/* Steps of 1 to 16 tokens: the first costs 1000 us, each further one `more`. */
static struct draft_cost costs(double more)
{
	struct draft_cost c = {0};
	for (int round = 0; round < 4; round++)
		for (int t = 1; t <= 16; t++)
			draft_cost_note(&c, t, (int64_t)(1000 + more * (t - 1)));
	return c;
}

static int width(double more, double p)
{
	struct draft_cost c = costs(more);
	return draft_width(&c, &(struct draft_step){.n_tok = 1, .n_expected = 1, .max = 15}, p);
}

static void widths(void)
{
	is_int(width(1, 0.95), 15, "nearly free and nearly sure: all");
	is_int(width(1000, 0.95), 0, "each token costs a step: none");
	is_int(width(600, 0.5), 0, "half a chance for more than half a step: none");
	is_int(width(200, 0.5), 1, "half a chance for a fifth: one");
	ok(width(100, 0.8) > width(100, 0.5), "surer draft tokens are worth more of them");
	ok(width(100, 0.8) > width(300, 0.8), "and dearer ones fewer");
	struct draft_cost c = {0};
	struct draft_step s = {.n_tok = 1, .n_expected = 1, .max = 15};
	is_int(draft_width(&c, &s, 0.9), 0, "no cost is known: the step without comes first");
	s.is_forced = true;
	is_int(draft_width(&c, &s, 0.1), 15, "forced: as many as may be");
	s.max = 6;
	is_int(draft_width(&c, &s, 0.1), 5, "of the widths that are used");
	s.max = 0;
	is_int(draft_width(&c, &s, 0.1), 0, "nothing to verify");
}

static void unknown_widths(void)
{
	struct draft_cost c = {0};
	struct draft_step s = {.n_tok = 1, .n_expected = 1, .max = 15};
	for (int i = 0; i < 4; i++)
		draft_cost_note(&c, 1, 1000);
	is_int(draft_width(&c, &s, 0.9), 15, "what was never seen is tried");
	draft_cost_note(&c, 16, 9000);
	draft_cost_note(&c, 16, 8000);
	is_int(draft_width(&c, &s, 0.9), 3, "costs between two known ones lie on a line");
	int n_tried = 0;
	c = costs(5000);
	for (int i = 0; i < 1280; i++)
		n_tried += draft_width(&c, &s, 0.9) > 0;
	is_int(n_tried, 10, "one of 128 refusals is a trial");
}

/* At start nearly free; then something made wide steps dear for a while. */
static void trials(void)
{
	struct draft_cost c = {0};
	struct draft_step s = {.n_tok = 1, .n_expected = 1, .max = 15};
	for (int t = 1; t <= 16; t++)
		draft_cost_begin(&c, t, 1000 + 10 * (t - 1));
	is_int(draft_width(&c, &s, 0.9), 15, "known from the start");
	is_int(draft_width(&c, &s, 0.005), 0, "what is never right is not worth it");
	for (int round = 0; round < 40; round++)
		for (int t = 2; t <= 16; t++)
			draft_cost_note(&c, t, 90000);
	int n_tried = 0, n_random = 0, n_model = 0, n_wide = 0;
	for (int i = 0; i < 1024; i++) {
		int n = draft_width(&c, &s, 0.9);
		n_tried += n > 0;
		n_wide += n == 15;
	}
	is_int(n_tried, 8, "one of 128 refusals is a trial");
	is_int(n_wide, 7, "as wide as the costs at start say");
	c.n_refused[0] = 0;
	for (int i = 0; i < 1024; i++)
		n_random += draft_width(&c, &s, 0.005) > 0;
	is_int(n_random, 1, "of draft tokens that are wrong at start's costs, too, one in 1024");
	s.is_model = true;
	for (int i = 0; i < 1024; i++)
		n_model += draft_width(&c, &s, 0.005) == 1;
	is_int(n_model, 8, "the model's layer is asked for one, since only that says more");
}

/* A model has 100 tokens to read before it drafts, which take 8 steps. */
static void reading(void)
{
	struct draft_cost c = costs(100);
	struct draft_account mine = {0}, other = {0};
	struct draft_step s = {.n_tok = 1, .n_streams = 1, .n_expected = 1, .max = 1,
			       .is_model = true, .account = &mine};
	for (int i = 0; i < 2; i++)
		draft_cost_note_plain(&c, 1, 1000);
	ok(!draft_may_read(&c, &s, 31, 8000), "31 tokens: an answer may end soon");
	ok(draft_may_read(&c, &s, 32, 8000), "32: reading takes a quarter of that");
	draft_read_note(&c, &mine, 1, 6000, true);
	ok(draft_may_read(&c, &s, 32, 2000), "what was read counts");
	ok(!draft_may_read(&c, &s, 32, 2100), "so all of it is a quarter");
	ok(!draft_may_read(&(struct draft_cost){0}, &s, 99, 1), "nothing while costs are unknown");
	s.n_tok = s.n_streams = 2;
	for (int i = 0; i < 3; i++)
		draft_cost_note_plain(&c, 2, 1000);
	s.patience = draft_patience(&other);
	ok(draft_may_read(&c, &s, 1000, 2999), "others wait for three steps");
	ok(!draft_may_read(&c, &s, 1000, 3100), "and not for more");
	draft_read_note(&c, &other, 2, 2000, false);
	s.patience = draft_patience(&other);
	ok(draft_may_read(&c, &s, 1000, 999), "one step is left of these");
	ok(!draft_may_read(&c, &s, 1000, 1100), "and no more");
	for (int i = 0; i < 9; i++)
		draft_read_note(&c, &other, 2, 2000, false);
	s.patience = draft_patience(&other);
	is_near(s.patience, -1, 0, "a read that took longer than expected is one step of debt");
	int n_asked = 0;
	for (int i = 0; i < 128; i++)
		n_asked += draft_width(&c, &s, 0.005) > 0;
	is_int(n_asked, 0, "a stream beside one that waits already has no trial");
	s.patience = 3;
	is_int(draft_width(&c, &s, 0.005), 1, "the next stream has it");
	is_int(draft_width(&c, &s, 0.005), 0, "once");
	s.is_awaited = true;
	for (int i = 0; i < 5; i++)
		n_asked += draft_width(&c, &s, 0.005);
	is_int(n_asked, 5, "while the model reads for it, it is asked again");
	c.draft_us = 4000;
	is_int(draft_width(&c, &s, 0.9), 0, "others wait for the model that drafts, too");
}

static void limits(void)
{
	const struct draft_limits l = {.n_max = 15, .n_min = 3, .p_min = 0.5f};
	is_int(draft_allowed(&l, 3, 0.5), 3, "as many and as likely as is asked for");
	is_int(draft_allowed(&l, 2, 0.9), 0, "too few");
	is_int(draft_allowed(&l, 7, 0.4), 0, "too unlikely");
}

static void lines(void)
{
	struct draft_cost c = {0};
	struct draft_step s = {.n_tok = 1, .n_expected = 1, .max = 15};
	draft_cost_begin(&c, 1, 1000);
	draft_cost_begin(&c, 4, 1300);
	draft_cost_begin(&c, 8, 1700);
	is_int(draft_width(&c, &s, 0.98), 15, "beyond the widest known the line goes on");
	draft_cost_begin(&c, 8, 9000);
	is_int(draft_width(&c, &s, 0.98), 3, "as steeply as it ended");
	draft_cost_begin(&c, 8, 1200);
	is_int(draft_width(&c, &s, 0.98), 15, "but never down");
}

static void streams(void)
{
	struct draft_cost c = costs(100);
	struct draft_step s = {.n_tok = 1, .n_expected = 1, .max = 15};
	int alone = draft_width(&c, &s, 0.6);
	s.n_tok = 8;
	s.n_expected = 8;
	int beside = draft_width(&c, &s, 0.6);
	ok(beside < alone, "beside other streams fewer: %d, alone %d", beside, alone);
}

static void trust(void)
{
	struct draft_trust t = {0}, all = {0};
	ok(draft_trust_of(&t, &all, 3) < draft_trust_of(&t, &all, 20),
	   "long matches are trusted more");
	for (int i = 0; i < 20; i++)
		draft_trust_note(&t, &all, 4, 7, 7);
	ok(draft_trust_of(&t, &all, 4) > 0.9, "what holds is trusted");
	struct draft_trust next = {0};
	ok(draft_trust_of(&next, &all, 4) > 0.9, "by the next sequence, too");
	for (int i = 0; i < 15; i++)
		draft_trust_note(&t, &all, 4, 7, 0);
	ok(draft_trust_of(&t, &all, 4) < 0.4, "and what fails is not");
	ok(draft_trust_of(&t, &all, 20) > 0.8, "each length by itself");
	for (int i = 0; i < 400; i++)
		draft_trust_note(&next, &all, 4, 1, 0);
	struct draft_trust last = {0};
	ok(draft_trust_of(&next, &all, 4) < 0.01, "what always fails is not tried for long");
	ok(draft_trust_of(&last, &all, 4) < 0.04, "nor by those that come later");
	ok(draft_gain(0.5, 2) == 0.75, "half, and half of half");
}

static void noise(void)
{
	struct draft_cost c = {0};
	draft_cost_note(&c, 4, 90000);
	draft_cost_note(&c, 4, 1000);
	is_int((long)c.us[4], 1000, "the first step of a width does not count");
	draft_cost_note(&c, 4, 500000);
	ok(c.us[4] < 1300, "one that was held up counts little");
	draft_cost_note(&c, 0, 5);
	draft_cost_note(&c, DRAFT_STEP + 1, 5);
	is_int(c.n[0], 0, "other widths are not kept");
}

/* A cache that grows makes steps of one slower. Wider ones follow, so none looks cheap. */
static void deeper(void)
{
	struct draft_cost c = {0};
	struct draft_step s = {.n_tok = 1, .n_expected = 1, .max = 15};
	for (int t = 1; t <= 16; t++)
		draft_cost_begin(&c, t, 1000 + 400 * (t - 1));
	is_int(draft_width(&c, &s, 0.02), 0, "not worth it");
	for (int i = 0; i < 400; i++)
		draft_cost_note_plain(&c, 1, 1000 + 10 * i);
	is_int(draft_width(&c, &s, 0.02), 0, "nor where a step lasts five times as long");
	ok(c.us[2] > 1.39 * c.us[1] && c.us[2] < 1.41 * c.us[1], "its ratio is as it was");
	draft_cost_note(&c, 2, (int64_t)(2 * c.us[2]));
	ok(c.us[2] > 1.6 * c.us[1] && c.us[3] < 1.9 * c.us[1], "drafts change their width alone");
}

/* Steps of four streams cost twice what a token and three draft tokens did at start, and so
 * nothing is said of steps with drafts. What changes later changes all of them. */
static void plain_streams(void)
{
	struct draft_cost c = {0};
	struct draft_step s = {.n_tok = 4, .n_streams = 4, .n_expected = 4, .max = 11};
	for (int t = 1; t <= DRAFT_STEP; t++)
		draft_cost_begin(&c, t, 1000 + 300 * (t - 1));
	double wide = c.us[15];
	for (int i = 0; i < 20; i++)
		draft_cost_note_plain(&c, 4, 3800);
	ok(c.us[15] == wide && c.us[4] == 1900, "draft tokens cost what they did: %g", c.us[15]);
	is_int(draft_width(&c, &s, 0.99), 8, "beside dear streams they are worth it");
	ok(draft_extra(&c, &s, 8) < 1.6, "and bring more than they cost: %g",
	   draft_extra(&c, &s, 8));
	for (int i = 0; i < 100; i++)
		draft_cost_note_plain(&c, 4, 7600);
	ok(c.us[15] > 1.98 * wide && c.us[15] < 2.02 * wide, "a deeper cache is dearer for all");
	ok(c.us[1] > 1980 && c.us[1] < 2020, "for one stream, too: %g", c.us[1]);
	ok(draft_paid(&c, 4, 11, 11, 7600) < 0.1, "a step that lasts no longer costs nothing");
	wide = c.us[15];
	for (int i = 0; i < 20; i++)
		draft_cost_note_plain(&c, 1, 6000);
	ok(c.us[15] == wide, "one stream is left: what it costs says nothing of others");
	ok(c.us[1] == 6000, "but replaces what was thought of it: %g", c.us[1]);
}

/* Each number of tokens of a step is a graph more for a GPU: streams together have few. */
static void totals(void)
{
	static const char few[] = "2 3 4 6 8 12 16 24 32 ";
	struct draft_cost c = costs(10);
	char seen[16];
	for (int n = 1; n <= 8; n++) {
		for (int max = 1; max <= 15; max++) {
			struct draft_step s = {.n_tok = n, .n_streams = n, .n_expected = n,
					       .max = max};
			int width = draft_width(&c, &s, 0.99);
			snprintf(seen, sizeof seen, "%d ", n + width);
			if (width && !(strstr(few, seen) && width <= max))
				ok(false, "%d streams, at most %d: %d", n, max, width);
			s.is_forced = true;
			if (draft_width(&c, &s, 0.99) < 1)
				ok(false, "forced, %d streams, at most %d: none", n, max);
		}
	}
	struct draft_step s = {.n_tok = 4, .n_streams = 4, .n_expected = 4, .max = 5};
	is_int(draft_width(&c, &s, 0.99), 4, "four streams and four draft tokens");
	s.max = 1;
	is_int(draft_width(&c, &s, 0.99), 0, "five tokens are none of the numbers");
}

static void account(void)
{
	struct draft_cost c = costs(100);
	struct draft_account a = {0};
	struct draft_step s = {.n_tok = 1, .n_expected = 1, .max = 15, .account = &a};
	ok(draft_extra(&c, &s, 15) > 1.49 && draft_extra(&c, &s, 15) < 1.51,
	   "fifteen draft tokens cost as much as one token and a half");
	is_int(draft_width(&c, &s, 0.99), 15, "which a stream that begins may lose");
	a.lost = DRAFT_START - 0.8;
	is_int(draft_width(&c, &s, 0.99), 7, "one that has lost does with fewer");
	a.lost = DRAFT_START;
	is_int(draft_width(&c, &s, 0.99), 0, "or with none");
	for (int i = 0; i < 24; i++)
		draft_account_note(&a, 0, 0);
	is_int(draft_width(&c, &s, 0.99), 1, "until it has more tokens");
	draft_account_note(&a, 0.1, 1);
	is_int(draft_width(&c, &s, 0.99), 7, "a right one pays for more");
	for (int i = 0; i < 100; i++)
		draft_account_note(&a, 0.1, 1);
	ok(draft_account_left(&a) < 30, "but not for ever");
	s.n_tok = 4;
	s.n_expected = 4;
	ok(draft_extra(&c, &s, 1) > 0.30 && draft_extra(&c, &s, 1) < 0.31,
	   "beside other streams a token costs its share of the step");
	a.lost = DRAFT_START;
	s.is_forced = true;
	is_int(draft_width(&c, &s, 0.1), 12, "forced: whatever it has lost");
}

/* Three streams draft, and always right; the fourth has no draft. It waits for them as
 * long as it bears, and no longer. */
static void others(void)
{
	struct draft_cost c = {0};
	struct draft_account own = {0}, other = {0};
	struct draft_step s = {.n_tok = 4, .n_streams = 4, .n_expected = 4, .max = 12,
			       .account = &own, .patience = draft_patience(&other)};
	for (int t = 1; t <= DRAFT_STEP; t++)
		draft_cost_begin(&c, t, 1000 + 100 * (t - 1));
	own.lost = -10;
	is_int(draft_width(&c, &s, 0.99), 12, "others bear much when they begin");
	s.patience = 0.5;
	is_int(draft_width(&c, &s, 0.99), 4, "or half a step");
	s.patience = 0;
	is_int(draft_width(&c, &s, 0.99), 0, "or nothing");
	s.n_tok = s.n_streams = s.n_expected = 1;
	is_int(draft_width(&c, &s, 0.99), 11, "a stream alone holds nobody up");
	s.n_tok = s.n_streams = s.n_expected = 4;
	double waited = 0;
	int n_draft = 0;
	for (int i = 1; i <= 2000; i++) {
		s.patience = draft_patience(&other);
		int n = draft_width(&c, &s, 0.99);
		double delay = draft_delay(&c, 4, n, 1000 + 100 * (3 + n));
		draft_late_note(&other, delay, 0);
		waited += delay;
		n_draft += n;
		if (waited > DRAFT_LATE + DRAFT_LATE_SHARE * i + 1e-9)
			ok(false, "step %d: behind by %g", i, waited);
	}
	ok(n_draft > 60, "draft tokens go on: %d", n_draft);
	for (int i = 0; i < 3; i++)
		draft_late_note(&other, draft_delay(&c, 4, 12, 2500), 3);
	ok(draft_patience(&other) > 5, "what its own draft tokens bring it can wait");
}

/* A step of t tokens behind n others. */
struct world {
	double more, deep; /* us of each token more; of each token and token before */
	int n_letters;     /* 0: draft tokens are right where they are not verified, else wrong */
};

static double cost_at(const struct world *w, size_t n, int t)
{
	return 1000 + w->more * (t - 1) + w->deep * (double)n * t;
}

/* Time with drafts over time without, less 1, of n random letters. */
static double loss_of(const struct world *w, size_t n)
{
	struct draft_cost c = {0};
	struct draft_trust own = {0}, all = {0};
	struct draft_account a = {0};
	struct lookup l = {0};
	struct lookup_match m = {.n = 20, .n_same = 1};
	int32_t draft[DRAFT_MAX] = {0};
	uint32_t seed = 7;
	double with = 0, without = 0;
	for (int t = 1; t <= 16; t++)
		draft_cost_begin(&c, t, cost_at(w, 0, t));
	for (size_t i = 0; i < n; i++) {
		struct draft_step s = {.n_tok = 1, .n_expected = 1, .account = &a};
		s.max = w->n_letters ? lookup_draft(&l, 15, draft, &m) : 15;
		int mark = draft_mark(m.n, m.n_same);
		int width = s.max ? draft_width(&c, &s, draft_trust_of(&own, &all, mark)) : 0;
		seed = seed * 1664525 + 1013904223;
		int32_t next = w->n_letters ? (int32_t)(seed >> 8) % w->n_letters : width > 0;
		double cost = cost_at(w, i, 1 + width);
		bool is_right = draft[0] == next;
		draft_account_note(&a, draft_paid(&c, 1, width, width, (int64_t)cost),
				   is_right && width);
		if (s.max)
			draft_trust_note(&own, &all, mark, MAX(width, 1), is_right);
		(width ? draft_cost_note : draft_cost_note_plain)(&c, 1 + width, (int64_t)cost);
		lookup_add(&l, &next, 1);
		with += cost;
		without += cost_at(w, i, 1);
		if (is_right && width)
			without += cost_at(w, i, 1);
	}
	lookup_deinit(&l);
	return with / without - 1;
}

/* Whatever a step costs and says, draft tokens lose less than 1 %. */
static void bound(void)
{
	static const double more[] = {10, 100, 400, 1000}, deep[] = {0, 0.5};
	static const int letters[] = {0, 4, 12, 30};
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 2; k++)
			for (size_t j = 0; j < 4; j++) {
				struct world w = {more[i], deep[k], letters[j]};
				double loss = loss_of(&w, 2000);
				ok(loss < 0.01, "%d letters, %.0f us more, %.1f deeper: %.4f",
				   letters[j], more[i], deep[k], loss);
			}
}

int main(void)
{
	deeper();
	plain_streams();
	totals();
	account();
	others();
	bound();
	widths();
	unknown_widths();
	trials();
	reading();
	limits();
	lines();
	streams();
	trust();
	noise();
	return tap_done();
}
