/* SPDX-License-Identifier: Apache-2.0
 *
 * What measuring by stage costs: one token after another of halo-tiny, every other round
 * with a profile. Prints the median, over pairs of neighbouring rounds, of the ratio of the
 * one with a profile to the one without, less 1; and its 95 % interval, from ranks. One
 * thread, and its own CPU time, so that other work on the machine counts less.
 *
 *   bench_profile MODEL [ROUNDS [EVERY]]
 *
 * EVERY: one step of so many is measured, 2 as haloctl bench model does.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/profile.h"
#include "ctl/session.h"

enum { TOKENS = 50 };

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of TOKENS tokens; negative: it failed. */
static double decode(struct session *s)
{
	struct engine_seq *seq = session_start(s, TOKENS + 1);
	int32_t id = 1;
	double begin = cpu_seconds();
	bool good = seq != NULL;
	for (int i = 0; i < TOKENS && good; i++) {
		good = session_feed(s, seq, &id, 1, NULL, NULL);
		id = good ? session_best(s) : -1;
		good = id >= 0;
	}
	double seconds = cpu_seconds() - begin;
	if (seq)
		engine_seq_destroy(s->engine, seq);
	return good ? seconds : -1;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* A rank of a binomial distribution is within 1.96 standard deviations of its mean. */
static void print(double *ratio, int n)
{
	int half = (int)(0.98 * sqrt(n)) + 1;
	qsort(ratio, (size_t)n, sizeof *ratio, compare);
	printf("%.4f (%.4f to %.4f, %d pairs)\n", ratio[n / 2] - 1,
	       ratio[MAX(n / 2 - half, 0)] - 1, ratio[MIN(n / 2 + half, n - 1)] - 1, n);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 200;
	struct session s = {0};
	const struct session_opts o = {.dir = argc > 1 ? argv[1] : NULL, .backend = "cpu",
				       .threads = 1};
	if (!o.dir || rounds < 1) {
		fprintf(stderr, "usage: bench_profile MODEL [ROUNDS [EVERY]]\n");
		return 2;
	}
	if (!session_open(&o, TOKENS + 1, &s))
		return 1;
	struct profile *p = profile_create(s.model->config.n_layers,
					   argc > 3 ? atoi(argv[3]) : 2);
	double *ratio = xcalloc((size_t)rounds, sizeof *ratio);
	bool good = decode(&s) > 0; /* warms caches up */
	for (int i = 0; i < rounds && good; i++) {
		double t[2];
		for (int j = 0; j < 2; j++) { /* which one is first changes */
			bool is_with = (i + j) % 2;
			backend_set_profile(s.backend, is_with ? p : NULL);
			t[is_with] = decode(&s);
			good = good && t[is_with] > 0;
		}
		ratio[i] = t[1] / t[0];
	}
	if (good)
		print(ratio, rounds);
	free(ratio);
	backend_set_profile(s.backend, NULL);
	session_close(&s);
	profile_destroy(p);
	return good ? 0 : 1;
}
