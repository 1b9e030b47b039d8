/* SPDX-License-Identifier: Apache-2.0
 *
 * Each step has one token and wrong draft tokens, so the sequence grows by one token at any width.
 * The widths take turns, so that a slow phase of the machine affects all of them. The least
 * time of each width counts, because other programs only add time.
 */
#include "bench/bench_widths.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ctl/samples.h"

/* Seconds of a step of n tokens, or a negative number if it failed. */
static double bench_widths_step(struct session *s, struct engine_seq *seq, const int32_t *ids,
				int n)
{
	struct engine_slice slice = {.seq = seq, .tokens = ids, .n = n, .n_logits = n,
				     .n_draft = n - 1};
	struct fail fail = {0};
	enum status st = n > 1 ? engine_seq_reserve_draft(s->engine, seq, n)
			       : engine_seq_reserve(s->engine, seq, 1);
	int64_t begin = clock_now_us(&clock_monotonic);
	if (st == OK)
		st = engine_step(s->engine, &slice, 1, &fail);
	int64_t end = clock_now_us(&clock_monotonic);
	if (st == OK) {
		engine_seq_confirm(s->engine, seq, ids + 1, 0);
		return (double)(end - begin) * 1e-6;
	}
	fail_default(&fail, st);
	fprintf(stderr, "haloctl: a step of %d tokens: %s\n", n, fail.text);
	return -1;
}

bool bench_widths_run(struct session *s, const int32_t *ids, int depth, int rounds,
		      struct bench_widths *w)
{
	struct samples times[BENCH_WIDTHS] = {{0}};
	int room = engine_draft_room(s->engine);
	int before = MAX(depth, 1);
	/* Each step reserves room for its own tokens. */
	struct engine_seq *seq = session_start(s, before);
	bool good = seq && session_fill(s, seq, ids, before);
	for (int r = 0; r <= rounds && good; r++) {
		for (int i = 0; i < w->n && good; i++) {
			if (w->width[i] > room && w->width[i] > 1)
				continue;
			double took = bench_widths_step(s, seq, ids, (int)w->width[i]);
			good = took >= 0;
			if (good && r > 0) /* the first round warms caches up */
				samples_add(&times[i], took);
		}
	}
	for (int i = 0; i < w->n; i++) {
		w->ms[i] = 1e3 * samples_quantile(&times[i], 0);
		samples_deinit(&times[i]);
	}
	engine_seq_destroy(s->engine, seq);
	return good;
}

void bench_widths_print(const struct bench_widths *w)
{
	for (int i = 0; i < w->n; i++)
		if (isnan(w->ms[i]))
			printf("step of %4lld      no such steps with drafts here\n",
			       (long long)w->width[i]);
		else
			printf("step of %4lld %10.3f ms, %.2f times one of %lld\n",
			       (long long)w->width[i], w->ms[i], w->ms[i] / w->ms[0],
			       (long long)w->width[0]);
}

void bench_widths_json(const struct bench_widths *w, struct buf *out)
{
	buf_add_c(out, '{');
	for (int i = 0; i < w->n; i++) {
		buf_addf(out, "%s\"%lld\":", i ? "," : "", (long long)w->width[i]);
		buf_add_json_num(out, w->ms[i]);
	}
	buf_add_c(out, '}');
}
