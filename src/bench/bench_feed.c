/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_feed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "ctl/input.h"

#define MAX_BYTES ((size_t)64 << 20)

/* Adds a line's ids; an empty line adds nothing. False: the line has something else than ids. */
static bool add_line(struct bench_feed *f, struct str line)
{
	struct ids ids = {0};
	if (!input_ids(line, &ids)) {
		ids_deinit(&ids);
		return false;
	}
	if (ids.n == 0)
		return true;
	f->lines = xrealloc(f->lines, (size_t)(f->n_lines + 1) * sizeof *f->lines);
	f->lines[f->n_lines++] = ids;
	f->longest = MAX(f->longest, (int)ids.n);
	return true;
}

bool bench_feed_read(const char *path, struct bench_feed *out)
{
	struct buf b = {0};
	struct fail fail = {0};
	bool good = file_read(path, MAX_BYTES, &b, &fail) == OK;
	if (!good)
		fprintf(stderr, "haloctl: %s\n", fail.text);
	for (size_t at = 0, end; at < b.n && good; at = end + 1) {
		const char *newline = memchr(b.p + at, '\n', b.n - at);
		end = newline ? (size_t)(newline - b.p) : b.n;
		good = add_line(out, (struct str){b.p + at, end - at});
		if (!good)
			fprintf(stderr, "haloctl: %s: only ids of tokens, please\n", path);
	}
	if (good && out->n_lines < 2) {
		fprintf(stderr, "haloctl: %s: two lines of ids are the least\n", path);
		good = false;
	}
	buf_deinit(&b);
	return good;
}

void bench_feed_deinit(struct bench_feed *f)
{
	for (int i = 0; i < f->n_lines; i++)
		ids_deinit(&f->lines[i]);
	free(f->lines);
	*f = (struct bench_feed){0};
}

/* Seconds of the decode, or a negative number if it failed. */
static double feed_line(struct session *s, const struct ids *ids)
{
	struct engine_seq *seq = session_start(s, (int)ids->n);
	bool good = seq != NULL;
	int64_t begin = clock_now_us(&clock_monotonic);
	for (size_t i = 0; i < ids->n && good; i++)
		good = session_feed(s, seq, ids->p + i, 1, NULL, NULL) && session_logits(s);
	int64_t end = clock_now_us(&clock_monotonic);
	if (seq)
		engine_seq_destroy(s->engine, seq);
	return good ? (double)(end - begin) * 1e-6 : -1;
}

bool bench_feed_run(struct session *s, struct bench_feed *f)
{
	for (int i = 0; i < f->n_lines; i++)
		for (size_t k = 0; k < f->lines[i].n; k++)
			if (f->lines[i].p[k] >= engine_n_vocab(s->engine)) {
				fprintf(stderr, "haloctl: the model has no token %d\n",
					f->lines[i].p[k]);
				return false;
			}
	if (feed_line(s, &f->lines[0]) < 0)
		return false;
	bench_experts_begin(&f->experts);
	for (int i = 1; i < f->n_lines; i++) {
		double took = feed_line(s, &f->lines[i]);
		if (took < 0)
			return false;
		f->seconds += took;
		f->n_tok += (double)f->lines[i].n;
	}
	bench_experts_end(&f->experts, f->n_tok);
	return true;
}

void bench_feed_print(const struct bench_feed *f)
{
	if (f->n_tok == 0)
		return;
	printf("given   %5.0f %10.1f tokens/s  in %d sequences, behind one that warms up\n",
	       f->n_tok, f->n_tok / f->seconds, f->n_lines - 1);
	bench_experts_print(&f->experts);
}

void bench_feed_json(const struct bench_feed *f, struct buf *b)
{
	if (f->n_tok == 0)
		return;
	buf_addf(b, ",\"feed_tokens\":%.0f,\"feed_tps\":%.6f", f->n_tok, f->n_tok / f->seconds);
	bench_experts_json(&f->experts, b);
}
