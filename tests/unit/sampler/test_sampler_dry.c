/* SPDX-License-Identifier: Apache-2.0
 *
 * DRY and XTC against plain loops of their definitions (tests/golden/make_samplers.py),
 * and beside the rest of the sampler.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sampler/sampler_private.h"
#include "tests/tap.h"

#define V 24
#define PLAIN .top_p = 1, .repetition_penalty = 1, .n_top_logprobs = -1

/* The next field, up to a tab or the end. */
static char *field(char **at)
{
	char *begin = *at, *tab = strchr(begin, '\t');
	*at = tab ? tab + 1 : begin + strlen(begin);
	if (tab)
		*tab = '\0';
	return begin;
}

static size_t read_ids(const char *s, int32_t *out)
{
	size_t n = 0;
	char *end;
	for (long v = strtol(s, &end, 10); end != s; v = strtol(s, &end, 10)) {
		out[n++] = (int32_t)v;
		s = end + (*end == '/');
	}
	return n;
}

/* --- DRY ------------------------------------------------------------------------ */

static int read_breakers(char *s, struct sampler_breaker *out, int32_t tails[8][8])
{
	int n = 0;
	for (char *one = strtok(s, " "); one; one = strtok(NULL, " "), n++) {
		int32_t ids[9];
		int32_t n_ids = (int32_t)read_ids(one, ids);
		memcpy(tails[n], ids + 1, (size_t)(n_ids - 1) * sizeof *ids);
		out[n] = (struct sampler_breaker){ids[0], n_ids - 1, tails[n]};
	}
	if (n == 2 && out[0].head > out[1].head) {
		struct sampler_breaker t = out[0];
		out[0] = out[1];
		out[1] = t;
	}
	return n;
}

static bool check_dry(char *line)
{
	struct sampler_breaker breakers[8];
	int32_t tails[8][8], ids[200];
	struct sampler_params p = {PLAIN, .temperature = 1};
	struct sampler_dry *d = &p.dry;
	float x[V] = {0}, want[V] = {0};
	int n_read = sscanf(field(&line), "%f %f %d %d", &d->multiplier, &d->base,
			    &d->allowed_length, &d->last_n);
	d->breakers = breakers;
	d->n_breakers = read_breakers(field(&line), breakers, tails);
	size_t n = read_ids(field(&line), ids);
	char *end = line, *from;
	for (long id = strtol(from = end, &end, 10); end != from;
	     id = strtol(from = end, &end, 10))
		want[id] = -strtof(end + 1, &end);
	struct sampler *s = sampler_create(&p, V);
	sampler_add_prompt(s, ids, n / 2);
	for (size_t i = n / 2; i < n; i++)
		sampler_add_output(s, ids[i]);
	sampler_dry_apply(s, x);
	sampler_destroy(s);
	bool same = n_read == 4;
	for (int i = 0; i < V; i++)
		same &= fabsf(x[i] - want[i]) <= 1e-4f * fabsf(want[i]);
	return same;
}

/* --- XTC ------------------------------------------------------------------------ */

static bool check_xtc(char *line)
{
	struct sampler_params p = {PLAIN, .temperature = 1, .xtc.probability = 1};
	int32_t weights[16], kept[16];
	float logits[16];
	bool seen[16] = {0}, want[16] = {0}, same = true;
	p.xtc.threshold = strtof(field(&line), NULL);
	size_t n = read_ids(field(&line), weights), n_kept = read_ids(line, kept);
	for (size_t i = 0; i < n; i++)
		logits[i] = logf((float)weights[i]);
	for (size_t i = 0; i < n_kept; i++)
		want[kept[i]] = true;
	struct sampler *s = sampler_create(&p, (int32_t)n);
	for (int i = 0; i < 3000; i++) {
		struct sampled out;
		if (sampler_next(s, logits, NULL, 0, &out) == OK)
			seen[out.id] = true;
	}
	sampler_destroy(s);
	for (size_t i = 0; i < n; i++)
		same &= seen[i] == want[i];
	return same;
}

static void test_goldens(void)
{
	struct buf all = {0};
	struct fail f;
	int n[2] = {0}, n_bad = 0;
	if (file_read(tap_src("tests/golden/samplers.tsv"), 1 << 20, &all, &f) != OK) {
		ok(false, "%s", f.text);
		return;
	}
	for (char *line = all.p, *end; line < all.p + all.n; line = end + 1) {
		end = strchr(line, '\n');
		*end = '\0';
		char *at = line;
		bool is_dry = field(&at)[0] == 'D';
		n[is_dry]++;
		if (!(is_dry ? check_dry(at) : check_xtc(at)) && ++n_bad)
			printf("# line %d differs\n", n[0] + n[1]);
	}
	buf_deinit(&all);
	ok(n[1] >= 100 && n[0] >= 50, "%d of DRY, %d of XTC", n[1], n[0]);
	is_int(n_bad, 0, "all as the definitions have it");
}

/* --- beside the rest -------------------------------------------------------------- */

static void test_drawn(void)
{
	const int32_t prompt[] = {1, 2, 3, 4, 1, 2, 3};
	float logits[V] = {0};
	struct sampled out;
	struct sampler_params p = {PLAIN, .temperature = 0,
				   .dry = {.multiplier = 1, .base = 1.75f,
					   .allowed_length = 2, .last_n = -1}};
	logits[4] = 1;
	logits[5] = 0.5f;
	struct sampler *s = sampler_create(&p, V);
	sampler_add_prompt(s, prompt, ARRAY_LEN(prompt));
	is_int(sampler_next(s, logits, NULL, 0, &out), OK, "greedy with DRY");
	is_int(out.id, 5, "the repetition is lowered below the second best");
	sampler_destroy(s);
	p.dry.last_n = 0;
	s = sampler_create(&p, V);
	sampler_add_prompt(s, prompt, ARRAY_LEN(prompt));
	is_int(sampler_next(s, logits, NULL, 0, &out), OK, "last_n 0");
	is_int(out.id, 4, "is off");
	sampler_destroy(s);
}

/* How often, of 4,000 draws, the best of two likely tokens comes. */
static int count_best(float probability, float top_p)
{
	const float logits[3] = {logf(60), logf(39), logf(1)};
	struct sampler_params p = {PLAIN, .temperature = 1, .xtc = {probability, 0.1f}};
	int n = 0;
	p.top_p = top_p;
	struct sampler *s = sampler_create(&p, 3);
	for (int i = 0; i < 4000; i++) {
		struct sampled out;
		n += sampler_next(s, logits, NULL, 0, &out) == OK && out.id == 0;
	}
	sampler_destroy(s);
	return n;
}

static void test_probability(void)
{
	is_int(count_best(1, 1), 0, "with XTC the best is never drawn");
	int half = count_best(0.5f, 1), none = count_best(0, 1);
	ok(half > 1000 && half < 1400, "with a probability of 0.5 half as often: %d", half);
	ok(none > 2200 && none < 2600, "without as it is: %d", none);
	is_int(count_best(1, 0.5f), 4000, "the only one that top_p leaves stays");
}

static void test_best_alone(void)
{
	const int32_t ids[] = {0, 1};
	const float best[] = {3, 2};
	const struct sampler_top t = {2, ids, best, 3, 1.5f, 1.5f};
	struct sampler_params p = {PLAIN, .temperature = 0, .dry.multiplier = 1,
				   .dry.base = 1.75f, .dry.last_n = -1};
	struct sampled out;
	enum status st;
	struct sampler *s = sampler_create(&p, V);
	ok(!sampler_next_top(s, &t, &(struct sampler_bans){0}, &out, &st),
	   "DRY is not decided by the best alone");
	sampler_destroy(s);
}

int main(void)
{
	test_goldens();
	test_drawn();
	test_probability();
	test_best_alone();
	return tap_done();
}
