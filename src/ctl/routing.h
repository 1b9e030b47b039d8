/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that two ways of computing a model send its tokens to the same experts, and whether
 * differences are ties.
 *
 * A router's choice jumps. If two experts' logits are closer than a fast path's
 * rounding, the fast path may take the other expert, and all that follows differs by
 * far more than rounding. So a router is checked in two halves with a bound each:
 *
 *   values   its logits, as log-probabilities (sigmoid routers: p + bias), against
 *            those of the exact run, within the tolerances of tokens
 *   choice   its experts and weights against what the reference
 *            (kernels/ops/moe_router_ref.c) makes of the same logits; a difference is a
 *            fault
 *
 * A choice that differs from the exact run's without a fault is a tie: the first half
 * bounds its margin. The tie then takes the exact run's experts, weighted by the
 * router's own logits, so that what follows stays comparable. All other choices stay.
 * Thread: one.
 */
#pragma once
#include "engine/engine.h"

struct routing_tie {
	int i_case, i_token, i_layer;
	int32_t left, taken; /* the best expert that was left out, and one that was taken
			      * instead */
	double margin;       /* difference of their values in the exact run */
};


struct routing_values; /* values of one layer in the exact run */
struct routing {
	/* Position of the next step, for the list of ties. */
	int i_case, i_token;
	int64_t n_choices;   /* tokens times layers */
	int64_t n_ties, n_faults;
	double max_delta, sum_delta;
	int64_t n_delta;
	double widest;       /* largest margin of the ties */
	struct routing_tie *ties; /* (n_ties) */
	struct routing_values *exact;            /* (n_layers) */
	int n_layers;
};

void routing_init(struct routing *r, int n_layers);
void routing_deinit(struct routing *r);
/* Two functions of type engine_watch_fn, with a struct routing as context. routing_keep is for
 * the exact run's engine. routing_compare is for the other engine, which runs the same tokens
 * after it. */
bool routing_keep(void *routing, int i_layer, const struct moe_router_args *a);
bool routing_compare(void *routing, int i_layer, const struct moe_router_args *a);

double routing_mean(const struct routing *r);
/* True if a tie could affect the logits after token i_token, had it not taken the exact run's
 * experts. A tie in the last layer affects only its own token's logits. A tie in another layer
 * affects all later logits of its case too. */
bool routing_is_behind_tie(const struct routing *r, int i_case, int i_token);
/* True if values are within the bounds, there are no faults, and ties are at most
 * ROUTING_MAX_SHARE of the choices. */
#define ROUTING_MAX_SHARE 0.02
bool routing_is_pass(const struct routing *r, double max_delta, double max_mean);
