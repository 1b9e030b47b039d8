/* SPDX-License-Identifier: Apache-2.0
 *
 * What speculation by lookup gains on pairs of texts, without a model: the answer is
 * known, so a draft token is right if the answer goes on with it. The policy (sched/draft.h) is
 * the scheduler's own. A step of T tokens costs what COSTS says, interpolated between its
 * widths. The last width is the widest step.
 *
 * Usage: bench_lookup MODEL_DIR COSTS CASE PROMPT ANSWER [PROMPT ANSWER ...]
 *        bench_lookup MODEL_DIR time FILE [FILE ...]
 * COSTS is "1:1.889,2:2.698,4:4.017", widths ascending from 1, in any unit of time. The second
 * form times the index itself, in processor time, over the texts of all files.
 * Prints one line of CSV a value: case, shape, value, unit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* The first token comes from prefill; each step gives one token, and the right draft tokens. */
static void replay(const struct ids *prompt, const struct ids *answer, const struct costs *c,
		   struct draft_cost *known, struct draft_trust *all, struct gain *g)
{
	struct lookup l = {0};
	struct draft_trust trust = {0};
	struct draft_account account = {0};
	lookup_add(&l, prompt->p, prompt->n);
	for (size_t i = 0; i + 1 < answer->n;) {
		int32_t draft[DRAFT_MAX];
		int mark = 0, n_right = 0;
		int widest = MIN(c->width[c->n - 1] - 1, DRAFT_MAX);
		int left = (int)MIN(answer->n - i - 2, (size_t)widest);
		struct draft_step s = {.n_tok = 1, .n_expected = 1,
				       .account = &account};
		struct lookup_match m;
		lookup_add(&l, answer->p + i, l.text.n == prompt->n + i ? 1 : 0);
		s.max = left > 0 ? lookup_draft(&l, left, draft, &m) : 0;
		if (s.max) {
			mark = draft_mark(m.n, m.n_same);
			s.max = m.n_same > 0 ? m.n_same : s.max;
		}
		int n = s.max ? draft_width(known, &s, draft_trust_of(&trust, all, mark)) : 0;
		while (n_right < n && draft[n_right] == answer->p[i + 1 + (size_t)n_right])
			n_right++;
		double cost = cost_of(c, 1 + n);
		draft_account_note(&account, draft_paid(known, 1, n, n, (int64_t)(cost * 1000)),
				   n_right);
		(n ? draft_cost_note : draft_cost_note_plain)(known, 1 + n,
							      (int64_t)(cost * 1000));
		if (n)
			draft_trust_note(&trust, all, mark, n, n_right);
		else if (s.max)
			draft_trust_note(&trust, all, mark, 1, draft[0] == answer->p[i + 1]);
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

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The index alone, then with a draft token behind each token. */
static bool time_index(const struct tokenizer *t, char **paths, int n)
{
	struct ids all = {0};
	int32_t draft[DRAFT_MAX];
	struct lookup_match match;
	int n_found = 0;
	for (int i = 0; i < n; i++)
		if (!read_ids(t, paths[i], &all))
			return false;
	double ns[2];
	for (int drafted = 0; drafted < 2; drafted++) {
		struct lookup l = {0};
		double begin = cpu_ns();
		for (size_t i = 0; i < all.n; i++) {
			lookup_add(&l, &all.p[i], 1);
			if (drafted)
				n_found += lookup_draft(&l, DRAFT_MAX, draft, &match) > 0;
		}
		ns[drafted] = (cpu_ns() - begin) / (double)all.n;
		lookup_deinit(&l);
	}
	printf("lookup,index of %zu tokens: a token,%.1f,ns\n", all.n, ns[0]);
	printf("lookup,index of %zu tokens: a draft token (found %.0f %%),%.1f,ns\n", all.n,
	       100.0 * n_found / (double)all.n, ns[1] - ns[0]);
	ids_deinit(&all);
	return true;
}

int main(int argc, char **argv)
{
	struct tokenizer_files f;
	struct costs c = {0};
	struct gain g = {0};
	struct fail fail = {0};
	bool is_time = argc > 3 && strcmp(argv[2], "time") == 0;
	if (!is_time && (argc < 6 || !parse_costs(argv[2], &c))) {
		fprintf(stderr, "usage: bench_lookup MODEL_DIR 1:COST,2:COST,... CASE "
				"PROMPT ANSWER [PROMPT ANSWER ...]\n"
				"       bench_lookup MODEL_DIR time FILE [FILE ...]\n");
		return 2;
	}
	if (tokenizer_hf_load(argv[1], &f, &fail) != OK) {
		fprintf(stderr, "bench_lookup: %s\n", fail.text);
		return 1;
	}
	bool ok = is_time ? time_index(f.tokenizer, argv + 3, argc - 3)
			  : replay_all(f.tokenizer, argv + 4, argc - 4, &c, &g);
	tokenizer_files_deinit(&f);
	if (!ok || is_time)
		return !ok;
	printf("lookup,%s answers,%ld,tokens\n", argv[3], g.n_tok);
	printf("lookup,%s draft tokens right,%.3f,1\n", argv[3],
	       g.n_drafted ? (double)g.n_right / (double)g.n_drafted : 0);
	printf("lookup,%s tokens a step,%.3f,1\n", argv[3],
	       (double)g.n_tok / (double)g.n_steps);
	printf("lookup,%s times as fast,%.3f,1\n", argv[3],
	       (double)g.n_tok * c.cost[0] / g.cost);
	return 0;
}
