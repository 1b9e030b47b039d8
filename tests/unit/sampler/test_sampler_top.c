/* SPDX-License-Identifier: Apache-2.0
 *
 * From the best alone the same tokens are drawn as from all logits: two samplers of one
 * seed go through the same sequence of logits, one of them with all of them, one with the
 * best where they are enough. Sums are wrong by nearly as much as they may be.
 * HALOD_CHECK=short, as under a sanitizer: a quarter of the steps.
 */
#include "base/alloc.h"
#include "sampler/sampler.h"
#include "tests/tap.h"

enum { V = 3000, K = SAMPLER_BEST_MAX, STEPS = 400 };

struct best {
	struct sampler_top t;
	int32_t id[K];
	float logit[K];
};

static uint32_t random_state = 1;

static float unit(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (float)(random_state >> 8) * 0x1p-24f;
}

/* peak: how far the best stand above the rest; ties: numbers are whole. */
static void make_logits(float *x, float peak, bool ties)
{
	for (int i = 0; i < V; i++) {
		float u = unit(), v = unit();
		x[i] = peak * u * u * u * u * u * u * u * u + 2 * v;
		if (ties)
			x[i] = roundf(x[i]);
	}
}

static const float *sorted_by;

static int by_rank(const void *a, const void *b)
{
	int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
	if (sorted_by[i] != sorted_by[j])
		return sorted_by[i] > sorted_by[j] ? -1 : 1;
	return i < j ? -1 : 1;
}

static void find_best(const float *x, float inv_t, struct best *out)
{
	static int32_t ids[V];
	double sum = 0, sum_t = 0, wrong = unit() < 0.5f ? -9e-6 : 9e-6;
	for (int i = 0; i < V; i++)
		ids[i] = i;
	sorted_by = x;
	qsort(ids, V, sizeof *ids, by_rank);
	float max = x[ids[0]];
	for (int i = 0; i < V; i++) {
		sum += exp(x[i] - max);
		sum_t += exp((x[i] - max) * inv_t);
	}
	for (int i = 0; i < K; i++) {
		out->id[i] = ids[i];
		out->logit[i] = x[ids[i]];
	}
	out->t = (struct sampler_top){.n = K, .id = out->id, .logit = out->logit, .max = max,
				      .sum = (float)(sum * (1 + wrong)),
				      .sum_t = (float)(sum_t * (1 + wrong))};
}

struct kind {
	const char *name;
	struct sampler_params p;
	float peak;
	bool ties;
	int n_banned, mask_each; /* every so many-th token is allowed; 0: no mask */
	int least;               /* percent of the steps that the best must decide */
};

#define BASE .top_p = 1, .repetition_penalty = 1, .seed = 9, .n_top_logprobs = -1
static const struct logit_bias lower[] = {{5, -3}, {17, -100}, {2999, -1}, {5, -0.5f}};
static const struct logit_bias higher[] = {{5, 4}, {2999, 2}};

static const struct kind kinds[] = {
	{"greedy", {BASE}, 12, false, 0, 0, 100},
	{"greedy, ties", {BASE}, 4, true, 0, 0, 100},
	{"greedy, bans", {BASE}, 12, false, 40, 0, 100},
	{"greedy, mask", {BASE}, 12, false, 0, 5, 100},
	{"greedy, rare mask", {BASE}, 12, false, 0, 1000, 1},
	{"greedy, lower bias", {BASE, .bias = lower, .n_bias = 4}, 12, false, 0, 0, 90},
	{"greedy, higher bias", {BASE, .bias = higher, .n_bias = 2}, 12, false, 0, 0, 0},
	{"top_k", {BASE, .temperature = 1, .top_k = 20}, 12, false, 0, 0, 100},
	{"top_k, ties", {BASE, .temperature = 0.7f, .top_k = 50}, 6, true, 0, 0, 100},
	{"top_k beyond", {BASE, .temperature = 1, .top_k = 200}, 12, false, 0, 0, 0},
	{"mask, top_k", {BASE, .temperature = 1, .top_k = 8}, 12, false, 3, 4, 95},
	{"any", {BASE, .temperature = 1}, 30, false, 0, 0, 90},
	{"any, cold", {BASE, .temperature = 0.3f}, 12, false, 0, 0, 90},
	{"any, hot", {BASE, .temperature = 2}, 4, false, 0, 0, 0},
	{"any, bans", {BASE, .temperature = 0.3f}, 12, false, 30, 0, 60},
};

#undef BASE
#define BASE .repetition_penalty = 1, .seed = 9, .n_top_logprobs = -1
static const struct kind cut_kinds[] = {
	{"top_p", {BASE, .temperature = 0.6f, .top_p = 0.95f}, 16, false, 0, 0, 90},
	{"top_p, ties", {BASE, .temperature = 0.6f, .top_p = 0.9f}, 16, true, 0, 0, 90},
	{"top_p, flat", {BASE, .temperature = 2, .top_p = 0.99f}, 2, false, 0, 0, 0},
	{"top_p, bans", {BASE, .temperature = 0.4f, .top_p = 0.9f}, 16, false, 30, 0, 60},
	{"top_p, mask", {BASE, .temperature = 0.4f, .top_p = 0.9f}, 16, false, 0, 3, 30},
	{"min_p", {BASE, .temperature = 1, .top_p = 1, .min_p = 0.05f}, 16, false, 0, 0, 90},
	{"min_p, top_p", {BASE, .temperature = 1, .top_p = 0.95f, .min_p = 0.1f}, 16, false,
	 0, 0, 90},
	{"all cuts", {BASE, .temperature = 0.8f, .top_k = 40, .top_p = 0.9f, .min_p = 0.02f},
	 12, false, 0, 0, 100},
};
#undef BASE
#define BASE .top_p = 0.95f, .temperature = 0.6f, .seed = 9, .n_top_logprobs = -1
static const struct kind penalty_kinds[] = {
	{"penalties", {BASE, .repetition_penalty = 1.3f, .presence_penalty = 0.5f,
		       .frequency_penalty = 0.5f}, 16, false, 0, 0, 10},
	{"penalties, top_k", {BASE, .top_k = 20, .repetition_penalty = 1.1f,
			      .presence_penalty = 1.5f}, 12, false, 0, 0, 90},
	{"penalties below 0", {BASE, .repetition_penalty = 1, .presence_penalty = -0.5f},
	 16, false, 0, 0, 0},
};

static void check(const struct kind *k)
{
	static const int32_t prompt[] = {3, 5, 8, 2999, 1500};
	struct sampler *all = sampler_create(&k->p, V), *some = sampler_create(&k->p, V);
	int32_t banned[64];
	static uint64_t mask[V / 64 + 1];
	float *x = xmalloc(V * sizeof *x);
	int n_decided = 0, n_wrong = 0, n_steps = tap_check("short") ? STEPS / 4 : STEPS;
	sampler_add_prompt(all, prompt, 5);
	sampler_add_prompt(some, prompt, 5);
	for (int step = 0; step < n_steps; step++) {
		struct best b;
		struct sampled a = {0}, c = {0};
		enum status st = OK;
		make_logits(x, k->peak, k->ties);
		find_best(x, sampler_inv_t(&k->p), &b);
		for (int i = 0; i < k->n_banned; i++)
			banned[i] = i % 2 ? (int32_t)(unit() * V) : b.id[i];
		memset(mask, 0, sizeof mask);
		for (int i = 0; k->mask_each && i < V; i++)
			if (unit() * (float)k->mask_each < 1)
				mask[i / 64] |= 1ull << (i % 64);
		struct sampler_bans bans = {k->mask_each ? mask : NULL, banned, k->n_banned};
		enum status want = sampler_next_allowed(all, x, bans.allowed, banned,
							k->n_banned, &a);
		bool is_decided = sampler_next_top(some, &b.t, &bans, &c, &st);
		n_decided += is_decided;
		if (!is_decided)
			st = sampler_next_allowed(some, x, bans.allowed, banned, k->n_banned,
						  &c);
		n_wrong += st != want || a.id != c.id;
	}
	ok(n_wrong == 0 && n_decided * 100 >= k->least * n_steps,
	   "%s: the same %d tokens, %d of them from the best", k->name, n_steps, n_decided);
	sampler_destroy(all);
	sampler_destroy(some);
	free(x);
}

/* An answer from too little would be wrong here. */
static void test_refusals(void)
{
	static const struct kind never[] = {
		{"", {.temperature = 1, .top_k = 129, .top_p = 1, .repetition_penalty = 1}, 12,
		 false, 0, 0, 0},
		{"", {.top_p = 1, .repetition_penalty = 1, .presence_penalty = -1}, 12, false, 0,
		 0, 0},
		{"", {.top_p = 1, .repetition_penalty = 0.5f}, 12, false, 0, 0, 0},
		{"", {.top_p = 1, .repetition_penalty = 1, .bias = higher, .n_bias = 2}, 12,
		 false, 0, 0, 0},
	};
	float *x = xmalloc(V * sizeof *x);
	int n_decided = 0;
	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		struct sampler *s = sampler_create(&never[i].p, V);
		struct best b;
		struct sampled out;
		enum status st;
		make_logits(x, 12, false);
		x[5] = x[2999] = -5;
		find_best(x, 1, &b);
		sampler_add_prompt(s, &b.id[0], 1);
		sampler_add_output(s, b.id[0]);
		n_decided += sampler_next_top(s, &b.t, &(struct sampler_bans){0}, &out, &st);
		sampler_destroy(s);
	}
	is_int(n_decided, 0, "nothing is proved where something unknown may be raised");
	free(x);
}

/* Does it decide where the first K tokens are known, at `known` less `step` each, and the
 * others are all at `rest`? sum_t is wrong by a factor. */
static bool decides(const struct sampler_params *p, double known, double step, double rest,
		    int n_banned, double wrong)
{
	static const int32_t banned[] = {V - 1};
	struct sampler *s = sampler_create(p, V);
	float *x = xmalloc(V * sizeof *x);
	struct best b;
	struct sampled out;
	enum status st;
	double sum = 0;
	for (int i = 0; i < V; i++) {
		x[i] = (float)(i < K ? known - step * i : rest);
		sum += exp((double)x[i] - known);
	}
	find_best(x, 1, &b);
	b.t.sum_t = (float)(sum * wrong);
	bool is_decided = sampler_next_top(s, &b.t, &(struct sampler_bans){
						   .banned = banned, .n_banned = n_banned},
					   &out, &st);
	sampler_destroy(s);
	free(x);
	return is_decided;
}

/* Where the answer would hang on what is not known. */
static void test_edges(void)
{
	struct logit_bias bias[K];
	for (int i = 0; i < K; i++)
		bias[i] = (struct logit_bias){i, -5};
	struct sampler_params p = {.top_p = 1, .repetition_penalty = 1, .n_top_logprobs = -1,
				   .bias = bias, .n_bias = K - 1};
	ok(decides(&p, 10, 0.01, 8, 0, 1), "all but the last are lowered: that one");
	p.n_bias = K;
	ok(!decides(&p, 10, 0.01, 8, 0, 1), "all are lowered, below those not known");
	p.n_bias = K - 1;
	p.temperature = 1;
	p.top_k = 5;
	ok(!decides(&p, 10, 0.01, 8, 0, 1), "one is left, and five are wanted");
	/* 128 tokens of weight 1 are known, the rest weighs 32. */
	double rest = 10 + log(32.0 / (V - K));
	p = (struct sampler_params){.temperature = 1, .top_p = 0.5f, .repetition_penalty = 1,
				    .n_top_logprobs = -1};
	ok(decides(&p, 10, 0, rest, 0, 1 - 1e-6) == false, "a cut between two tokens");
	p.top_p = 0.503f;
	ok(decides(&p, 10, 0, rest, 0, 1), "a cut in the middle of one");
	ok(!decides(&p, 10, 0, rest, 1, 1), "but bans may have taken any of the rest");
	p.top_p = 0.5000025f; /* 80 tokens reach it by the sum that is told, 81 by the true one */
	ok(!decides(&p, 10, 0, rest, 0, 1 - 9e-6), "the sum's error is allowed for");
}

static void test_logprobs(void)
{
	struct sampler_params p = {.top_p = 1, .repetition_penalty = 1, .n_top_logprobs = 20};
	struct sampler *all = sampler_create(&p, V), *some = sampler_create(&p, V);
	float *x = xmalloc(V * sizeof *x);
	struct best b;
	struct sampled a, c;
	enum status st;
	double worst = 0;
	int wrong = 0;
	make_logits(x, 12, false);
	find_best(x, 1, &b);
	ok(sampler_next(all, x, NULL, 0, &a) == OK &&
	   sampler_next_top(some, &b.t, &(struct sampler_bans){0}, &c, &st) && st == OK,
	   "a token with log-probabilities");
	for (int i = 0; i < 20; i++) {
		wrong += a.top[i].id != c.top[i].id;
		worst = worse_of(worst, fabs((double)a.top[i].logprob - c.top[i].logprob));
	}
	ok(wrong == 0 && c.n_top == 20 && worst < 2e-5, "they are the same, within %.1e",
	   worst);
	is_near(c.logprob, a.logprob, 2e-5, "its own too");
	ok(sampler_force_top(some, &b.t, b.id[7], &c, &st) && st == OK && c.id == b.id[7] &&
	   c.logprob == c.top[7].logprob, "of a forced one");
	int32_t unknown = 0;
	while (x[unknown] >= b.logit[K - 1])
		unknown++;
	ok(!sampler_force_top(some, &b.t, unknown, &c, &st), "not of one that is not known");
	b.t.sum = NAN;
	ok(sampler_next_top(some, &b.t, &(struct sampler_bans){0}, &c, &st) &&
	   st == E_BACKEND, "no numbers: the backend's fault");
	ok(sampler_force_top(some, &b.t, 3, &c, &st) && st == E_BACKEND, "forced, too");
	sampler_destroy(all);
	sampler_destroy(some);
	free(x);
}

int main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		check(&kinds[i]);
	for (size_t i = 0; i < ARRAY_LEN(cut_kinds); i++)
		check(&cut_kinds[i]);
	for (size_t i = 0; i < ARRAY_LEN(penalty_kinds); i++)
		check(&penalty_kinds[i]);
	test_refusals();
	test_edges();
	test_logprobs();
	return tap_done();
}
