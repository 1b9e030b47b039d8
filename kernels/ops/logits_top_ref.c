/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/logits_top.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

struct entry {
	float x;
	int32_t id;
};

static int by_rank(const void *a, const void *b)
{
	const struct entry *p = a, *q = b;
	if (p->x != q->x)
		return p->x > q->x ? -1 : 1;
	return p->id < q->id ? -1 : 1;
}

static void top_of_row(const float *x, int32_t n, float inv_t, struct entry *sorted,
		       struct logits_top *out)
{
	double max = -INFINITY, sum = 0, sum_t = 0;
	for (int32_t i = 0; i < n; i++) {
		max = x[i] > max ? x[i] : max;
		sorted[i] = (struct entry){x[i] == 0 ? 0 : x[i], i};
	}
	for (int32_t i = 0; i < n; i++) {
		sum += exp(x[i] - max);
		sum_t += exp((x[i] - max) * inv_t);
	}
	*out = (struct logits_top){.max = (float)max, .sum = (float)sum,
				   .sum_t = (float)sum_t, .n = n};
	if (isnan(sum))
		return;
	qsort(sorted, (size_t)n, sizeof *sorted, by_rank);
	out->n = n < LOGITS_TOP_K ? n : LOGITS_TOP_K;
	for (int32_t i = 0; i < out->n; i++) {
		out->logit[i] = sorted[i].x;
		out->id[i] = sorted[i].id;
	}
}

void logits_top_ref(const struct logits_top_args *a)
{
	struct entry *sorted = xmalloc((size_t)a->n_vocab * sizeof *sorted);
	for (int32_t r = 0; r < a->n_rows; r++)
		top_of_row(a->logits + (size_t)r * (size_t)a->n_vocab, a->n_vocab,
			   a->inv_t[r], sorted, &a->out[r]);
	free(sorted);
}
