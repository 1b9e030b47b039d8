/* SPDX-License-Identifier: Apache-2.0
 *
 * Time of steps that verify drafts, by the number of tokens: `haloctl bench model --widths`.
 * Thread: main.
 */
#pragma once
#include "ctl/session.h"

enum { BENCH_WIDTHS = 32 };

struct bench_widths {
	int n;
	int64_t width[BENCH_WIDTHS]; /* tokens of a step of one sequence, at least 1 */
	double ms[BENCH_WIDTHS];     /* least time of such a step; NAN: the backend cannot make
				      * such steps */
};

/* Fills ms with `rounds` steps of each width in turn, after the tokens ids (depth) are in the
 * KV cache. False: the reason was printed on stderr. */
bool bench_widths_run(struct session *s, const int32_t *ids, int depth, int rounds,
		      struct bench_widths *w);
void bench_widths_print(const struct bench_widths *w);
/* Appends the JSON value of the key "widths": milliseconds by width, null for widths that
 * cannot be measured. */
void bench_widths_json(const struct bench_widths *w, struct buf *out);
