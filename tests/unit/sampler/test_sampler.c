/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws are compared with a plain sort-everything implementation of the same
 * rules (in double, from the definition), and their counts with the chi-square
 * distribution. Seeds are fixed, so every run sees the same draws.
 */
#include "base/alloc.h"
#include "sampler/sampler.h"
#include "sampler/softmax.h"
#include "tests/tap.h"

static const struct sampler_params neutral = {
	.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 42,
	.n_top_logprobs = -1};

/* Logits that look like a model's: few high, a long low tail; no libm. */
static void make_logits(float *x, int32_t n, uint32_t seed)
{
	for (int32_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		float u = (float)(seed >> 8) * 0x1p-24f;
		x[i] = 12 * u * u * u * u - 4 + (float)(i % 7) * 0.01f;
	}
}

struct ranked {
	double p;
	int32_t id;
};

static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->p != y->p)
		return x->p > y->p ? -1 : 1;
	return x->id < y->id ? -1 : 1;
}

/* prob[id] of being drawn, from the definition. */
static void define(const float *x, int32_t n, const struct sampler_params *p,
		   double *prob)
{
	struct ranked *r = xmalloc((size_t)n * sizeof *r);
	double max = x[0], sum = 0;
	for (int32_t i = 0; i < n; i++)
		max = fmax(max, x[i]);
	for (int32_t i = 0; i < n; i++) {
		r[i] = (struct ranked){exp((x[i] - max) / p->temperature), i};
		prob[i] = 0;
	}
	qsort(r, (size_t)n, sizeof *r, by_rank);
	int32_t keep = p->top_k > 0 && p->top_k < n ? p->top_k : n;
	for (int32_t i = 0; i < keep; i++)
		sum += r[i].p;
	double acc = 0;
	int32_t k = 0;
	while (k < keep && (k == 0 || acc < (double)p->top_p * sum))
		acc += r[k++].p;
	double total = 0;
	for (int32_t i = 0; i < k; i++)
		if (r[i].p >= p->min_p)
			total += r[i].p;
	for (int32_t i = 0; i < k; i++)
		if (r[i].p >= p->min_p)
			prob[r[i].id] = r[i].p / total;
	free(r);
}

/* Draw n_draw times from the same logits: no id of probability 0, and a
 * chi-square within mean + 5 deviations (both known: df, sqrt(2 df)); ids too rare
 * for the statistic are pooled. */
static void check_draws(const char *name, int32_t n_vocab, int n_draw,
			const struct sampler_params *p)
{
	float *x = xmalloc((size_t)n_vocab * sizeof *x);
	double *prob = xmalloc((size_t)n_vocab * sizeof *prob);
	int *count = xcalloc((size_t)n_vocab, sizeof *count);
	make_logits(x, n_vocab, 7);
	define(x, n_vocab, p, prob);
	struct sampler *s = sampler_create(p, n_vocab);
	int outside = 0;
	for (int i = 0; i < n_draw; i++) {
		struct sampled out;
		if (sampler_next(s, x, NULL, 0, &out) != OK || prob[out.id] == 0)
			outside++;
		else
			count[out.id]++;
	}
	double chi = 0, rare = 0, n_rare = 0;
	int df = -1;
	for (int32_t i = 0; i < n_vocab; i++) {
		double want = prob[i] * n_draw;
		if (want < 5) {
			rare += want;
			n_rare += count[i];
			continue;
		}
		chi += (count[i] - want) * (count[i] - want) / want;
		df++;
	}
	if (rare >= 5) {
		chi += (n_rare - rare) * (n_rare - rare) / rare;
		df++;
	}
	is_int(outside, 0, "%s: nothing outside the kept set", name);
	if (!ok(chi <= df + 5 * sqrt(2.0 * df), "%s: counts fit", name))
		printf("# chi-square %g, %d degrees of freedom\n", chi, df);
	sampler_destroy(s);
	free(x);
	free(prob);
	free(count);
}

static void test_distribution(void)
{
	struct sampler_params p = neutral;
	check_draws("plain", 50, 20000, &p);
	check_draws("plain, odd V", 1003, 20000, &p);
	p.temperature = 0.5f;
	check_draws("cold", 300, 20000, &p);
	p.temperature = 2;
	check_draws("hot", 300, 20000, &p);
	p.temperature = 0.8f;
	p.top_k = 7;
	check_draws("top_k", 300, 20000, &p);
	p.top_p = 0.7f;
	check_draws("top_k and top_p", 300, 20000, &p);
	p.min_p = 0.3f;
	check_draws("top_k, top_p and min_p", 300, 20000, &p);
	p.top_k = 0;
	check_draws("top_p and min_p", 300, 20000, &p);
	p.min_p = 0;
	check_draws("top_p", 3001, 20000, &p);
	p.top_p = 1;
	p.min_p = 0.05f;
	check_draws("min_p", 300, 20000, &p);
	p = neutral;
	p.top_k = 1500; /* beyond the heap */
	check_draws("large top_k", 3001, 20000, &p);
	p.top_p = 0.9f;
	check_draws("large top_k and top_p", 3001, 20000, &p);
}

static int32_t next_of(struct sampler *s, const float *x)
{
	struct sampled out = {.id = -1};
	return sampler_next(s, x, NULL, 0, &out) == OK ? out.id : -1;
}

static int32_t first_of(const struct sampler_params *p, const float *x, int32_t n)
{
	struct sampler *s = sampler_create(p, n);
	int32_t id = next_of(s, x);
	sampler_destroy(s);
	return id;
}

static void test_ties(void)
{
	float x[100];
	for (int i = 0; i < 100; i++)
		x[i] = 1;
	struct sampler_params p = neutral;
	p.temperature = 0;
	is_int(first_of(&p, x, 100), 0, "greedy: the lowest id wins a tie");
	p.temperature = 1;
	struct { int k; float top_p; } sets[] = {{10, 1}, {0, 0.095f}};
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		p.top_k = sets[i].k;
		p.top_p = sets[i].top_p;
		struct sampler *s = sampler_create(&p, 100);
		int32_t max = 0;
		for (int k = 0; k < 500; k++)
			max = MAX(max, next_of(s, x));
		is_int(max, 9, "of equal tokens the lower ids are kept (%s)",
		       sets[i].k ? "top_k" : "top_p");
		sampler_destroy(s);
	}
	p.top_k = 0;
	p.top_p = 1e-9f;
	is_int(first_of(&p, x, 100), 0, "a tiny top_p keeps one token");
}

static void test_determinism(void)
{
	enum { V = 2000, N = 200 };
	static float x[V];
	make_logits(x, V, 3);
	struct sampler_params p = neutral;
	p.temperature = 1.3f;
	int32_t a[N], same = 0, differ = 0, other = 0, nudged = 0;
	struct sampler *s = sampler_create(&p, V), *t = sampler_create(&p, V);
	for (int i = 0; i < N; i++)
		a[i] = next_of(s, x);
	for (int i = 0; i < N; i++)
		same += a[i] == next_of(t, x);
	is_int(same, N, "the same seed gives the same tokens");
	sampler_destroy(s);
	sampler_destroy(t);

	p.seed++;
	s = sampler_create(&p, V);
	for (int i = 0; i < N; i++)
		differ += a[i] != next_of(s, x);
	ok(differ > N / 2, "another seed gives others");
	sampler_destroy(s);
	p.seed = neutral.seed;

	is_int(sampler_seed_of_choice(77, 0), 77, "choice 0 keeps the seed");
	ok(sampler_seed_of_choice(77, 1) != sampler_seed_of_choice(77, 2) &&
	   sampler_seed_of_choice(77, 1) != sampler_seed_of_choice(78, 1),
	   "other choices have their own");
	p.seed = sampler_seed_of_choice(neutral.seed, 1);
	s = sampler_create(&p, V);
	for (int i = 0; i < N; i++)
		other += a[i] != next_of(s, x);
	ok(other > N / 2, "and draw other tokens");
	sampler_destroy(s);

	/* Logits off by a last bit, as after a recomputation. */
	p.seed = neutral.seed;
	p.top_p = 0.95f;
	s = sampler_create(&p, V);
	t = sampler_create(&p, V);
	static float y[V];
	for (int i = 0; i < V; i++)
		y[i] = nextafterf(x[i], i % 2 ? 100 : -100);
	for (int i = 0; i < N; i++)
		nudged += next_of(s, x) != next_of(t, y);
	is_int(nudged, 0, "a last bit in the logits does not change the draws");
	sampler_destroy(s);
	sampler_destroy(t);

	/* Pinned: a change of the generator or of the order of draws is a
	 * change of every seeded answer. */
	float flat[1000] = {0};
	p = neutral;
	p.seed = 1;
	s = sampler_create(&p, 1000);
	int32_t got[3] = {next_of(s, flat), next_of(s, flat), next_of(s, flat)};
	if (!ok(got[0] == 702 && got[1] == 520 && got[2] == 574,
		"seed 1, pinned draws"))
		printf("# got %d %d %d\n", got[0], got[1], got[2]);
	sampler_destroy(s);
}

static void test_penalties(void)
{
	const int32_t prompt[] = {1, 1, 2, -5, 99};
	struct sampler_params p = neutral;
	p.temperature = 0;
	p.repetition_penalty = 2;
	struct sampler *s = sampler_create(&p, 5);
	sampler_add_prompt(s, prompt, ARRAY_LEN(prompt));
	const float x[5] = {0.6f, 1.0f, 1.3f, 0.59f, -3};
	/* 1 and 2 are halved: 0.5, 0.65. */
	is_int(next_of(s, x), 2, "repetition divides positive logits once");
	is_int(next_of(s, x), 2, "also when prompt and output both have it");
	const float y[5] = {-1.9f, -1, -1.2f, -1.95f, -9};
	is_int(next_of(s, y), 0, "and multiplies negative ones");
	sampler_destroy(s);

	p.repetition_penalty = 1;
	p.frequency_penalty = 0.5f;
	s = sampler_create(&p, 2);
	sampler_add_prompt(s, (int32_t[]){0, 0, 0}, 3);
	const float z[2] = {1.2f, 0};
	/* 1.2, .7, .2, -.3 for token 0; 0, -.5 for token 1. */
	const int32_t want[] = {0, 0, 0, 1, 0, 1};
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		is_int(next_of(s, z), want[i], "frequency counts outputs, %zu", i);
	sampler_destroy(s);

	p.frequency_penalty = 0;
	p.presence_penalty = 1;
	s = sampler_create(&p, 2);
	const float q[2] = {0.5f, 0};
	is_int(next_of(s, q), 0, "presence: free the first time");
	is_int(next_of(s, q), 1, "paid once it is there");
	is_int(next_of(s, q), 0, "and only once");
	sampler_destroy(s);

	p.repetition_penalty = 2;
	s = sampler_create(&p, 2);
	sampler_add_prompt(s, (int32_t[]){0}, 1);
	const float both[2] = {2.2f, 0.5f};
	is_int(next_of(s, both), 0, "presence does not look at the prompt");
	sampler_destroy(s);

	const struct logit_bias bias[] = {{1, 100}, {7, 100}, {-1, 100}};
	p = neutral;
	p.temperature = 0;
	p.bias = bias;
	p.n_bias = 3;
	is_int(first_of(&p, q, 2), 1, "logit_bias; ids out of range are ignored");
}

static void test_banned(void)
{
	const float x[4] = {3, 2, 1, 0};
	const int32_t banned[] = {0, 1, 9, -1};
	struct sampled out;
	struct sampler_params p = neutral;
	struct sampler *s = sampler_create(&p, 4);
	int hits = 0;
	for (int i = 0; i < 500; i++)
		if (sampler_next(s, x, banned, 4, &out) != OK || out.id < 2)
			hits++;
	is_int(hits, 0, "banned ids are never drawn");
	sampler_destroy(s);
	p.temperature = 0;
	s = sampler_create(&p, 4);
	is_int(sampler_next(s, x, banned, 4, &out), OK, "greedy with bans");
	is_int(out.id, 2, "the best of the rest");
	is_int(next_of(s, x), 0, "bans last one call");
	const int32_t all[] = {0, 1, 2, 3};
	is_int(sampler_next(s, x, all, 4, &out), E_INVAL, "nothing left to draw");
	is_int(next_of(s, x), 0, "which is not the model's fault");
	const uint64_t allowed = 1 << 1 | 1 << 3, none = 0;
	is_int(sampler_next_allowed(s, x, &allowed, NULL, 0, &out), OK, "a mask");
	is_int(out.id, 1, "the best that is allowed");
	is_int(sampler_next_allowed(s, x, &allowed, banned, 4, &out), OK, "and bans");
	is_int(out.id, 3, "the best that is allowed and not banned");
	is_int(sampler_next_allowed(s, x, &none, NULL, 0, &out), E_INVAL,
	       "an empty mask leaves nothing");
	sampler_destroy(s);
	p.repetition_penalty = 1e-38f;
	s = sampler_create(&p, 4);
	sampler_add_prompt(s, (int32_t[]){0}, 1);
	const float big[4] = {30, 2, 1, 0};
	is_int(sampler_next(s, big, NULL, 0, &out), E_INVAL,
	       "nor is a penalty that makes infinity");
	sampler_destroy(s);
}

static void test_broken_logits(void)
{
	float x[9];
	struct sampled out;
	struct sampler *s = sampler_create(&neutral, 9);
	for (int i = 0; i < 9; i++) {
		for (int k = 0; k < 9; k++)
			x[k] = 0;
		x[i] = NAN;
		is_int(sampler_next(s, x, NULL, 0, &out), E_BACKEND, "NaN at %d", i);
	}
	x[8] = INFINITY;
	is_int(sampler_next(s, x, NULL, 0, &out), E_BACKEND, "+inf");
	for (int k = 0; k < 9; k++)
		x[k] = -INFINITY;
	is_int(sampler_next(s, x, NULL, 0, &out), E_BACKEND, "nothing finite");
	x[4] = -3e38f;
	is_int(next_of(s, x), 4, "one finite logit is enough");
	sampler_destroy(s);
}

static void test_logprobs(void)
{
	enum { V = 5003 };
	static float x[V];
	make_logits(x, V, 11);
	struct sampler_params p = neutral;
	p.n_top_logprobs = 5;
	p.temperature = 0.7f;
	struct logit_bias bias = {17, 30};
	p.bias = &bias;
	p.n_bias = 1;
	struct sampler *s = sampler_create(&p, V);
	struct sampled out;
	is_int(sampler_next(s, x, NULL, 0, &out), OK, "with log-probabilities");
	is_int(out.id, 17, "the biased token");
	is_near(out.logprob, sampler_logprob(x, V, 17), 1e-5,
		"its log-probability is of the raw logits");
	is_int(out.n_top, 5, "five alternatives");
	bool sorted = true, right = true;
	for (int i = 0; i < out.n_top; i++) {
		double lp = sampler_logprob(x, V, out.top[i].id);
		right = right && fabs(lp - out.top[i].logprob) < 1e-5;
		sorted = sorted && (!i || out.top[i].logprob <= out.top[i - 1].logprob);
	}
	ok(sorted && right, "sorted, each right");
	int better = 0;
	for (int i = 0; i < V; i++)
		better += x[i] > x[out.top[4].id];
	is_int(better, 4, "and no better one is missing");
	sampler_destroy(s);

	p.n_top_logprobs = 0;
	s = sampler_create(&p, V);
	ok(sampler_next(s, x, NULL, 0, &out) == OK && out.n_top == 0, "only its own");
	is_near(out.logprob, sampler_logprob(x, V, out.id), 1e-5, "is right");
	sampler_destroy(s);
}

static void test_softmax(void)
{
	float x[1001], w[1001];
	double worst = 0, sum = 0;
	for (int i = 0; i < 1001; i++)
		x[i] = -0.085f * (float)i;
	double got = softmax_weights(x, 1001, 0, 1, w);
	for (int i = 0; i < 1001; i++) {
		worst = worse_of(worst, fabs(w[i] / exp(x[i]) - 1));
		sum += w[i];
	}
	ok(worst < 1.5e-7, "exp within 1.5e-7 (worst %.2g)", worst);
	is_near(got, sum, 1e-9, "the sum");
	is_near(softmax_sum(x, 1001, 0), sum, 1e-9, "the sum alone");
	x[0] = -200;
	softmax_weights(x, 1, 0, 1, w);
	is_near(w[0], 0, 0, "far below: zero, no denormal");
}

int main(void)
{
	test_softmax();
	test_distribution();
	test_ties();
	test_determinism();
	test_penalties();
	test_banned();
	test_broken_logits();
	test_logprobs();
	sampler_destroy(NULL);
	return tap_done();
}
