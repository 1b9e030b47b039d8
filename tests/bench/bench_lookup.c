/* SPDX-License-Identifier: Apache-2.0
 *
 * What speculation by lookup gains on pairs of texts, without a model: the answer is
 * known, so a guess is right if the answer goes on with it. The policy (sched/draft.h) is
 * the scheduler's own. A step of T tokens costs what COSTS says, interpolated between its
 * widths. The last width is the widest step.
 *
 * Usage: bench_lookup MODEL_DIR COSTS CASE PROMPT ANSWER [PROMPT ANSWER ...]
 * COSTS is "1:1.889,2:2.698,4:4.017", widths ascending from 1, in any unit of time.
 * Prints one line of CSV a value: case, shape, value, unit.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/alloc.h"
#include "model/tokenizer_hf.h"
#include "sched/draft.h"
#include "sched/lookup.h"

enum { MAX_TEXT = 1 << 24, MAX_WIDTHS = 32 };

struct costs {
	int n, width[MAX_WIDTHS];
	double cost[MAX_WIDTHS];
};

/* Sums over all pairs of a case. */
struct gain {
	long n_tok, n_steps, n_drafted, n_right;
	double cost;
};

static bool parse_costs(const char *s, struct costs *c)
{
	char *end;
	while (c->n < MAX_WIDTHS) {
		int i = c->n++;
		c->width[i] = (int)strtol(s, &end, 10);
		if (end == s || *end != ':')
			return false;
		s = end + 1;
		c->cost[i] = strtod(s, &end);
		if (end == s || c->cost[i] <= 0 ||
		    c->width[i] != (i ? MAX(c->width[i], c->width[i - 1] + 1) : 1))
			return false;
		if (!*end)
			return c->n > 1;
		s = end + 1;
	}
	return false;
}

static double cost_of(const struct costs *c, int n_tok)
{
	int i = 1;
	while (i < c->n - 1 && c->width[i] < n_tok)
		i++;
	double slope = (c->cost[i] - c->cost[i - 1]) / (c->width[i] - c->width[i - 1]);
	return c->cost[i - 1] + slope * (n_tok - c->width[i - 1]);
}

static bool read_ids(const struct tokenizer *t, const char *path, struct ids *out)
{
	struct fail fail = {0};
	struct buf text = {0};
	enum status st = file_read(path, MAX_TEXT, &text, &fail);
	if (st == OK)
		st = tokenizer_encode(t, (struct str){text.p, text.n}, TRUST_USER, out, &fail);
	if (st != OK)
		fprintf(stderr, "bench_lookup: %s: %s\n", path, fail.text);
	buf_deinit(&text);
	return st == OK;
}

/* The first token comes from prefill; each step gives one token, and the right guesses. */
static void replay(const struct ids *prompt, const struct ids *answer, const struct costs *c,
		   struct draft_cost *known, struct draft_trust *all, struct gain *g)
{
	struct lookup l = {0};
	struct draft_trust trust = {0};
	lookup_add(&l, prompt->p, prompt->n);
	for (size_t i = 0; i + 1 < answer->n;) {
		int32_t guess[DRAFT_MAX];
		int match = 0, n_right = 0;
		int widest = MIN(c->width[c->n - 1] - 1, DRAFT_MAX);
		int left = (int)MIN(answer->n - i - 2, (size_t)widest);
		struct draft_step s = {.n_tok = 1, .n_expected = 1};
		lookup_add(&l, answer->p + i, l.text.n == prompt->n + i ? 1 : 0);
		s.max = left > 0 ? lookup_guess(&l, left, guess, &match) : 0;
		int n = s.max ? draft_width(known, &s, draft_trust_of(&trust, all, match)) : 0;
		while (n_right < n && guess[n_right] == answer->p[i + 1 + (size_t)n_right])
			n_right++;
		double cost = cost_of(c, 1 + n);
		draft_cost_note(known, 1 + n, (int64_t)(cost * 1000));
		if (n)
			draft_trust_note(&trust, all, match, n, n_right);
		else if (s.max)
			draft_trust_note(&trust, all, match, 1, guess[0] == answer->p[i + 1]);
		lookup_add(&l, answer->p + i + 1, (size_t)n_right);
		i += 1 + (size_t)n_right;
		g->n_tok += 1 + n_right;
		g->n_steps++;
		g->n_drafted += n;
		g->n_right += n_right;
		g->cost += cost;
	}
	lookup_deinit(&l);
}

static bool replay_all(const struct tokenizer *t, char **paths, int n, const struct costs *c,
		       struct gain *g)
{
	struct draft_cost known = {0};
	struct draft_trust all = {0};
	for (int n_tok = 1; n_tok <= MIN(c->width[c->n - 1], DRAFT_STEP); n_tok++)
		draft_cost_begin(&known, n_tok, cost_of(c, n_tok) * 1000);
	for (int i = 0; i + 1 < n; i += 2) {
		struct ids prompt = {0}, answer = {0};
		bool ok = read_ids(t, paths[i], &prompt) && read_ids(t, paths[i + 1], &answer);
		if (ok)
			replay(&prompt, &answer, c, &known, &all, g);
		ids_deinit(&prompt);
		ids_deinit(&answer);
		if (!ok)
			return false;
	}
	return g->n_steps > 0;
}

int main(int argc, char **argv)
{
	struct tokenizer_files f;
	struct costs c = {0};
	struct gain g = {0};
	struct fail fail = {0};
	if (argc < 6 || !parse_costs(argv[2], &c)) {
		fprintf(stderr, "usage: bench_lookup MODEL_DIR 1:COST,2:COST,... CASE "
				"PROMPT ANSWER [PROMPT ANSWER ...]\n");
		return 2;
	}
	if (tokenizer_hf_load(argv[1], &f, &fail) != OK) {
		fprintf(stderr, "bench_lookup: %s\n", fail.text);
		return 1;
	}
	bool ok = replay_all(f.tokenizer, argv + 4, argc - 4, &c, &g);
	tokenizer_files_deinit(&f);
	if (!ok)
		return 1;
	printf("lookup,%s answers,%ld,tokens\n", argv[3], g.n_tok);
	printf("lookup,%s guesses right,%.3f,1\n", argv[3],
	       g.n_drafted ? (double)g.n_right / (double)g.n_drafted : 0);
	printf("lookup,%s tokens a step,%.3f,1\n", argv[3],
	       (double)g.n_tok / (double)g.n_steps);
	printf("lookup,%s times as fast,%.3f,1\n", argv[3],
	       (double)g.n_tok * c.cost[0] / g.cost);
	return 0;
}
