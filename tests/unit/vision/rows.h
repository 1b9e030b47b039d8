/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts with images or sounds through an engine, for the tests of towers.
 */
#pragma once
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/tap.h"

enum { ROWS_VOCAB = 512 };

/* Logits of every token that is not found in the cache, (n - *out_cached, V), in steps of `each`
 * tokens, or of an image's. */
__attribute__((unused)) static float *rows_run(struct engine *e, const struct engine_prompt *p,
					       int each, int *out_cached)
{
	struct fail fail = {0};
	struct engine_seq *s = engine_seq_create_in(e, p, out_cached);
	float *logits = xcalloc((size_t)(p->n - *out_cached) * ROWS_VOCAB, sizeof *logits);
	enum status st = engine_seq_reserve(e, s, p->n - *out_cached);
	for (int at = *out_cached, n; at < p->n && st == OK; at += n) {
		n = engine_seq_whole(e, s, MIN(each, p->n - at), p->n - at);
		const struct engine_slice slice = {.seq = s, .tokens = p->tokens + at, .n = n,
						   .n_logits = n};
		st = engine_step(e, &slice, 1, &fail);
		const float *rows = st == OK ? engine_logits(e, 0) : NULL;
		if (rows)
			memcpy(logits + (size_t)(at - *out_cached) * ROWS_VOCAB, rows,
			       (size_t)n * ROWS_VOCAB * sizeof *rows);
	}
	if (st != OK)
		ok(false, "a prompt runs: %s", fail.text);
	engine_seq_destroy(e, s);
	return logits;
}

/* Of token id in row i of the logits. */
__attribute__((unused)) static double rows_logprob(const float *logits, int i, int32_t id)
{
	const float *row = logits + (size_t)i * ROWS_VOCAB;
	double sum = 0, most = row[0];
	for (int k = 1; k < ROWS_VOCAB; k++)
		most = fmax(most, (double)row[k]);
	for (int k = 0; k < ROWS_VOCAB; k++)
		sum += exp((double)row[k] - most);
	return (double)row[id] - most - log(sum);
}
