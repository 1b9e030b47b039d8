/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation moe_experts: the choice of kernels, and the table in which kernels find
 * an expert's weights. All data of a layer's experts is in struct experts.device: a
 * struct on the host, whose `table` is on the device.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_slots.h"
#include "backend/hip/hip_tune.h"
#include "base/alloc.h"
#include "kernels/moe/moe_tile.def"
#include "kernels/linear/linear_int4.h"
#include "kernels/moe/moe_tile.h"


enum { WAVES = 4 };

static enum status upload_table(struct hip *h, const struct experts *ex,
				struct hip_experts *x)
{
	size_t n = (size_t)ex->n, n_rows = (n + 1) * MOE_PARTS;
	struct weight_view *host = xcalloc(n_rows, sizeof *host);
	for (size_t e = 0; e < n && !x->slots; e++) {
		host[e * MOE_PARTS + MOE_GATE] = hip_view(&ex->gate[e]);
		host[e * MOE_PARTS + MOE_UP] = hip_view(&ex->up[e]);
		host[e * MOE_PARTS + MOE_DOWN] = hip_view(&ex->down[e]);
	}
	if (ex->shared_gate) {
		host[n * MOE_PARTS + MOE_GATE] = hip_view(ex->shared_gate);
		host[n * MOE_PARTS + MOE_UP] = hip_view(ex->shared_up);
		host[n * MOE_PARTS + MOE_DOWN] = hip_view(ex->shared_down);
	}
	void *table = NULL;
	enum status st = hip_arena_take(h, &h->weights, n_rows * sizeof *host, &table);
	if (st == OK)
		st = hip_upload(&h->base, table, host, n_rows * sizeof *host);
	free(host);
	x->table = table;
	x->n_rows = n_rows;
	return st;
}

static const struct moe_int4_axes ups[] = {
#define UP(name, ...) {#name, __VA_ARGS__},
#define DOWN(name, ...)
#include "kernels/moe/moe_int4.def"
#undef UP
#undef DOWN
}, downs[] = {
#define UP(name, ...)
#define DOWN(name, ...) {#name, __VA_ARGS__},
#include "kernels/moe/moe_int4.def"
#undef UP
#undef DOWN
};

static const struct moe_int4_axes *fit(const struct moe_int4_axes *rows, size_t n,
				       const struct weight *w)
{
	for (size_t i = 0; i < n; i++)
		if (w->k % rows[i].chunk == 0 && w->group % rows[i].chunk == 0 &&
		    (rows[i].thrds * rows[i].chunk <= w->k || i + 1 == n))
			return &rows[i];
	return NULL;
}

/* The shape of moe_int4's kernel for w, or NULL. */
static const struct moe_int4_axes *fit_int4(const struct weight *w, bool is_down)
{
	const struct moe_int4_axes *x = is_down ? fit(downs, ARRAY_LEN(downs), w)
						: fit(ups, ARRAY_LEN(ups), w);
	bool has_room = x && LINEAR_INT4_LDS_BYTES(1, w->k, x->thrds, x->chunk) <=
				     LINEAR_INT4_LDS;
	return has_room ? x : NULL;
}

/* --- choice of kernels ------------------------------------------------------------- */

/* True if w has the same format and row layout as `like`, so that one kernel serves both. */
static bool is_like(const struct weight *w, const struct weight *like)
{
	return w->quant == like->quant && w->k == like->k && hip_pitch(w) == hip_pitch(like) &&
	       w->scale_type == like->scale_type && !w->zero_points == !like->zero_points &&
	       w->group == like->group;
}

static bool is_int4(const struct weight *w)
{
	return w->fits & HIP_FITS_INT4 && w->k % 8 == 0 && hip_pitch(w) % 16 == 0;
}

/* The format in the name of the tile kernels for w, or NULL if there are none. */
static const char *tile_format(const struct weight *w)
{
	if (!(w->fits & HIP_FITS_TILE))
		return NULL;
	return w->quant == QUANT_INT4 && w->zero_points ? "int4_zero" : quant_name(w->quant);
}

static struct hip_experts_leg leg_of(const struct weight *like, bool is_down)
{
	struct hip_experts_leg leg = {.like = like, .tile_format = tile_format(like)};
	int32_t table = HIP_UNIT_TABLE_BYTES(like->quant) / 16;
	if (is_int4(like) && fit_int4(like, is_down))
		leg.few = HIP_EXPERTS_INT4;
	else if (like->fits & HIP_FITS_UNITS && MOE_ROWS_UP_LDS(like->k, table) <= MOE_ROWS_LDS)
		leg.few = HIP_EXPERTS_ROWS;
	leg.has_zero = like->zero_points;
	return leg;
}

static struct hip_experts_leg any_leg(const struct weight *like)
{
	return (struct hip_experts_leg){.like = like};
}

/* Like any_leg; is_mixed: one of the weights has another format than `like`. */
static struct hip_experts_leg mixed_leg(const struct weight *like, bool is_mixed)
{
	struct hip_experts_leg leg = any_leg(like);
	leg.is_mixed = is_mixed;
	return leg;
}

static void look_at(struct hip_experts *x, const struct experts *ex)
{
	const struct weight *up = &ex->gate[0], *down = &ex->down[0];
	bool is_up = true, is_down = true, is_mixed = false, is_mixed_down = false;
	for (int32_t e = 0; e < ex->n; e++) {
		is_up &= is_like(&ex->gate[e], up) && is_like(&ex->up[e], up);
		is_down &= is_like(&ex->down[e], down);
		is_mixed |= ex->gate[e].quant != up->quant || ex->up[e].quant != up->quant;
		is_mixed_down |= ex->down[e].quant != down->quant;
	}
	x->routed.up = is_up ? leg_of(up, false) : mixed_leg(up, is_mixed);
	x->routed.down = is_down ? leg_of(down, true) : mixed_leg(down, is_mixed_down);
	if (ex->n + 1 > MOE_ALIGN_MAX_EXPERTS)
		x->routed.up.tile_format = x->routed.down.tile_format = NULL;
	if (!ex->shared_gate)
		return;
	bool is_alike = is_like(ex->shared_up, ex->shared_gate);
	x->shared.up = is_alike ? leg_of(ex->shared_gate, false)
				: mixed_leg(ex->shared_gate,
					    ex->shared_up->quant != ex->shared_gate->quant);
	x->shared.down = leg_of(ex->shared_down, true);
	if (ex->n + 1 > MOE_ALIGN_MAX_EXPERTS)
		x->shared.up.tile_format = NULL;
	x->has_slot = is_up && is_down && is_like(ex->shared_gate, up) && is_alike &&
		      is_like(ex->shared_down, down) && ex->shared_gate->n == up->n;
}

/* True if w's inputs have to be changed first, which kernels of experts do not do. */
static bool changes_inputs(const struct weight *w)
{
	return w->order || w->in_scale;
}

enum status hip_load_experts(struct backend *b, struct experts *out, struct fail *fail)
{
	struct hip *h = hip_of(b);
	struct hip_experts *x = xcalloc(1, sizeof *x);
	x->next = h->experts;
	h->experts = x;
	out->device = x;
	if (b->expert_bytes) {
		enum status planned = hip_slots_layer(h, out, x, fail);
		if (planned != OK)
			return planned;
	}
	if (out->shared_gate && (changes_inputs(out->shared_gate) ||
				 changes_inputs(out->shared_up) ||
				 changes_inputs(out->shared_down)))
		return fail_at(fail, E_UNSUPPORTED, "model", "a shared expert: the HIP backend "
			       "reads no groups of inputs in another order (desc_act, actorder) "
			       "and no factors of inputs (pre_quant_scale) there: set backend to "
			       "cpu");
	look_at(x, out);
	enum status st = upload_table(h, out, x);
	return st == OK ? OK : fail_set(fail, st, "%.100s: experts: %s", h->base.device,
					h->failure);
}

void hip_experts_destroy(struct hip *h)
{
	while (h->experts) {
		struct hip_experts *x = h->experts;
		h->experts = x->next;
		free(x);
	}
}

/* Fill in the launch arguments that describe a leg's weights. */
static void hip_experts_tell(const struct hip_experts_leg *leg, struct moe_launch *l,
			     int32_t *shift)
{
	*shift = hip_group_shift(leg->like);
	l->is_bf16 = leg->like->scale_type == DTYPE_BF16;
}

/* --- few tokens ------------------------------------------------------------------- */

/* Formats of moe_rows_group.hip. */
static bool has_rows_group(enum quant q)
{
	return q == QUANT_INT8 || q == QUANT_FP8 || q == QUANT_NVFP4 || q == QUANT_MXFP4 ||
	       q == QUANT_Q4_K || q == QUANT_Q6_K;
}

/* True if kernels of moe_group.h are of use: two tokens or more may choose the same experts. */
static bool in_groups(const struct hip_experts_leg *leg, const struct moe_launch *l)
{
	bool has_kernel = leg->few == HIP_EXPERTS_INT4 || has_rows_group(leg->like->quant);
	return has_kernel && l->n_tok > 1 && l->n_tok <= MOE_GROUP_TOK &&
	       l->n_slots <= MOE_GROUP_SLOTS;
}

/* Lets up compute several pairs of one expert at once (moe_group.h), with x of each in LDS. False:
 * groups are of no use, or LDS is too small; then *g stays, and up is by pairs. */
static bool group_up(const struct hip_experts_leg *leg, const struct moe_launch *l,
		     struct hip_grid *g)
{
	if (!in_groups(leg, l) || MOE_GROUP * g->lds_bytes > MOE_ROWS_LDS)
		return false;
	g->lds_bytes *= MOE_GROUP;
	return true;
}

/* The same for down, with as many waves as LDS has room for; each needs h of a group. False: *l
 * and *g stay. */
static bool group_down(const struct hip_experts_leg *leg, struct moe_launch *l,
		       struct hip_grid *g)
{
	const struct moe_int4_axes *x = fit_int4(leg->like, true);
	if (!in_groups(leg, l))
		return false;
	int32_t h = MOE_ROWS_UP_LDS(l->ffn, 0), rows = MOE_ROWS_DOWN, waves = MOE_GROUP_WAVES;
	if (leg->few == HIP_EXPERTS_INT4) {
		h = LINEAR_INT4_LDS_BYTES(1, l->ffn, x->thrds, x->chunk);
		rows = MOE_INT4_DOWN_ROWS(x->thrds, x->ytile);
	}
	while (waves > 1 && MOE_GROUP_DOWN_LDS(l->n_slots, rows, h, waves) > MOE_ROWS_LDS)
		waves--;
	int32_t lds = MOE_GROUP_DOWN_LDS(l->n_slots, rows, h, waves);
	if (lds > MOE_ROWS_LDS)
		return false;
	l->n_waves = waves;
	*g = (struct hip_grid){DIV_UP(l->dim, rows), 1, 32 * waves, lds};
	return true;
}

static struct hip_kernel any_of(const struct hip_experts_leg *leg, enum profile_stage stage)
{
	return hip_kernel(KERNEL_PLAIN, stage, "moe_any_%s_%s_kernel",
			  stage == PROFILE_DOWN ? "down" : "up",
			  leg->is_mixed ? "mixed" : quant_name(leg->like->quant));
}

/* The kernel for few tokens. shape: of moe_int4.def, or NULL. */
static struct hip_kernel few_of(const struct hip_experts_leg *leg, enum profile_stage stage,
				bool in_groups, const struct moe_int4_axes *shape)
{
	return hip_kernel(in_groups ? KERNEL_MOE_GROUP : KERNEL_MOE_FEW, stage,
			  "moe_%s_%s%s_%s%s_kernel", shape ? "int4" : "rows",
			  in_groups ? "group_" : "", stage == PROFILE_DOWN ? "down" : "up",
			  shape ? shape->name : quant_name(leg->like->quant),
			  shape && leg->has_zero ? "_zero" : "");
}

static enum status launch_up(struct hip *h, const struct hip_experts_leg *leg,
			     struct moe_launch l)
{
	const struct moe_int4_axes *x = NULL;
	int32_t n_pairs = l.n_tok * l.n_slots;
	struct hip_grid g = {DIV_UP(l.ffn, WAVES), n_pairs, 32 * WAVES, 0};
	hip_experts_tell(leg, &l, &l.up_shift);
	if (leg->few == HIP_EXPERTS_ANY)
		return LAUNCH(h, any_of(leg, PROFILE_GATE_UP), g, ARG(l));
	if (leg->few == HIP_EXPERTS_INT4) {
		x = fit_int4(leg->like, false);
		g.x = DIV_UP(l.ffn, LINEAR_INT4_ROWS(x->thrds, x->ytile, x->waves) / 2);
		g.n_threads = 32 * x->waves;
		g.lds_bytes = LINEAR_INT4_LDS_BYTES(1, l.dim, x->thrds, x->chunk);
	} else {
		g.x = DIV_UP(l.ffn, MOE_ROWS_UP);
		g.n_threads = 32 * MOE_ROWS_WAVES;
		g.lds_bytes = MOE_ROWS_UP_LDS(l.dim, HIP_UNIT_TABLE_BYTES(leg->like->quant) / 16);
	}
	bool in_groups = group_up(leg, &l, &g);
	return LAUNCH(h, few_of(leg, PROFILE_GATE_UP, in_groups, x), g, ARG(l));
}

/* LDS bytes of the down kernel for few tokens. If the device has less, moe_any is used. */
static int32_t down_lds(const struct hip_experts_leg *leg, const struct moe_launch *l)
{
	const struct moe_int4_axes *x = fit_int4(leg->like, true);
	if (leg->few == HIP_EXPERTS_INT4)
		return MOE_INT4_DOWN_LDS(l->n_slots, l->ffn, x->thrds, x->ytile, x->chunk);
	return MOE_ROWS_DOWN_LDS(l->n_slots, l->ffn,
				 HIP_UNIT_TABLE_BYTES(leg->like->quant) / 16);
}

static enum status launch_down(struct hip *h, const struct hip_experts_leg *leg,
			       struct moe_launch l)
{
	const struct moe_int4_axes *x = NULL;
	struct hip_grid g = {DIV_UP(l.dim, WAVES), l.n_tok, 32 * WAVES, 0};
	hip_experts_tell(leg, &l, &l.down_shift);
	l.shared_router.q = NULL;
	if (leg->few == HIP_EXPERTS_ANY)
		return LAUNCH(h, any_of(leg, PROFILE_DOWN), g, ARG(l));
	g = (struct hip_grid){DIV_UP(l.dim, MOE_ROWS_DOWN), l.n_tok, 32 * MOE_ROWS_WAVES,
			      down_lds(leg, &l)};
	if (leg->few == HIP_EXPERTS_INT4) {
		x = fit_int4(leg->like, true);
		g.x = DIV_UP(l.dim, MOE_INT4_DOWN_ROWS(x->thrds, x->ytile));
		g.n_threads = 32 * x->waves;
	}
	bool in_groups = group_down(leg, &l, &g);
	return LAUNCH(h, few_of(leg, PROFILE_DOWN, in_groups, x), g, ARG(l));
}

void hip_experts_step(struct moe_launch *l)
{
	size_t t = (size_t)l->n_tok, pairs = t * (size_t)l->n_used;
	l->id = l->id ? l->id + pairs : NULL;
	l->weight = l->weight ? l->weight + pairs : NULL;
	l->x += t * (size_t)l->dim;
	l->y += t * (size_t)l->dim;
	l->h += pairs * (size_t)l->ffn;
	if (l->of_pairs) {
		l->gate_bias += pairs * (size_t)l->ffn;
		l->up_bias += pairs * (size_t)l->ffn;
	}
	l->shared_h = l->shared_h ? l->shared_h + t * (size_t)l->ffn : NULL;
	l->shared_scale = l->shared_scale ? l->shared_scale + t : NULL;
}

static enum status shared_scale(struct hip *h, const struct moe_experts_args *a)
{
	struct weight_view router = hip_view(a->experts->shared_router);
	struct moe_experts_args v = *a;
	struct hip_grid g = {DIV_UP(v.n_tok, WAVES), 1, 32 * WAVES, 0};
	return LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_GATE_UP, "moe_scale_%s_kernel",
				    quant_name(a->experts->shared_router->quant)), g,
		      ARG(router), ARG(v.x), ARG(v.n_tok), ARG(v.shared_scale));
}

enum status hip_experts_up(struct hip *h, const struct hip_experts_way *way, struct moe_launch l)
{
	return launch_up(h, &way->legs->up, l);
}

enum status hip_experts_down(struct hip *h, const struct hip_experts_way *way,
			     struct moe_launch l)
{
	struct hip_experts_leg leg = way->legs->down;
	if (leg.few != HIP_EXPERTS_ANY && down_lds(&leg, &l) > MOE_ROWS_LDS)
		leg = any_leg(leg.like);
	return launch_down(h, &leg, l);
}

/* Run any number of tokens with the kernels for few tokens, in batches limited by the
 * grid's height. */
static enum status run_few(struct hip *h, const struct hip_experts_way *way,
			   struct moe_launch l)
{
	enum status st = OK;
	int32_t left = l.n_tok, most = HIP_MAX_GRID_Y / l.n_slots;
	for (; left > 0 && st == OK; left -= l.n_tok) {
		l.n_tok = MIN(left, most);
		st = hip_experts_up(h, way, l);
		if (st == OK)
			st = hip_experts_down(h, way, l);
		hip_experts_step(&l);
	}
	return st;
}

/* --- many tokens ------------------------------------------------------------------ */

#define TILE(name, m, n, k, wm, wn, rate, other) {#name, m, n, wm, wn, rate, false},
#define ANY_TILE(name, m, n, k, wm, wn, rate, other) {#name, m, n, wm, wn, rate, true},
#define OTHER(name, m, n, k, wm, wn, rate, other) other,
static const struct tile_shape tiles[] = {MOE_TILES(TILE, ANY_TILE)};
static const int32_t other_rates[] = {MOE_TILES(OTHER, OTHER)}; /* of formats other than int4 */
#undef OTHER
#undef ANY_TILE
#undef TILE

int hip_experts_tile_count(void)
{
	return (int)ARRAY_LEN(tiles);
}

const char *hip_experts_tile_name(int i)
{
	return tiles[i].name;
}

int32_t hip_experts_tile_rows(int i)
{
	return tiles[i].block_m;
}

/* Bytes beside the pairs: an expert's last block may have one pair alone. */
static size_t list_bytes(size_t n)
{
	int32_t most = 0;
	for (size_t i = 0; i < ARRAY_LEN(tiles); i++)
		most = MAX(most, tiles[i].block_m);
	return n * (size_t)(most + 1) * 4 + 1024;
}

/* Bytes of a pair: its output, its place in a block, and its share of a block's expert. */
static size_t pair_bytes(size_t dim)
{
	return dim * 2 + 8;
}

size_t hip_experts_work_bytes(size_t n_tok, size_t n_slots, size_t n, size_t dim)
{
	return n_tok * n_slots * pair_bytes(dim) + list_bytes(n);
}

/* What `rows` pairs of an expert cost in tiles of shape i. moe_tile.def tells why. */
static double tile_cost(size_t i, double rows, bool is_other)
{
	return (rows + 0.65 * tiles[i].block_m) / (is_other ? other_rates[i] : tiles[i].rate);
}

/* Choose the tile for the pairs of n experts. must_any: only tiles that are compiled for
 * every format. */
static const struct tile_shape *choose_tile(const struct hip *h, const struct moe_launch *m,
					    int32_t n, bool must_any)
{
	if (h->moe_tile >= 0 && tiles[h->moe_tile].is_any >= must_any)
		return &tiles[h->moe_tile];
	int tuned = hip_tune_find(
		h, (struct hip_tune_key){HIP_TUNE_MOE_TILE, m->ffn, m->dim, m->n_tok});
	if (tuned >= 0 && tiles[tuned].is_any >= must_any)
		return &tiles[tuned];
	const struct tile_shape *best = NULL;
	double least = 0, rows = (double)m->n_tok * m->n_slots / n;
	for (size_t i = 0; i < ARRAY_LEN(tiles); i++) {
		if (tiles[i].is_any < must_any)
			continue;
		double cost = tile_cost(i, rows, must_any);
		if (!best || cost < least) {
			best = &tiles[i];
			least = cost;
		}
	}
	return best;
}

enum status hip_experts_blocks(struct hip *h, const struct hip_experts_tiles *t)
{
	const struct tile_shape *s = t->shape;
	struct hip_grid g = {0, 1, 32 * s->waves_m * s->waves_n, 0};
	struct moe_tile_launch l = t->l;
	bool adds = t->a->lora && l.m.id;
	enum status st = adds ? hip_lora_tiles_up(h, t, &l.m) : OK;
	for (int is_down = 0; is_down < 2 && st == OK; is_down++) {
		const struct hip_experts_leg *leg = is_down ? &t->legs->down : &t->legs->up;
		hip_experts_tell(leg, &l.m, is_down ? &l.m.down_shift : &l.m.up_shift);
		l.n_blocks = DIV_UP(is_down ? l.m.dim : 2 * l.m.ffn, s->block_n);
		g.x = l.max_blocks * l.n_blocks;
		st = LAUNCH(h, hip_kernel(KERNEL_MOE_TILE,
					  is_down ? PROFILE_DOWN : PROFILE_GATE_UP,
					  "moe_tile_%s_%s_%s_kernel", is_down ? "down" : "up",
					  s->name, leg->tile_format), g, ARG(l));
	}
	return st == OK && adds ? hip_lora_tiles_down(h, t) : st;
}

static enum status align(struct hip *h, const struct hip_experts_tiles *t)
{
	struct moe_tile_launch l = t->l;
	struct hip_grid one = {1, 1, MOE_ALIGN_THREADS, MOE_ALIGN_LDS(l.n_experts)};
	enum status st = LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_GATE_UP, "moe_align_kernel"),
				one, ARG(l));
	return st == OK ? hip_experts_blocks(h, t) : st;
}

static enum status combine(struct hip *h, struct moe_tile_launch l)
{
	return LAUNCH(h, hip_kernel(KERNEL_PLAIN, PROFILE_DOWN, "moe_combine_kernel"),
		      ((struct hip_grid){DIV_UP(l.m.dim, MOE_COMBINE_THREADS * MOE_COMBINE_EACH),
				    l.m.n_tok,
					 MOE_COMBINE_THREADS, 0}), ARG(l));
}

/* Runs the tokens in batches for which the work memory suffices. */
enum status hip_experts_batches(struct hip *h, const struct moe_experts_args *a,
				const struct hip_experts_legs *x, struct moe_launch m,
				hip_experts_batch_fn run, void *ctx)
{
	struct hip_experts_tiles t = {.a = a, .legs = x};
	struct moe_tile_launch *l = &t.l;
	l->n_experts = m.shared + (m.n_slots > m.n_used);
	bool must_any = x->up.like->quant != QUANT_INT4 || x->down.like->quant != QUANT_INT4;
	size_t most = (h->work_bytes - list_bytes((size_t)l->n_experts)) / (size_t)m.n_slots /
		      pair_bytes((size_t)m.dim);
	enum status st = OK;
	int32_t left = m.n_tok;
	for (; left > 0 && st == OK; left -= m.n_tok) {
		m.n_tok = MIN(left, (int32_t)MIN(most, (size_t)HIP_MAX_GRID_Y));
		int32_t n_pairs = m.n_tok * m.n_slots;
		/* Without routed experts, the shared expert has all pairs. */
		t.shape = choose_tile(h, &m, m.n_used ? l->n_experts : 1, must_any);
		l->m = m;
		l->block_m = t.shape->block_m;
		l->max_blocks = MOE_TILE_BLOCKS(n_pairs, l->n_experts, l->block_m);
		l->out = h->work;
		l->pairs = (int32_t *)(l->out + (size_t)n_pairs * (size_t)m.dim); /* D is even */
		l->block_expert = l->pairs + (size_t)l->max_blocks * (size_t)l->block_m;
		st = run ? run(ctx, &t) : align(h, &t);
		if (st == OK)
			st = combine(h, *l);
		hip_experts_step(&m);
	}
	return st;
}

/* --- the operation ---------------------------------------------------------------- */

static bool takes_tiles(const struct hip *h, const struct moe_experts_args *a,
			const struct hip_experts_legs *x)
{
	return a->n_tok >= h->moe_tile_from && x->up.tile_format && x->down.tile_format;
}

/* How the routed or the shared part of the experts runs. The shared expert's weight is
 * computed here, or l says that up computes it. */
static enum status choose_way(struct hip *h, const struct moe_experts_args *a,
			      const struct hip_experts_legs *x, struct moe_launch *l,
			      struct hip_experts_way *out)
{
	const struct weight *router = a->experts->shared_router;
	bool is_tile = takes_tiles(h, a, x);
	*out = (struct hip_experts_way){x, is_tile};
	if (!l->shared_scale || l->n_slots == l->n_used)
		return OK;
	/* moe_any_up and moe_tile_up do not compute the shared expert's weight. */
	if (router && (is_tile || x->up.few == HIP_EXPERTS_ANY || router->quant > QUANT_BF16 ||
		       router->k % 8 != 0))
		return shared_scale(h, a);
	if (router)
		l->shared_router = hip_view(router);
	return OK;
}

/* Run the routed or the shared part of the experts, for the tokens of l. */
static enum status run_experts(struct hip *h, const struct moe_experts_args *a,
			       const struct hip_experts_legs *x, struct moe_launch l)
{
	struct hip_experts_way way;
	enum status st = choose_way(h, a, x, &l, &way);
	if (st != OK)
		return st;
	return way.is_tile ? hip_experts_batches(h, a, x, l, NULL, NULL) : run_few(h, &way, l);
}

enum status hip_moe_experts(struct backend *b, const struct moe_experts_args *a)
{
	struct hip *h = hip_of(b);
	const struct experts *ex = a->experts;
	const struct hip_experts *x = ex->device;
	static const enum moe_act fused[] = {[ACT_SILU] = MOE_SILU, [ACT_GELU_TANH] = MOE_GELU,
					     [ACT_CLAMPED] = MOE_CLAMPED,
					     [ACT_RELU] = MOE_RELU,
					     [ACT_CLIPPED] = MOE_CLIPPED};
	struct moe_launch l = {
		.table = x->table, .id = a->id, .weight = a->weight,
		.gate_bias = ex->gate_bias, .up_bias = ex->up_bias,
		.down_bias = ex->down_bias, .x = a->x, .h = a->h, .y = a->y,
		.n_tok = a->n_tok, .n_used = a->n_used,
		.n_slots = a->n_used + x->has_slot,
		.dim = ex->gate[0].k, .ffn = ex->gate[0].n, .shared = ex->n,
		.act = fused[ex->act.kind],
		.alpha = ex->act.alpha, .limit = ex->act.limit,
		.gate_limit = ex->act.kind == ACT_CLAMPED ? ex->act.limit : ex->act.gate_limit,
		.shared_h = a->shared_h,
		.shared_scale = ex->shared_router ? a->shared_scale : NULL};
	bool is_in_slots = hip_slots_of(x) && a->n_tok > 0;
	/* The host cannot see which experts the device chose: count the most that are possible. */
	if (b->profile)
		backend_count_experts(b, ex, (int32_t)MIN((int64_t)ex->n, (int64_t)a->n_tok *
								       a->n_used));
	enum status st = a->router ? hip_moe_router(b, a->router) : OK;
	struct hip_experts_way way;
	bool adds = a->lora && a->n_tok && !takes_tiles(h, a, &x->routed);
	if (st == OK && adds)
		st = hip_lora_up(h, a, &l);
	if (st == OK && is_in_slots)
		st = choose_way(h, a, &x->routed, &l, &way);
	if (st == OK)
		st = is_in_slots ? hip_slots_run(h, a, &way, l) : run_experts(h, a, &x->routed, l);
	if (st == OK && adds)
		st = hip_lora_down(h, a);
	if (st != OK || !ex->shared_gate || x->has_slot)
		return st;
	profile_enter(b->profile, PROFILE_SHARED);
	l.id = NULL;
	l.n_used = 0;
	l.n_slots = 1;
	l.ffn = ex->shared_gate->n;
	return run_experts(h, a, &x->shared, l);
}
