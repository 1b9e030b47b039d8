/* SPDX-License-Identifier: Apache-2.0
 *
 * moe_experts for int4 experts at few tokens with four lanes a row: moe_quad.hip.
 */
#include <stdio.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_tune.h"
#include "base/alloc.h"
#include "kernels/linear/linear_int4.h"

static const struct moe_quad_axes ups[] = {
#define UP(name, ...) {#name, __VA_ARGS__},
#define DOWN(name, ...)
#include "kernels/moe/moe_quad.def"
#undef UP
#undef DOWN
}, downs[] = {
#define UP(name, ...)
#define DOWN(name, ...) {#name, __VA_ARGS__},
#include "kernels/moe/moe_quad.def"
#undef UP
#undef DOWN
};

int hip_moe_quad_up_count(void)
{
	return (int)ARRAY_LEN(ups);
}

const char *hip_moe_quad_up_name(int i)
{
	return ups[i].name;
}

int hip_moe_quad_down_count(void)
{
	return (int)ARRAY_LEN(downs);
}

const char *hip_moe_quad_down_name(int i)
{
	return downs[i].name;
}

static bool has_whole_turns(const struct moe_quad_axes *x, int32_t k)
{
	return k % (x->split * x->unroll * QUAD_STEP) == 0;
}

/* Choose a row for n outputs and k inputs: the measured one, else the first of `rows`
 * whose turns divide K, else the first. */
static const struct moe_quad_axes *choose(const struct hip *h, enum hip_tune_op op,
					  const struct moe_quad_axes *rows, size_t n_rows,
					  int32_t n, int32_t k)
{
	int measured = hip_tune_find(h, (struct hip_tune_key){op, n, k, 1});
	if (measured >= 0)
		return &rows[measured];
	for (size_t i = 0; i < n_rows; i++)
		if (has_whole_turns(&rows[i], k))
			return &rows[i];
	return rows;
}

static const struct moe_quad_axes *up_of(const struct hip *h, const struct moe_launch *l)
{
	if (h->moe_up >= 0)
		return &ups[h->moe_up];
	return choose(h, HIP_TUNE_MOE_UP, ups, ARRAY_LEN(ups), l->ffn, l->dim);
}

static const struct moe_quad_axes *down_of(const struct hip *h, const struct moe_launch *l)
{
	if (h->moe_down >= 0)
		return &downs[h->moe_down];
	return choose(h, HIP_TUNE_MOE_DOWN, downs, ARRAY_LEN(downs), l->dim, l->ffn);
}

bool hip_moe_quad_is_wanted(const struct hip *h, const struct moe_launch *l)
{
	if (h->prefers_quads)
		return true;
	struct hip_tune_key up = {HIP_TUNE_MOE_UP, l->ffn, l->dim, 1};
	struct hip_tune_key down = {HIP_TUNE_MOE_DOWN, l->dim, l->ffn, 1};
	return hip_tune_find(h, up) >= 0 && hip_tune_find(h, down) >= 0;
}

static int32_t up_lds(const struct moe_quad_axes *x, const struct moe_launch *l)
{
	return MOE_QUAD_UP_LDS(l->dim, x->split, x->waves, l->shared, l->n_used);
}

static int32_t down_lds(const struct moe_quad_axes *x, const struct moe_launch *l)
{
	return MOE_QUAD_DOWN_LDS(l->n_slots, l->ffn, x->split);
}

static bool has_groups(const struct weight *w)
{
	return w->k % QUAD_STEP == 0 && w->group % 32 == 0;
}

bool hip_moe_quad_takes(const struct hip *h, const struct moe_experts_args *a,
			const struct moe_launch *l)
{
	const struct experts *ex = a->experts;
	return has_groups(&ex->gate[0]) && has_groups(&ex->down[0]) &&
	       up_lds(up_of(h, l), l) <= LINEAR_INT4_LDS &&
	       down_lds(down_of(h, l), l) <= LINEAR_INT4_LDS;
}

static enum status launch(struct hip *h, const struct moe_quad_axes *x, const char *op,
			  const struct weight *w, struct hip_grid g, struct moe_launch *l)
{
	bool is_plain = w->group == 32 && has_whole_turns(x, w->k);
	const char *kind = w->zero_points ? "_zero" : is_plain ? "" : "_any";
	char name[80];
	snprintf(name, sizeof name, "moe_quad_%s_%s%s_kernel", op, x->name, kind);
	return LAUNCH(h, name, g, ARG(*l));
}

/* Workgroups for the `blocks` blocks of rows of each of n pairs or tokens. Where not all blocks
 * run at once, as many workgroups as do take several blocks each, and read ahead. Not all
 * shapes can. */
static int32_t groups_of(const struct hip *h, const struct moe_quad_axes *x, int32_t n,
			 int32_t blocks)
{
	if (!x->goes_on)
		return blocks;
	int32_t most = h->checks.few_groups ? DIV_UP(blocks, 3) : blocks;
	return MAX(1, MIN(most, h->device.n_cu * x->room / MAX(1, n)));
}

enum status hip_moe_quad_up(struct hip *h, const struct moe_experts_args *a,
			    struct moe_launch l)
{
	const struct moe_quad_axes *up = up_of(h, &l);
	int32_t blocks = DIV_UP(l.ffn, up->waves * QUAD_ROWS / 2), n = l.n_tok * l.n_slots;
	l.up_step = l.sums ? blocks : groups_of(h, up, n, blocks);
	struct hip_grid g = {MOE_UP_FIRST(l) + l.up_step, n, 32 * up->split * up->waves,
			     up_lds(up, &l)};
	return launch(h, up, l.sums ? "routed_up" : "up", &a->experts->gate[0], g, &l);
}

enum status hip_moe_quad_down(struct hip *h, const struct moe_experts_args *a,
			      struct moe_launch l)
{
	const struct moe_quad_axes *down = down_of(h, &l);
	l.down_step = groups_of(h, down, l.n_tok, DIV_UP(l.dim, QUAD_ROWS));
	struct hip_grid g = {l.down_step, l.n_tok, 32 * down->waves, down_lds(down, &l)};
	l.shared_router.q = NULL;
	l.logits = NULL;
	return launch(h, down, "down", &a->experts->down[0], g, &l);
}

bool hip_moe_quad_chooses(const struct hip *h, const struct moe_router_args *a,
			  const struct experts *ex)
{
	const struct hip_experts *x = ex ? ex->device : NULL;
	if (!x || !h->prefers_quads || x->slots || a->is_root || a->fixed)
		return false;
	const struct moe_launch l = {.dim = ex->gate[0].k, .ffn = ex->gate[0].n};
	/* Workgroups of down clear the sums; a third of them at least is there (few_groups). */
	bool can_clear = ex->n <= l.dim / (3 * QUAD_ROWS) * 32 * MOE_QUAD_DOWN_WAVES;
	return can_clear && up_of(h, &l)->goes_on && x->routed.up.few == HIP_EXPERTS_INT4 &&
	       x->routed.down.few == HIP_EXPERTS_INT4;
}

enum status hip_moe_quad(struct hip *h, const struct moe_experts_args *a,
			 struct moe_launch l)
{
	const struct moe_router_args *router = a->router;
	/* The experts' kernels lack these options (moe_pick.h), so moe_router chooses. */
	bool is_apart = router && (router->is_root || router->fixed);
	bool has_sums = router && !is_apart && h->routed == router->router && h->leaves_sums &&
			l.n_tok == 1;
	enum status st = is_apart ? hip_moe_router(&h->base, router)
			 : router && !has_sums ? hip_moe_logits(h, router, true) : OK;
	if (st != OK)
		return st;
	if (has_sums) {
		h->routed = NULL;
		l.sums = h->router_sums;
		l.norm = hip_fused_norm(router->norm);
	}
	if (router && !is_apart) {
		l.logits = router->logits;
		l.rule = hip_moe_rule(router);
	}
	st = hip_moe_quad_up(h, a, l);
	return st == OK ? hip_moe_quad_down(h, a, l) : st;
}
