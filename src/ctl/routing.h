/* SPDX-License-Identifier: Apache-2.0
 *
 * Do two ways of computing a model send its tokens to the same experts, and if not, is it
 * a tie?
 *
 * A router's choice is a step: of two experts whose values lie closer than the rounding of
 * a fast path, it may take the other, and what follows differs by far more than rounding.
 * So routers are compared in two halves, each of which has a bound of its own:
 *
 *   values   the logits, as log-probabilities (sigmoid routers: p + bias), beside those
 *            of the exact run: within the tolerances that hold for tokens
 *   choice   what the reference (kernels/ops/moe_router_ref.c) makes of the router's own
 *            logits, experts and weights both: anything else is a fault
 *
 * A choice that differs from the exact run's and is no fault is a tie: by the first half
 * its margin is below what the values are apart. The exact run's experts are put in its
 * place, weighted by the router's own logits, so that what follows stays comparable; no
 * choice that agrees is touched. Thread: one.
 */
#pragma once
#include "engine/engine.h"

struct routing_tie {
	int i_case, i_token, i_layer;
	int32_t left, taken; /* the first expert left out, and one taken in its place */
	double margin;       /* between them, by the exact run */
};


struct routing_values; /* of a layer of the exact run */
struct routing {
	/* Where the next step is, for the list of ties. */
	int i_case, i_token;
	int64_t n_choices;   /* tokens times layers */
	int64_t n_ties, n_faults;
	double max_delta, sum_delta;
	int64_t n_delta;
	double widest;       /* margin of the ties */
	struct routing_tie *ties; /* (n_ties) */
	struct routing_values *exact;            /* (n_layers) */
	int n_layers;
};

void routing_init(struct routing *r, int n_layers);
void routing_deinit(struct routing *r);
/* Both are an engine_watch_fn with a struct routing: of the exact run's engine, and, after
 * it for the same tokens, of the other's. */
bool routing_keep(void *routing, int i_layer, const struct moe_router_args *a);
bool routing_compare(void *routing, int i_layer, const struct moe_router_args *a);

double routing_mean(const struct routing *r);
/* Without the exact run's experts in their place, would a tie reach the logits behind
 * token i_token? One of the last layer reaches those of its own token alone, any other
 * those of all that follow in its case. */
bool routing_is_behind_tie(const struct routing *r, int i_case, int i_token);
/* Values within the bounds, no faults, and ties no more than ROUTING_MAX_SHARE. */
#define ROUTING_MAX_SHARE 0.02
bool routing_is_pass(const struct routing *r, double max_delta, double max_mean);
