/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts a weight to int8 with one scale a row: w = (byte - 128) * scale, where scale
 * is the row's largest magnitude / 127. This halves the bytes of a bf16 output head. In a
 * small mixture of experts, that head is a quarter of the bytes read per decoded token.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "model/formats/weight_int8.h"

struct int8_job {
	const struct weight *w;
	uint8_t *q;
	float *scales;
};

static void rows(void *arg, int begin, int end)
{
	const struct int8_job *j = arg;
	int32_t k = j->w->k;
	float *row = xmalloc((size_t)k * sizeof *row);
	for (int n = begin; n < end; n++) {
		uint8_t *q = j->q + (size_t)n * (size_t)k;
		float most = 0;
		weight_decode_part(j->w, n, 0, k, row);
		for (int32_t i = 0; i < k; i++)
			most = fabsf(row[i]) > most ? fabsf(row[i]) : most;
		float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
		for (int32_t i = 0; i < k; i++)
			q[i] = (uint8_t)(lrintf(row[i] * inverse) + 128);
		j->scales[n] = scale;
	}
	free(row);
}

enum status weight_to_int8(const struct weight *w, struct weight *out, void **memory)
{
	/* round up to whole 32-bit words, because readers load words */
	size_t n_q = ((size_t)w->n * (size_t)w->k + 3) / 4 * 4;
	size_t n_scales = (size_t)w->n * sizeof(float);
	/* scales first, so that they are aligned */
	char *p = malloc(n_scales + n_q);
	if (!p)
		return E_NOMEM;
	struct int8_job job = {w, (uint8_t *)p + n_scales, (float *)(void *)p};
	struct pool *pool = pool_create(0);
	pool_for(pool, w->n, 64, rows, &job);
	pool_destroy(pool);
	*out = (struct weight){.quant = QUANT_INT8, .n = w->n, .k = w->k, .group = w->k,
			       .q = job.q, .scales = job.scales,
			       .scale_type = DTYPE_F32, .name = w->name};
	*memory = p;
	return OK;
}
