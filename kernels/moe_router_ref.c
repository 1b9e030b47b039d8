/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/moe_router.h"

#include <assert.h>
#include <math.h>

#include "kernels/linear.h"

static void one_token(const struct moe_router_args *a, const float *logit,
		      int32_t *id, float *weight)
{
	int32_t n = a->router->n;
	bool taken[MOE_ROUTER_MAX_EXPERTS] = {false};
	double all = 0, chosen = 0;
	for (int32_t u = 0; u < a->n_used; u++) {
		int32_t best = -1;
		for (int32_t e = 0; e < n; e++)
			if (!taken[e] && (best < 0 || logit[e] > logit[best]))
				best = e;
		taken[best] = true;
		id[u] = best;
		chosen += exp((double)logit[best] - logit[id[0]]);
	}
	for (int32_t e = 0; e < n; e++)
		all += exp((double)logit[e] - logit[id[0]]);
	for (int32_t u = 0; u < a->n_used; u++)
		weight[u] = (float)(exp((double)logit[id[u]] - logit[id[0]]) /
				    (a->norm_topk ? chosen : all));
}

void moe_router_ref(const struct moe_router_args *a)
{
	assert(a->router->n <= MOE_ROUTER_MAX_EXPERTS && a->n_used <= a->router->n);
	linear_ref(&(struct linear_args){
		.n_tok = a->n_tok, .x = a->x, .n_out = 1,
		.out = {{.w = a->router, .y = a->logits, .is_f32 = true}}});
	for (int32_t t = 0; t < a->n_tok; t++)
		one_token(a, a->logits + (size_t)t * (size_t)a->router->n,
			  a->id + (size_t)t * (size_t)a->n_used,
			  a->weight + (size_t)t * (size_t)a->n_used);
}
