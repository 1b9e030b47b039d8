/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/routing.h"

#include "tests/tap.h"

enum { T = 50, E = 8, U = 2 };

/* A router's numbers, as the engine shows them. */
struct router {
	struct weight w;
	float logits[T * E], weight[T * U], bias[E];
	int32_t id[T * U];
	struct moe_router_args a;
};

static void router_init(struct router *r, bool is_sigmoid)
{
	*r = (struct router){.w = {.n = E, .k = 16}};
	r->a = (struct moe_router_args){.n_tok = T, .n_used = U, .norm_topk = true,
		.router = &r->w, .logits = r->logits, .id = r->id, .weight = r->weight,
		.is_sigmoid = is_sigmoid, .n_groups = 2, .n_groups_used = 1, .scale = 2,
		.bias = r->bias};
	for (int i = 0; i < T * E; i++)
		r->logits[i] = (float)(i * 37 % 101) / 25 - 2;
	for (int e = 0; e < E; e++)
		r->bias[e] = 0.1f * (float)(e % 3);
	moe_router_ref_choose(&r->a);
	moe_router_ref_weigh(&r->a);
}

static void copy(struct router *to, const struct router *from)
{
	*to = *from;
	to->a.router = &to->w;
	to->a.logits = to->logits;
	to->a.id = to->id;
	to->a.weight = to->weight;
	to->a.bias = to->bias;
}

/* `other` beside `exact` in layer 1 of 3; returns whether experts were put in. */
static bool compare(struct routing *r, const struct router *exact, struct router *other)
{
	routing_init(r, 3);
	r->i_case = 7;
	r->i_token = 100;
	ok(!routing_keep(r, 1, &exact->a), "the exact run stays as it is");
	return routing_compare(r, 1, &other->a);
}

static void test_same(bool is_sigmoid)
{
	struct routing r;
	struct router exact, other;
	router_init(&exact, is_sigmoid);
	copy(&other, &exact);
	ok(!compare(&r, &exact, &other), "sigmoid %d: nothing to put in", is_sigmoid);
	ok(r.n_choices == T && !r.n_ties && !r.n_faults && r.max_delta == 0 &&
	   routing_is_pass(&r, 0, 0), "the same passes");
	routing_deinit(&r);
	/* Logits of another place, and the choice by them: as a whole it would do. */
	for (int i = 0; i < T * E; i++)
		other.logits[i] += i % E == 3 ? 0.9f : 0;
	moe_router_ref_choose(&other.a);
	moe_router_ref_weigh(&other.a);
	compare(&r, &exact, &other);
	ok(r.n_faults == 0 && r.max_delta > 0.15 && !routing_is_pass(&r, 0.15, 0.02),
	   "wrong logits fail, whatever is chosen by them");
	routing_deinit(&r);
	copy(&other, &exact);
	other.logits[5] = NAN;
	compare(&r, &exact, &other);
	ok(!routing_is_pass(&r, 1e9, 1e9), "so does NaN");
	routing_deinit(&r);
	routing_init(&r, 3);
	ok(!routing_is_pass(&r, 1, 1), "so does nothing at all");
	routing_deinit(&r);
}

/* Token t finds the best it left out as good as the worst it took, but for `gap`. */
static void make_tie(struct router *r, int t, float gap)
{
	float *logit = r->logits + t * E;
	const int32_t *id = r->id + t * U;
	int32_t next = -1;
	for (int32_t e = 0; e < E; e++)
		if (e != id[0] && e != id[1] && (next < 0 || logit[e] > logit[next]))
			next = e;
	logit[next] = logit[id[1]] - gap;
}

static void test_tie(void)
{
	struct routing r;
	struct router exact, other;
	router_init(&exact, false);
	make_tie(&exact, 3, 0.001f);
	moe_router_ref_weigh(&exact.a);
	copy(&other, &exact);
	make_tie(&other, 3, -0.001f);
	moe_router_ref_choose(&other.a);
	moe_router_ref_weigh(&other.a);
	int32_t left = exact.id[3 * U + 1], taken = other.id[3 * U + 0] == exact.id[3 * U]
							    ? other.id[3 * U + 1]
							    : other.id[3 * U];
	ok(left != taken, "another expert");
	ok(compare(&r, &exact, &other), "the exact run's is put in");
	ok(memcmp(exact.id, other.id, sizeof exact.id) == 0, "in its place");
	ok(fabsf(other.weight[3 * U] + other.weight[3 * U + 1] - 1) < 1e-6f &&
	   other.weight[3 * U + 1] < exact.weight[3 * U + 1] + 0.001f,
	   "with a weight by the router's own logits");
	ok(r.n_ties == 1 && r.n_faults == 0 && r.ties[0].i_case == 7 &&
	   r.ties[0].i_token == 103 && r.ties[0].i_layer == 1 && r.ties[0].left == left &&
	   r.ties[0].taken == taken, "it is listed");
	is_near(r.widest, 0.001, 1e-6, "with its margin");
	ok(!routing_is_behind_tie(&r, 7, 102) && routing_is_behind_tie(&r, 7, 103) &&
	   routing_is_behind_tie(&r, 7, 300) && !routing_is_behind_tie(&r, 8, 103),
	   "it reaches its token and what follows, in its case");
	r.ties[0].i_layer = 2;
	ok(!routing_is_behind_tie(&r, 7, 102) && routing_is_behind_tie(&r, 7, 103) &&
	   !routing_is_behind_tie(&r, 7, 104), "in the last layer its token alone");
	ok(routing_is_pass(&r, 0.15, 0.02), "one in 50 is within the share");
	r.n_ties = 2;
	ok(!routing_is_pass(&r, 0.15, 0.02), "two are not");
	routing_deinit(&r);
}

static void test_faults(bool is_sigmoid)
{
	struct routing r;
	struct router exact, other;
	router_init(&exact, is_sigmoid);
	for (int kind = 0; kind < 4; kind++) {
		copy(&other, &exact);
		int32_t *id = other.id + 4 * U;
		if (kind == 0) { /* the worst of all */
			for (int e = 0; e < E; e++)
				if (other.logits[4 * E + e] < other.logits[4 * E + id[1]])
					id[1] = e;
		} else if (kind == 1) {
			id[1] = id[0];
		} else if (kind == 2) {
			id[0] = E;
		} else {
			other.weight[4 * U] *= 1.01f;
		}
		ok(!compare(&r, &exact, &other) && r.n_faults == 1 && r.n_ties == 0 &&
		   !routing_is_pass(&r, 1e9, 1e9),
		   "sigmoid %d: a wrong choice is no tie (kind %d)", is_sigmoid, kind);
		routing_deinit(&r);
	}
}

int main(void)
{
	test_same(false);
	test_same(true);
	test_tie();
	test_faults(false);
	test_faults(true);
	return tap_done();
}
