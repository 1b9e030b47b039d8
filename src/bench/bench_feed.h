/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode speed on given tokens, so that two programs can be given the same ones. Each line
 * is a sequence of its own, fed one token a step. The first line warms up.
 * Thread: one.
 */
#pragma once
#include "base/buf.h"
#include "bench/bench_experts.h"
#include "ctl/session.h"
#include "tokenizer/tokenizer.h"

struct bench_feed {
	struct ids *lines; /* (n_lines) */
	int n_lines, longest;
	double n_tok, seconds;        /* of all lines after the first */
	struct bench_experts experts; /* of the same lines */
};

/* Reads lines of ids from a file. At least two lines are needed. False: the reason was printed
 * on stderr. */
bool bench_feed_read(const char *path, struct bench_feed *out);
void bench_feed_deinit(struct bench_feed *f);
/* False: the reason was printed on stderr. */
bool bench_feed_run(struct session *s, struct bench_feed *f);
/* Print lines, and append fields of a JSON object with a comma before them. */
void bench_feed_print(const struct bench_feed *f);
void bench_feed_json(const struct bench_feed *f, struct buf *b);
