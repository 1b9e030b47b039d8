/* SPDX-License-Identifier: Apache-2.0
 *
 * What experts in a file cost while something is measured: from the program's metrics.
 * Thread: one.
 */
#pragma once
#include "base/buf.h"

struct bench_experts {
	/* Between begin and end: the counters at begin. After end: what was added to them. */
	double hits, misses, bytes, wait_s, ahead, ahead_used;
	double wake_s;  /* median, of the last waits; 0: not enough waits */
	double n_tok;   /* tokens of the time between; 0: there are no experts in a file */
};

/* Call begin, measure n_tok tokens, and call end. */
void bench_experts_begin(struct bench_experts *x);
void bench_experts_end(struct bench_experts *x, double n_tok);
/* A line, and a field of an object with a comma before it; nothing where n_tok is 0. */
void bench_experts_print(const struct bench_experts *x);
void bench_experts_json(const struct bench_experts *x, struct buf *b);
