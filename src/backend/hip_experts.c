/* SPDX-License-Identifier: Apache-2.0
 *
 * moe_experts: which kernels, and the table in which they find an expert's weights.
 *
 * Everything the backend knows of a layer's experts hangs on struct experts.device: a
 * block on the host, whose `table` is on the device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip_experts.h"
#include "base/alloc.h"
#include "kernels/linear_int4.h"
#include "kernels/moe_tile.h"

_Static_assert((int)MOE_SILU == EXPERTS_SILU && (int)MOE_CLAMPED == EXPERTS_CLAMPED,
	       "kernels count them as the contract does");

enum { WAVES = 4 };

enum which { Q, SCALES, ZERO_POINTS };

static const char *address(const struct weight_view *w, enum which which)
{
	return which == Q ? w->q : which == SCALES ? w->scales : (const void *)w->zero_points;
}

/* Are they as far apart as the first two, but for one place? */
static bool find_run(const struct weight_view *first, int32_t n, enum which which,
		     struct moe_run *out)
{
	intptr_t at = (intptr_t)address(first, which);
	intptr_t step = n > 1 ? (intptr_t)address(first + MOE_PARTS, which) - at : 0;
	*out = (struct moe_run){.p = {(const char *)at, (const char *)at},
				.step = (uint64_t)step, .split = n};
	for (int32_t e = 1; e < n; e++) {
		intptr_t is = (intptr_t)address(first + e * MOE_PARTS, which);
		if (is == (intptr_t)out->p[out->split < n] + e * step)
			continue;
		if (out->split < n)
			return false;
		out->split = e;
		out->p[1] = (const char *)(is - e * step);
	}
	return true;
}

static struct moe_span span_of(const struct weight_view *table, int32_t n, int part)
{
	const struct weight_view *first = &table[part];
	struct moe_span s = {.pitch = first->pitch};
	bool is_one = find_run(first, n, Q, &s.q) && find_run(first, n, SCALES, &s.scales) &&
		      find_run(first, n, ZERO_POINTS, &s.zero_points);
	for (int32_t e = 0; e < n; e++)
		is_one &= first[e * MOE_PARTS].pitch == s.pitch;
	return is_one ? s : (struct moe_span){0};
}

static enum status upload_table(struct hip *h, const struct experts *ex,
				struct hip_experts *x)
{
	size_t n = (size_t)ex->n, n_rows = (n + 1) * MOE_PARTS;
	struct weight_view *host = xcalloc(n_rows, sizeof *host);
	for (size_t e = 0; e < n; e++) {
		host[e * MOE_PARTS + MOE_GATE] = hip_view(&ex->gate[e]);
		host[e * MOE_PARTS + MOE_UP] = hip_view(&ex->up[e]);
		host[e * MOE_PARTS + MOE_DOWN] = hip_view(&ex->down[e]);
	}
	if (ex->shared_gate) {
		host[n * MOE_PARTS + MOE_GATE] = hip_view(ex->shared_gate);
		host[n * MOE_PARTS + MOE_UP] = hip_view(ex->shared_up);
		host[n * MOE_PARTS + MOE_DOWN] = hip_view(ex->shared_down);
	}
	for (int part = 0; part < MOE_PARTS; part++)
		x->span[part] = span_of(host, ex->n, part);
	void *table = NULL;
	enum status st = hip_arena_take(h, &h->weights, n_rows * sizeof *host, &table);
	if (st == OK)
		st = hip_upload(&h->base, table, host, n_rows * sizeof *host);
	free(host);
	x->table = table;
	x->n_rows = n_rows;
	return st;
}

/* Of the kind of `like`; int4: with groups that kernels know. */
static bool is_like(const struct weight *w, const struct weight *like)
{
	bool is_power = (w->group & (w->group - 1)) == 0;
	if (w->quant != like->quant || w->k % 8 != 0 || hip_pitch(w) % 16 != 0)
		return false;
	if (w->quant != QUANT_INT4)
		return w->quant == QUANT_F16 || w->quant == QUANT_BF16;
	return w->scale_type == like->scale_type && w->scale_type != DTYPE_F32 &&
	       !w->zero_points == !like->zero_points &&
	       w->group == (like->group == like->k ? w->k : like->group) &&
	       (w->group == w->k || is_power);
}

/* The name of their tiles' format, as gemm_tile wants them; NULL: none. */
static const char *tile_format(const struct experts *ex)
{
	const struct weight *up = &ex->gate[0], *down = &ex->down[0];
	if (ex->n + 1 > MOE_ALIGN_MAX_EXPERTS)
		return NULL;
	if (up->quant != QUANT_INT4)
		return up->quant == QUANT_F16 ? "f16" : "bf16";
	if (up->k % 32 != 0 || down->k % 32 != 0 || up->group % 32 != 0 ||
	    down->group % 32 != 0)
		return NULL;
	return up->group == 32 && up->k != 32 && down->k != 32 ? "int4g32" : "int4";
}

static void look_at(struct hip_experts *x, const struct experts *ex)
{
	const struct weight *like = &ex->gate[0];
	bool is_alike = true;
	for (int32_t e = 0; e < ex->n; e++)
		is_alike &= is_like(&ex->gate[e], like) && is_like(&ex->up[e], like) &&
			    is_like(&ex->down[e], like);
	x->is_int4 = is_alike && like->quant == QUANT_INT4;
	x->has_zero = x->is_int4 && like->zero_points;
	x->tile_format = is_alike ? tile_format(ex) : NULL;
	x->has_slot = is_alike && ex->shared_gate && ex->shared_gate->n == like->n &&
		      is_like(ex->shared_gate, like) && is_like(ex->shared_up, like) &&
		      is_like(ex->shared_down, like);
}

/* What moe_any.hip has, and so every shape. */
static bool has_kernels(const struct weight *w)
{
	return w->quant <= QUANT_INT4;
}

enum status hip_load_experts(struct backend *b, struct experts *out, struct fail *fail)
{
	struct hip *h = hip_of(b);
	struct hip_experts *x = xcalloc(1, sizeof *x);
	x->span = xcalloc(MOE_PARTS, sizeof *x->span);
	x->next = h->experts;
	h->experts = x;
	out->device = x;
	for (int32_t e = 0; e < out->n; e++)
		if (out->gate[e].quant != out->gate[0].quant ||
		    out->up[e].quant != out->gate[0].quant ||
		    out->down[e].quant != out->down[0].quant)
			return fail_at(fail, E_UNSUPPORTED, out->gate[e].name,
				       "%s: the HIP backend wants experts of one format",
				       out->gate[e].name ? out->gate[e].name : "experts");
	const struct weight *shared = out->shared_gate;
	if (!has_kernels(&out->gate[0]) || !has_kernels(&out->down[0]) ||
	    (shared && (!has_kernels(shared) || !has_kernels(out->shared_down))))
		return fail_at(fail, E_UNSUPPORTED, out->gate[0].name,
			       "%s: the HIP backend has no kernels for experts in %s",
			       out->gate[0].name ? out->gate[0].name : "experts",
			       quant_name(out->gate[0].quant));
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
		free(x->span);
		free(x);
	}
}

static enum status any(struct hip *h, const char *op, const struct weight *w,
		       struct moe_launch l, int32_t n_x, int32_t n_y)
{
	char name[80];
	struct hip_grid g = {hip_over(n_x, WAVES), n_y, 32 * WAVES, 0};
	return LAUNCH(h, hip_kernel_for(name, op, w), g, ARG(l));
}

/* Any shape; as many tokens at a time as a grid may be high. */
static enum status run_any(struct hip *h, const struct weight *up,
			   const struct weight *down, struct moe_launch l)
{
	enum status st = OK;
	int32_t left = l.n_tok, most = 65535 / l.n_used;
	for (; left > 0 && st == OK; left -= l.n_tok) {
		l.n_tok = MIN(left, most);
		st = any(h, "moe_any_up", up, l, l.ffn, l.n_tok * l.n_used);
		if (st == OK)
			st = any(h, "moe_any_down", down, l, l.dim, l.n_tok);
		size_t t = (size_t)l.n_tok, pairs = t * (size_t)l.n_used;
		l.id = l.id ? l.id + pairs : NULL;
		l.weight = l.weight ? l.weight + pairs : NULL;
		l.x += t * (size_t)l.dim;
		l.y += t * (size_t)l.dim;
		l.h += pairs * (size_t)l.ffn;
	}
	return st;
}

static enum status shared_scale(struct hip *h, const struct moe_experts_args *a)
{
	struct weight_view router = hip_view(a->experts->shared_router);
	struct moe_experts_args v = *a;
	char name[80];
	struct hip_grid g = {hip_over(v.n_tok, WAVES), 1, 32 * WAVES, 0};
	return LAUNCH(h, hip_kernel_for(name, "moe_scale", a->experts->shared_router), g,
		      ARG(router), ARG(v.x), ARG(v.n_tok), ARG(v.shared_scale));
}

/* In launches of its own. */
static enum status run_shared(struct hip *h, const struct moe_experts_args *a,
			      struct moe_launch l)
{
	const struct experts *ex = a->experts;
	l.id = NULL;
	l.n_used = l.n_slots = 1;
	l.ffn = ex->shared_gate->n;
	l.h = a->shared_h;
	l.weight = ex->shared_router ? a->shared_scale : NULL;
	enum status st = ex->shared_router ? shared_scale(h, a) : OK;
	return st == OK ? run_any(h, ex->shared_gate, ex->shared_down, l) : st;
}

/* --- int4, few tokens ------------------------------------------------------------- */

static const struct moe_int4_axes ups[] = {
#define UP(name, ...) {#name, __VA_ARGS__},
#define DOWN(name, ...)
#include "kernels/moe_int4.def"
#undef UP
#undef DOWN
}, downs[] = {
#define UP(name, ...)
#define DOWN(name, ...) {#name, __VA_ARGS__},
#include "kernels/moe_int4.def"
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

/* E_UNSUPPORTED, without a word: the shape has no kernel here. */
static enum status run_int4(struct hip *h, const struct hip_experts *x,
			    const struct experts *ex, struct moe_launch l)
{
	const struct moe_int4_axes *up = fit(ups, ARRAY_LEN(ups), &ex->gate[0]);
	const struct moe_int4_axes *down = fit(downs, ARRAY_LEN(downs), &ex->down[0]);
	if (!up || !down)
		return E_UNSUPPORTED;
	int32_t up_lds = LINEAR_INT4_LDS_BYTES(1, l.dim, up->thrds, up->chunk);
	int32_t down_lds = MOE_INT4_DOWN_LDS(l.n_slots, l.ffn, down->thrds, down->ytile,
					     down->chunk);
	if (up_lds > LINEAR_INT4_LDS || down_lds > LINEAR_INT4_LDS)
		return E_UNSUPPORTED;
	const char *zero = x->has_zero ? "_zero" : "";
	char name[80];
	snprintf(name, sizeof name, "moe_int4_up_%s%s_kernel", up->name, zero);
	int32_t rows = LINEAR_INT4_ROWS(up->thrds, up->ytile, up->waves) / 2;
	enum status st = LAUNCH(h, name, ((struct hip_grid){
					hip_over(l.ffn, rows), l.n_tok * l.n_slots,
					32 * up->waves, up_lds}), ARG(l));
	if (st != OK)
		return st;
	l.shared_router.q = NULL;
	snprintf(name, sizeof name, "moe_int4_down_%s%s_kernel", down->name, zero);
	rows = MOE_INT4_DOWN_ROWS(down->thrds, down->ytile);
	return LAUNCH(h, name, ((struct hip_grid){hip_over(l.dim, rows), l.n_tok,
						  32 * down->waves, down_lds}), ARG(l));
}

/* --- many tokens ------------------------------------------------------------------ */

static const struct tile_shape tiles[] = {
#define TILE(name, ...) {#name, __VA_ARGS__},
#include "kernels/moe_tile.def"
#undef TILE
};

int hip_experts_tile_count(void)
{
	return (int)ARRAY_LEN(tiles);
}

const char *hip_experts_tile_name(int i)
{
	return tiles[i].name;
}

/* For n_pairs pairs of n experts. */
static const struct tile_shape *choose_tile(const struct hip *h, int32_t n_pairs,
					    int32_t n)
{
	if (h->moe_tile >= 0)
		return &tiles[h->moe_tile];
	const struct tile_shape *best = NULL;
	double least = 0, rows = (double)n_pairs / n;
	for (size_t i = 0; i < ARRAY_LEN(tiles); i++) {
		double cost = (rows + tiles[i].block_m / 2.) / tiles[i].rate;
		if (!best || cost < least) {
			best = &tiles[i];
			least = cost;
		}
	}
	return best;
}

static enum status launch_tiles(struct hip *h, const struct hip_experts *x,
				const struct tile_shape *s, struct moe_tile_launch l)
{
	struct hip_grid one = {1, 1, MOE_ALIGN_THREADS, MOE_ALIGN_LDS(l.n_experts)};
	enum status st = LAUNCH(h, "moe_align_kernel", one, ARG(l));
	struct hip_grid g = {0, 1, 32 * s->waves_m * s->waves_n, 0};
	char name[80];
	for (int is_down = 0; is_down < 2 && st == OK; is_down++) {
		snprintf(name, sizeof name, "moe_tile_%s_%s_%s_kernel",
			 is_down ? "down" : "up", s->name, x->tile_format);
		l.n_blocks = hip_over(is_down ? l.m.dim : 2 * l.m.ffn, s->block_n);
		g.x = l.max_blocks * l.n_blocks;
		st = LAUNCH(h, name, g, ARG(l));
	}
	if (st != OK)
		return st;
	return LAUNCH(h, "moe_combine_kernel",
		      ((struct hip_grid){hip_over(l.m.dim, MOE_COMBINE_THREADS), l.m.n_tok,
					 MOE_COMBINE_THREADS, 0}), ARG(l));
}

/* As many tokens at a time as there is work memory for. */
static enum status run_tiles(struct hip *h, const struct hip_experts *x,
			     struct moe_launch m)
{
	struct moe_tile_launch l = {.n_experts = m.shared + (m.n_slots > m.n_used)};
	size_t row = (size_t)m.dim * 4, lists = (size_t)l.n_experts * (64 + 1) * 4;
	size_t most = (HIP_WORK_BYTES - lists - 1024) / (size_t)m.n_slots / (row + 8);
	enum status st = OK;
	int32_t left = m.n_tok;
	for (; left > 0 && st == OK; left -= m.n_tok) {
		m.n_tok = MIN(left, (int32_t)MIN(most, (size_t)65535));
		int32_t n_pairs = m.n_tok * m.n_slots;
		const struct tile_shape *s = choose_tile(h, n_pairs, l.n_experts);
		l.m = m;
		l.block_m = s->block_m;
		l.max_blocks = MOE_TILE_BLOCKS(n_pairs, l.n_experts, s->block_m);
		l.out = h->work;
		l.pairs = (int32_t *)(l.out + (size_t)n_pairs * (size_t)m.dim);
		l.block_expert = l.pairs + (size_t)l.max_blocks * (size_t)l.block_m;
		st = launch_tiles(h, x, s, l);
		size_t t = (size_t)m.n_tok, pairs = t * (size_t)m.n_used;
		m.id += pairs;
		m.weight += pairs;
		m.x += t * (size_t)m.dim;
		m.y += t * (size_t)m.dim;
		m.h += pairs * (size_t)m.ffn;
		m.shared_h = m.shared_h ? m.shared_h + t * (size_t)m.ffn : NULL;
		m.shared_scale = m.shared_scale ? m.shared_scale + t : NULL;
	}
	return st;
}

/* --- the operation ---------------------------------------------------------------- */

static int32_t group_shift(const struct weight *w)
{
	return w->quant != QUANT_INT4 || w->group == w->k
		       ? 31 : __builtin_ctz((unsigned)w->group);
}

enum status hip_moe_experts(struct backend *b, const struct moe_experts_args *a)
{
	struct hip *h = hip_of(b);
	const struct experts *ex = a->experts;
	const struct hip_experts *x = ex->device;
	bool is_few = a->n_tok < h->moe_tile_from, has_slot = x->has_slot;
	struct moe_launch l = {
		.table = x->table, .id = a->id, .weight = a->weight,
		.gate_bias = ex->gate_bias, .up_bias = ex->up_bias,
		.down_bias = ex->down_bias, .x = a->x, .h = a->h, .y = a->y,
		.n_tok = a->n_tok, .n_used = a->n_used, .n_slots = a->n_used,
		.dim = ex->gate[0].k, .ffn = ex->gate[0].n, .shared = ex->n,
		.act = ex->act, .alpha = ex->alpha, .limit = ex->limit,
		.up_shift = group_shift(&ex->gate[0]),
		.down_shift = group_shift(&ex->down[0]),
		.is_bf16 = ex->gate[0].scale_type == DTYPE_BF16};
	enum status st = E_UNSUPPORTED;
	bool is_quad = is_few && x->is_int4 && h->prefers_quads;
	if (!x->is_int4 && (is_few || !x->tile_format))
		has_slot = false;
	if (has_slot) {
		l.n_slots++;
		l.shared_h = a->shared_h;
		l.shared_scale = ex->shared_router ? a->shared_scale : NULL;
	}
	struct moe_launch fast = l;
	memcpy(fast.span, x->span, sizeof fast.span);
	if (has_slot && ex->shared_router)
		fast.shared_router = hip_view(ex->shared_router);
	is_quad = is_quad && hip_moe_quad_takes(a, &fast);
	if (a->router && !is_quad && (st = hip_moe_router(b, a->router)) != OK)
		return st;
	st = E_UNSUPPORTED;
	if (is_quad) {
		st = hip_moe_quad(h, a, fast);
	} else if (is_few && x->is_int4) {
		st = run_int4(h, x, ex, fast);
	} else if (!is_few && x->tile_format) {
		st = has_slot && ex->shared_router ? shared_scale(h, a) : OK;
		if (st == OK)
			st = run_tiles(h, x, l);
	}
	if (st != E_UNSUPPORTED)
		return st == OK && ex->shared_gate && !has_slot ? run_shared(h, a, l) : st;
	l.n_slots = l.n_used;
	st = run_any(h, &ex->gate[0], &ex->down[0], l);
	return st == OK && ex->shared_gate ? run_shared(h, a, l) : st;
}
