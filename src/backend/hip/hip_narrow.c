/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores a float32 matrix in 16 bits if that changes none of its numbers. GGUF files have
 * routers and other small matrices in float32, though their converters read bf16. In 16 bits a
 * router needs no launch of its own (moe_route.hip), and all matrices half the bytes.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip.h"
#include "base/alloc.h"
#include "model/formats/blocks.h"

struct narrow {
	const struct weight *from;
	uint16_t *q;
	enum quant to;
	atomic_bool is_exact;
};

/* Convert rows [begin, end), and see whether all numbers stay what they are. */
static void narrow_part(void *arg, int begin, int end)
{
	struct narrow *j = arg;
	enum dtype type = j->to == QUANT_BF16 ? DTYPE_BF16 : DTYPE_F16;
	size_t k = (size_t)j->from->k, last = (size_t)end * k;
	bool is_exact = true;
	for (size_t i = (size_t)begin * k; i < last && is_exact; i++) {
		float x = blocks_float(j->from->q, DTYPE_F32, i), back;
		uint32_t bits;
		memcpy(&bits, &x, sizeof bits);
		j->q[i] = type == DTYPE_BF16 ? (uint16_t)(bits >> 16) : blocks_to_f16(x);
		back = blocks_float(j->q, type, i);
		is_exact = memcmp(&x, &back, sizeof x) == 0;
	}
	if (!is_exact)
		atomic_store(&j->is_exact, false);
}

void *hip_narrow(struct hip *h, const struct weight *w, struct weight *out)
{
	static const enum quant ways[] = {QUANT_BF16, QUANT_F16};
	/* A layer's experts must have one format, so none of them is converted alone. */
	if (w->quant != QUANT_F32 || w->row_step || w->k_step || w->is_expert)
		return NULL;
	if (!h->pool)
		h->pool = pool_create(0);
	struct narrow j = {.from = w, .q = malloc((size_t)w->n * (size_t)w->k * sizeof *j.q)};
	for (size_t i = 0; j.q && i < ARRAY_LEN(ways); i++) {
		j.to = ways[i];
		atomic_store(&j.is_exact, true);
		pool_for(h->pool, w->n, 16, narrow_part, &j);
		if (!atomic_load(&j.is_exact))
			continue;
		*out = *w;
		out->quant = j.to;
		out->q = j.q;
		return j.q;
	}
	free(j.q);
	return NULL;
}
