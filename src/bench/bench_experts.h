/* SPDX-License-Identifier: Apache-2.0
 *
 * What reading experts from their store costs during a measurement, from the program's metrics.
 * Thread: one.
 */
#pragma once
#include "base/buf.h"

struct bench_experts {
	/* After begin: the counters at that time. After end: how much they grew. */
	double hits, misses, bytes, wait_s, ahead, ahead_used;
	double wake_s;  /* median of the last waits' wake-up times; 0: not enough waits */
	double n_tok;   /* tokens measured; 0: the model has no expert store */
};

/* Call begin, measure n_tok tokens, and call end. */
void bench_experts_begin(struct bench_experts *x);
void bench_experts_end(struct bench_experts *x, double n_tok);
/* Print a line, and append a field of a JSON object with a comma before it; nothing if n_tok is
 * 0. */
void bench_experts_print(const struct bench_experts *x);
void bench_experts_json(const struct bench_experts *x, struct buf *b);
