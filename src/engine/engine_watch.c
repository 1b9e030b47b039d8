/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "engine/graph_calls.h"

static enum status engine_watch_fetch(struct graph *g, const struct moe_router_args *a,
				      struct moe_router_args *host, struct fail *fail)
{
	const struct backend_ops *ops = g->b->ops;
	size_t t = (size_t)a->n_tok, e = (size_t)a->router->n, u = (size_t)a->n_used;
	enum status st =
		ops->download(g->b, host->logits, a->logits, t * e * sizeof *a->logits);
	if (st == OK)
		st = ops->download(g->b, host->id, a->id, t * u * sizeof *a->id);
	if (st == OK)
		st = ops->download(g->b, host->weight, a->weight,
				   t * u * sizeof *a->weight);
	if (st == OK && a->bias)
		st = ops->download(g->b, (float *)(uintptr_t)host->bias, a->bias,
				   e * sizeof *a->bias);
	if (st == OK && a->expert_scale)
		st = ops->download(g->b, (float *)(uintptr_t)host->expert_scale,
				   a->expert_scale, e * sizeof *a->expert_scale);
	return st == OK ? ops->sync(g->b, fail) : st;
}

static enum status put_back(struct graph *g, const struct moe_router_args *a,
			    const struct moe_router_args *host, struct fail *fail)
{
	const struct backend_ops *ops = g->b->ops;
	size_t n = (size_t)a->n_tok * (size_t)a->n_used;
	enum status st = ops->upload(g->b, a->id, host->id, n * sizeof *a->id);
	if (st == OK)
		st = ops->upload(g->b, a->weight, host->weight, n * sizeof *a->weight);
	/* The caller is about to free the host's memory. */
	return st == OK ? ops->sync(g->b, fail) : st;
}

enum status graph_watch_router(struct graph *g, int i_layer,
			       const struct moe_router_args *a, struct fail *fail)
{
	size_t t = (size_t)a->n_tok, e = (size_t)a->router->n, u = (size_t)a->n_used;
	float *numbers = calloc(t * e + 2 * e + t * u, sizeof *numbers);
	int32_t *id = calloc(t * u, sizeof *id);
	enum status st = numbers && id ? OK : E_NOMEM;
	struct moe_router_args host = *a;
	host.x = NULL;
	host.logit_bias = NULL;
	host.id = id;
	if (st == OK) {
		host.logits = numbers;
		host.bias = a->bias ? numbers + t * e : NULL;
		host.expert_scale = a->expert_scale ? numbers + t * e + e : NULL;
		host.weight = numbers + t * e + 2 * e;
		st = engine_watch_fetch(g, a, &host, fail);
	}
	if (st == OK && g->watch(g->watch_ctx, i_layer, &host))
		st = put_back(g, a, &host, fail);
	free(numbers);
	free(id);
	return st == OK ? OK : fail_default(fail, st);
}
