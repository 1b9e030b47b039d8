/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/logits_top.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct entry {
	float x;
	int32_t id;
};

static bool is_before(struct entry a, struct entry b)
{
	return a.x > b.x || (a.x == b.x && a.id < b.id);
}

/* Puts e among the n best so far, in order. Returns the new number of entries. */
static int32_t insert(struct entry *best, int32_t n, struct entry e)
{
	int32_t at = n, most = LOGITS_TOP_K;
	while (at > 0 && is_before(e, best[at - 1]))
		at--;
	if (at == most)
		return n;
	int32_t n_after = (n < most ? n : most - 1) - at;
	memmove(best + at + 1, best + at, (size_t)n_after * sizeof *best);
	best[at] = e;
	return n < most ? n + 1 : n;
}

static void top_of_row(const float *x, int32_t n, float inv_t, struct logits_top *out)
{
	struct entry best[LOGITS_TOP_K];
	double max = -INFINITY, sum = 0, sum_t = 0;
	for (int32_t i = 0; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (int32_t i = 0; i < n; i++) {
		sum += exp(x[i] - max);
		sum_t += exp((x[i] - max) * inv_t);
	}
	*out = (struct logits_top){.max = (float)max, .sum = (float)sum,
				   .sum_t = (float)sum_t, .n = n};
	if (isnan(sum))
		return;
	out->n = 0;
	for (int32_t i = 0; i < n; i++)
		out->n = insert(best, out->n, (struct entry){x[i] == 0 ? 0 : x[i], i});
	for (int32_t i = 0; i < out->n; i++) {
		out->logit[i] = best[i].x;
		out->id[i] = best[i].id;
	}
}

void logits_top_ref(const struct logits_top_args *a)
{
	for (int32_t r = 0; r < a->n_rows; r++)
		top_of_row(a->logits + (size_t)r * (size_t)a->n_vocab, a->n_vocab,
			   a->inv_t[r], &a->out[r]);
}
