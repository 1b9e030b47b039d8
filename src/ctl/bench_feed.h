/* SPDX-License-Identifier: Apache-2.0
 *
 * Decode speed on given tokens, so that two programs can be given the same ones. Each line
 * is a sequence of its own, fed one token a step. The first line warms up.
 * Thread: one.
 */
#pragma once
#include "base/buf.h"
#include "ctl/bench_experts.h"
#include "ctl/session.h"
#include "tokenizer/tokenizer.h"

struct bench_feed {
	struct ids *lines; /* (n_lines) */
	int n_lines, longest;
	double n_tok, seconds;        /* of all lines but the first */
	struct bench_experts experts; /* the same */
};

/* Reads lines of ids from a file. Says on stderr what is wrong and returns false: at least
 * two lines are needed. */
bool bench_feed_read(const char *path, struct bench_feed *out);
void bench_feed_deinit(struct bench_feed *f);
/* Says on stderr what is wrong and returns false. */
bool bench_feed_run(struct session *s, struct bench_feed *f);
/* Lines, and fields of an object with a comma before them. */
void bench_feed_print(const struct bench_feed *f);
void bench_feed_json(const struct bench_feed *f, struct buf *b);
