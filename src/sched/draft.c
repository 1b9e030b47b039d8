/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for drafts.
 *
 * Widths. A step with drafts has one of a few numbers of tokens, all of its streams
 * together: each new number costs a GPU a graph, and a trial.
 *
 * Costs. The first step of a width is left out, since it warms caches up or records a
 * graph. Then costs follow the latest steps. Steps of several streams without drafts have
 * costs of their own, called plain. When a plain cost changes, all widths' costs are scaled
 * alike. Otherwise a width that is not used would keep the cost that it had with a short
 * cache, and would look cheaper the longer the cache grows. The cost of a width between two
 * known ones lies on the line through these. Beyond the widest known one the line goes on.
 *
 * Trust. A draft ends where two matches continue differently, as at the value in a row of a
 * table. A draft token's probability has a prior that grows with the length of the match. Only
 * the latest draft tokens count, so a text that turns from code to prose is noticed within some
 * ten drafts. A draft token that was not verified is compared with the token that was drawn,
 * which costs nothing. So trust can grow again without drafts.
 *
 * Trials. The kept costs may be higher than costs are now. So of TRIAL refused drafts one
 * is verified all the same, if the ratios measured at start say that it is worth it; of
 * RARE refused drafts one in any case. For a model only drafts give evidence: it
 * makes one draft token in TRIAL refusals. If it must read the text first, it is asked until it
 * has drafted: what it reads would be for nothing otherwise.
 *
 * Account. It bounds the loss: draft tokens are not verified if they would cost more than the
 * account has, were all of them wrong. What right draft tokens saved is credit, up to CREDIT.
 *
 * Other streams. A step with drafts is longer for all its streams. All streams together
 * may gain by that, but a stream whose own draft tokens are wrong only waits. So the least
 * patient stream's patience bounds the step. The same holds for what a model reads before it.
 *
 * Reading. A draft that begins late saves little, and nobody knows how long an answer will be. So a
 * model reads a stream's text once the answer has taken several times as long as that will.
 */
#include "sched/draft.h"

#include "base/alloc.h"

#define FOLLOW 0.2  /* weight of the newest step in a cost */
#define CLIP 2.0    /* a step that lasted more than CLIP times its cost was held up … */
#define SLOW 2      /* … unless more than SLOW steps in a row did */
#define RECENT 12.0 /* the latest draft tokens that count, of one sequence … */
#define RECENT_ALL 100.0 /* … and of all sequences */
#define PRIOR 2.0   /* the prior weighs as much as so many draft tokens */
#define TRIAL 128
#define RARE (8 * TRIAL)
#define CREDIT 16.0 /* most tokens of credit */
/* most debt in tokens: one step that was held up must not end drafts for long */
#define DEBT 1.0
/* a draft must give this many times the tokens a second that the step gives without it */
#define WORTH 1.03

static const int totals[] = {2, 3, 4, 6, 8, 12, 16, 24, DRAFT_STEP};

static void draft_follow(double *cost, double lasted)
{
	*cost += FOLLOW * (MIN(lasted, CLIP * *cost) - *cost);
}

/* Updates *cost by a step that lasted `us`; *n_seen steps were counted before. */
static void note(struct draft_cost *c, double *cost, int *n_seen, int64_t us)
{
	int n = (*n_seen)++;
	c->n_slow = n >= 2 && (double)us > CLIP * *cost ? c->n_slow + 1 : 0;
	if (n < 2 || c->n_slow > SLOW) /* the first steps, or slow ones that prove a new cost */
		*cost = (double)us;
	else
		draft_follow(cost, (double)us);
}

void draft_cost_note(struct draft_cost *c, int n_tok, int64_t us)
{
	if (n_tok >= 1 && n_tok <= DRAFT_STEP)
		note(c, &c->us[n_tok], &c->n[n_tok], us);
}

void draft_cost_note_plain(struct draft_cost *c, int n_tok, int64_t us)
{
	if (n_tok < 1 || n_tok > DRAFT_STEP)
		return;
	double *cost = n_tok > 1 ? &c->plain[n_tok] : &c->us[1];
	int *n_seen = n_tok > 1 ? &c->n_plain[n_tok] : &c->n[1];
	if (c->last_plain && c->last_plain != n_tok) /* the kept cost is old */
		*n_seen = 0;
	c->last_plain = n_tok;
	double before = *n_seen < 2 ? 0 : *cost;
	note(c, cost, n_seen, us);
	for (int i = 1; i <= DRAFT_STEP && before > 0; i++) {
		double ratio = *cost / before;
		c->us[i] *= &c->us[i] == cost ? 1 : ratio;
		c->plain[i] *= &c->plain[i] == cost ? 1 : ratio;
	}
	/* not measured at start: also the only cost known for so many tokens */
	if (n_tok > 1 && c->start[1] <= 0)
		draft_cost_note(c, n_tok, us);
}

void draft_cost_begin(struct draft_cost *c, int n_tok, double us)
{
	c->us[n_tok] = c->start[n_tok] = us;
	c->n[n_tok] = 2;
}

void draft_model_note(struct draft_cost *c, int n, int64_t us)
{
	double each = n > 0 ? (double)us / n : 0;
	if (n < 1)
		return;
	if (c->n_draft++ < 2)
		c->draft_us = each;
	else
		draft_follow(&c->draft_us, each);
}

/* The cost of n_tok tokens by costs[1..DRAFT_STEP], where 0 means not known. Returns 0 if
 * nothing is known. */
static double cost_in(const double *costs, int n_tok)
{
	int below = MIN(n_tok, DRAFT_STEP), above = n_tok;
	while (below > 0 && costs[below] <= 0)
		below--;
	while (above <= DRAFT_STEP && costs[above] <= 0)
		above++;
	if (below == n_tok || below == 0)
		return costs[below];
	int from = below;
	if (above > DRAFT_STEP) { /* the last line goes on, but never falls */
		above = below;
		do {
			from--;
		} while (from > 0 && costs[from] <= 0);
		if (from == 0)
			return costs[below];
	}
	double slope = (costs[above] - costs[from]) / (above - from);
	return costs[below] + MAX(slope, 0) * (n_tok - below);
}

/* The cost of a step of n streams without drafts. */
static double plain_cost(const struct draft_cost *c, int n)
{
	return n >= 1 && n <= DRAFT_STEP && c->n_plain[n] >= 2 ? c->plain[n]
							       : cost_in(c->us, n);
}

/* The cost of the step before further draft tokens are added. */
static double cost_before(const struct draft_cost *c, const struct draft_step *s)
{
	return s->n_tok == s->n_streams ? plain_cost(c, s->n_tok) : cost_in(c->us, s->n_tok);
}

static int class_of(int mark)
{
	int match = mark % DRAFT_SAME, kind = mark / DRAFT_SAME;
	if (mark == DRAFT_MODEL)
		return DRAFT_CLASSES - 1;
	return kind * DRAFT_LENGTHS + (match < 5 ? 0 : match < 9 ? 1 : match < 17 ? 2 : 3);
}

static void add_evidence(struct draft_trust *t, int k, int n, int n_right, double most)
{
	t->right[k] += n_right;
	t->tried[k] += n_right + (n_right < n);
	if (t->tried[k] > most) {
		t->right[k] *= most / t->tried[k];
		t->tried[k] = most;
	}
}

void draft_trust_note(struct draft_trust *own, struct draft_trust *all, int mark, int n,
		      int n_right)
{
	int k = class_of(mark);
	add_evidence(own, k, n, n_right, RECENT);
	add_evidence(all, k, n, n_right, RECENT_ALL);
}

double draft_trust_of(const struct draft_trust *own, const struct draft_trust *all, int mark)
{
	static const double prior[DRAFT_CLASSES] = {0.4,  0.6, 0.75, 0.85, /* one match */
						    0.75, 0.85, 0.9, 0.9,  /* second agrees */
						    0.2,  0.3, 0.4, 0.5,   /* second differs */
						    0.6};
	int k = class_of(mark);
	double p = (all->right[k] + PRIOR * prior[k]) / (all->tried[k] + PRIOR);
	return (own->right[k] + PRIOR * p) / (own->tried[k] + PRIOR);
}

double draft_gain(double p, int n)
{
	double gain = 0, all = 1;
	for (int i = 0; i < n; i++)
		gain += all *= p;
	return gain;
}

double draft_account_left(const struct draft_account *a)
{
	return DRAFT_START - a->lost;
}

void draft_account_note(struct draft_account *a, double paid, int n_right)
{
	a->lost += paid - n_right - DRAFT_SHARE * (1 + n_right);
	a->lost = MIN(MAX(a->lost, -CREDIT), DRAFT_START + DEBT);
}

double draft_patience(const struct draft_account *a)
{
	return DRAFT_LATE - a->late;
}

void draft_late_note(struct draft_account *a, double steps, int n_right)
{
	a->late += steps - n_right - DRAFT_LATE_SHARE * (1 + n_right);
	a->late = MIN(MAX(a->late, -CREDIT), DRAFT_LATE + DEBT);
}

bool draft_may_read(const struct draft_cost *c, const struct draft_step *s, int n_tok, double us)
{
	double without = plain_cost(c, s->n_streams), steps = without > 0 ? us / without : 0;
	return without > 0 && s->account->read + steps <= DRAFT_READ_SHARE * n_tok &&
	       (s->n_streams < 2 || steps <= s->patience);
}

void draft_read_note(const struct draft_cost *c, struct draft_account *a, int n_streams, int64_t us,
		     bool is_own)
{
	double without = plain_cost(c, n_streams), steps = without > 0 ? (double)us / without : 0;
	if (is_own)
		a->read += steps;
	else
		a->late = MIN(a->late + steps, DRAFT_LATE + DEBT);
}

double draft_delay(const struct draft_cost *c, int n_streams, int n_all, int64_t us)
{
	double without = plain_cost(c, n_streams);
	double most = CLIP * cost_in(c->us, n_streams + n_all);
	if (n_all < 1 || without <= 0)
		return 0;
	return MAX(MIN((double)us, most) - without, 0) / without;
}

double draft_paid(const struct draft_cost *c, int n_streams, int n_all, int n, int64_t us)
{
	return n_all < 1 ? 0 : draft_delay(c, n_streams, n_all, us) * n_streams * n / n_all;
}

/* Would n more draft tokens hold the other streams up beyond their patience? */
static bool is_too_long(const struct draft_cost *c, const struct draft_step *s, int n)
{
	double without = s->n_streams > 1 ? plain_cost(c, s->n_streams) : 0;
	double draft = s->is_model ? c->draft_us * n : 0;
	return without > 0 &&
	       cost_in(c->us, s->n_tok + n) + draft - without > s->patience * without;
}

double draft_extra(const struct draft_cost *c, const struct draft_step *s, int n)
{
	double without = cost_before(c, s), draft = s->is_model ? c->draft_us * n : 0;
	if (without <= 0)
		return 0;
	return (cost_in(c->us, s->n_tok + n) + draft - without) * s->n_expected / without;
}

/* Is n_tok one of the widths that steps may have? */
static bool is_total(int n_tok)
{
	for (size_t i = 0; i < ARRAY_LEN(totals); i++)
		if (totals[i] == n_tok)
			return true;
	return false;
}

static int widest(const struct draft_step *s, int max)
{
	int n = max;
	while (n > 0 && !is_total(s->n_tok + n))
		n--;
	return n;
}

/* The number of draft tokens that gives the most tokens a second. A step costs `before` without
 * them and as in `costs` with them. 0: none is worth it. */
static int best_width(const double *costs, double before, double draft,
		      const struct draft_step *s, int max, double p)
{
	double rate = WORTH * s->n_expected / before;
	int best = 0;
	for (int n = 1; n <= max; n++) {
		double cost = cost_in(costs, s->n_tok + n) + (s->is_model ? draft * n : 0);
		double with = (s->n_expected + draft_gain(p, n)) / cost;
		if (is_total(s->n_tok + n) && with > rate) {
			rate = with;
			best = n;
		}
	}
	return best;
}

int draft_width(struct draft_cost *c, const struct draft_step *s, double p)
{
	int max = s->max < DRAFT_MAX ? s->max : DRAFT_MAX;
	int *n_refused = &c->n_refused[s->is_model];
	bool has_begun = c->start[1] > 0;
	if (max < 1)
		return 0;
	if (s->is_forced) {
		int n = widest(s, max);
		return n ? n : max;
	}
	if (!has_begun && c->n[MIN(s->n_tok, DRAFT_STEP)] < 2)
		return 0; /* the cost without drafts is not known */
	while (s->account && max && (draft_extra(c, s, max) > draft_account_left(s->account) ||
				     is_too_long(c, s, max)))
		max--;
	int best = best_width(c->us, cost_before(c, s), c->draft_us, s, max, p);
	if (best) {
		*n_refused = 0;
		return best;
	}
	/* A stream that cannot pay for it leaves the model's trial to the next one. */
	if (s->is_model && max > 0 && (s->is_awaited || *n_refused >= TRIAL - 1)) {
		*n_refused *= s->is_awaited;
		return 1;
	}
	if (++*n_refused % TRIAL != 0 || s->is_model)
		return 0;
	if (!has_begun || *n_refused % RARE == 0)
		return widest(s, MIN(max, 3));
	return best_width(c->start, cost_in(c->start, s->n_tok), 0, s, max, p);
}

int draft_allowed(const struct draft_limits *l, int width, double p)
{
	return width < l->n_min || p < (double)l->p_min ? 0 : width;
}
