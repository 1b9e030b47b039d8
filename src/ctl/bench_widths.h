/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step costs that verifies guesses, by its tokens: `haloctl bench model --widths`.
 * Thread: main.
 */
#pragma once
#include "ctl/session.h"

enum { BENCH_WIDTHS = 32 };

struct bench_widths {
	int n;
	int64_t width[BENCH_WIDTHS]; /* tokens of a step, of one sequence, at least 1 */
	double ms[BENCH_WIDTHS];     /* of such a step, the least; NAN: no such steps here */
};

/* Fills ms: `rounds` steps of each width in turn, behind the tokens ids (depth). Says on
 * stderr what is wrong and returns false. */
bool bench_widths_run(struct session *s, const int32_t *ids, int depth, int rounds,
		      struct bench_widths *w);
void bench_widths_print(const struct bench_widths *w);
/* Appends the value of the key "widths": milliseconds by width, null where there are none. */
void bench_widths_json(const struct bench_widths *w, struct buf *out);
