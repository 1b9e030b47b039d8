/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: which kernel serves which weight. linear_int4 and linear_quad are the fast
 * paths for int4 of a few tokens; linear_any takes what is left, one launch a weight.
 */
#include "backend/hip_linear.h"

#include <stdio.h>

#include "backend/hip_tune.h"
#include "base/alloc.h"
#include "kernels/linear_int4.h"

static const struct linear_int4_axes axes[] = {
#define AXES(name, ...) {#name, __VA_ARGS__},
#include "kernels/linear_int4.def"
#undef AXES
};

/* Rows of linear_int4.def, then those of linear_quad.def. */
int hip_linear_int4_count(void)
{
	return (int)ARRAY_LEN(axes) + hip_linear_quad_count();
}

const char *hip_linear_int4_name(int i)
{
	int n = (int)ARRAY_LEN(axes);
	return i < n ? axes[i].name : hip_linear_quad_axes(i - n)->name;
}

uint32_t hip_linear_store(const struct linear_out *o)
{
	return o->adds ? LINEAR_ADD_F32 : o->is_f32 ? LINEAR_TO_F32 : LINEAR_TO_F16;
}

static enum status linear_any(struct hip *h, const struct linear_args *a,
			      const struct linear_out *out)
{
	enum { WAVES = 4 };
	struct linear_out o = *out;
	struct weight_view w = hip_view(o.w);
	const void *x = a->x;
	uint32_t store = hip_linear_store(&o);
	struct hip_grid g = {hip_over(w.n, WAVES), a->n_tok, 32 * WAVES, 0};
	char name[80];
	return LAUNCH(h, hip_kernel_for(name, "linear_any", o.w), g, ARG(w), ARG(x),
		      ARG(o.bias), ARG(o.y), ARG(store));
}

/* --- int4 ------------------------------------------------------------------------- */

static bool is_power_of_two(int32_t n)
{
	return (n & (n - 1)) == 0;
}

bool hip_linear_is_int4(const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	for (int i = 0; i < a->n_out; i++) {
		const struct weight *w = a->out[i].w;
		if (w->quant != QUANT_INT4 || w->scale_type == DTYPE_F32 ||
		    w->group != first->group || !w->zero_points != !first->zero_points)
			return false;
	}
	return is_power_of_two(first->group) || first->group == first->k;
}

static bool takes_int4(const struct linear_int4_axes *x, const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	return hip_linear_is_int4(a) && first->k % x->chunk == 0 &&
	       first->group % x->chunk == 0 &&
	       LINEAR_INT4_LDS_BYTES(1, first->k, x->thrds, x->chunk) <= LINEAR_INT4_LDS;
}

static int find_axes(const char *name)
{
	int i = 0;
	while (strcmp(axes[i].name, name) != 0)
		i++;
	return i;
}

/* Can these axes serve, without lanes that have nothing to do? */
static bool fits(int i, const struct linear_args *a)
{
	return takes_int4(&axes[i], a) &&
	       LINEAR_INT4_STEP(axes[i].thrds, axes[i].chunk) <= a->out[0].w->k;
}

/* What a shape without a measured row takes; -1: none. By N and K alone: the order of a
 * row's sum must not depend on the tokens beside it. */
static int guess(const struct hip *h, const struct linear_args *a, int32_t n)
{
	static const char *const smaller[] = {"short", "half", "tiny"};
	int wide = find_axes("wide"), deep = find_axes("deep"), dense = find_axes("dense");
	int32_t wide_groups = n / LINEAR_INT4_ROWS(axes[wide].thrds, axes[wide].ytile,
						   axes[wide].waves);
	if (n >= 8192 && fits(dense, a))
		return dense;
	/* Where rows are few, fewer of them a workgroup: each unit should have one. */
	if (wide_groups < h->device.n_cu && fits(deep, a))
		return deep;
	if (fits(wide, a))
		return wide;
	for (size_t s = 0; s < ARRAY_LEN(smaller); s++)
		if (fits(find_axes(smaller[s]), a))
			return find_axes(smaller[s]);
	return takes_int4(&axes[find_axes("tiny")], a) ? find_axes("tiny") : -1;
}

/* Can row i of hip_linear_int4_count() serve? */
static bool takes(int i, const struct linear_args *a)
{
	int n = (int)ARRAY_LEN(axes);
	return i < n ? takes_int4(&axes[i], a)
		     : hip_linear_quad_takes(hip_linear_quad_axes(i - n), a);
}

static int choose(const struct hip *h, const struct linear_args *a)
{
	int32_t n = 0;
	if (h->int4_axes >= 0)
		return takes(h->int4_axes, a) ? h->int4_axes : -1;
	for (int i = 0; i < a->n_out; i++)
		n += a->out[i].w->n;
	int i = hip_tune_find(h, HIP_TUNE_INT4, n, a->out[0].w->k);
	if (i >= 0 && takes(i, a))
		return i;
	i = h->prefers_quads ? hip_linear_quad_guess(a, n) : -1;
	return i >= 0 ? i + (int)ARRAY_LEN(axes) : guess(h, a, n);
}

static struct linear_int4_args int4_args(const struct hip *h,
					 const struct linear_int4_axes *x,
					 const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	struct linear_int4_args r = {.x = a->x, .k = first->k,
				     .n_groups = first->k / first->group,
				     .group_shift = 31};
	if (first->group != first->k)
		r.group_shift = __builtin_ctz((unsigned)first->group);
	int32_t rows = LINEAR_INT4_ROWS(x->thrds, x->ytile, x->waves);
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++) {
		struct linear_int4_part *p = &r.part[i];
		p->first_group = i < a->n_out ? r.grid : INT32_MAX;
		if (i >= a->n_out)
			continue;
		const struct linear_out *o = &a->out[i];
		*p = (struct linear_int4_part){
			.q = o->w->q, .scales = o->w->scales,
			.zero_points = o->w->zero_points, .bias = o->bias, .y = o->y,
			.n = o->w->n, .pitch = (int32_t)(hip_pitch(o->w) / 4),
			.first_group = r.grid, .store = hip_linear_store(o),
			.is_bf16 = o->w->scale_type == DTYPE_BF16};
		int32_t groups = MAX(1, hip_over(p->n, rows));
		/* Tests: so few that some go on to further rows. */
		r.grid += h->few_groups ? MAX(1, groups * 2 / 3) : groups;
	}
	return r;
}

static enum status linear_int4(struct hip *h, const struct linear_int4_axes *x,
			       const struct linear_args *a)
{
	struct linear_int4_args r = int4_args(h, x, a);
	const char *zero = a->out[0].w->zero_points ? "_zero" : "";
	enum status st = OK;
	for (int32_t t = 0; t < a->n_tok && st == OK;) {
		int32_t m = MIN(a->n_tok - t, LINEAR_INT4_MAX_TOK), lds;
		while ((lds = LINEAR_INT4_LDS_BYTES(m, r.k, x->thrds, x->chunk)) >
		       LINEAR_INT4_LDS)
			m--;
		char name[80];
		snprintf(name, sizeof name, "linear_int4_%s_m%d%s_kernel", x->name, m, zero);
		st = LAUNCH(h, name, ((struct hip_grid){r.grid, 1, 32 * x->waves, lds}),
			    ARG(r));
		t += m;
		r.x += m * r.k;
		for (int i = 0; i < a->n_out; i++) {
			struct linear_int4_part *p = &r.part[i];
			size_t size = p->store == LINEAR_TO_F16 ? 2 : 4;
			p->y = (char *)p->y + (size_t)m * (size_t)p->n * size;
		}
	}
	return st;
}

/* --- the operation ---------------------------------------------------------------- */

/* The products alone. */
static enum status products(struct hip *h, const struct linear_args *a, int i_axes)
{
	if (a->n_tok >= h->tile_from && hip_linear_tile_takes(a))
		return hip_linear_tile(h, a);
	if (i_axes >= 0)
		return linear_int4(h, &axes[i_axes], a);
	if (hip_linear_rows_takes(a))
		return hip_linear_rows(h, a);
	enum status st = OK;
	for (int i = 0; i < a->n_out && st == OK; i++)
		st = linear_any(h, a, &a->out[i]);
	return st;
}

enum status hip_linear_alike(struct backend *b, const struct linear_args *a)
{
	struct hip *h = hip_of(b);
	int i = choose(h, a), n = (int)ARRAY_LEN(axes);
	bool is_tiled = a->n_tok >= h->tile_from && hip_linear_tile_takes(a);
	if (i >= n && !is_tiled)
		return hip_linear_quad(h, hip_linear_quad_axes(i - n), a);
	enum status st = a->norm ? hip_rms_norm(b, a->norm) : OK;
	if (st == OK)
		st = products(h, a, i);
	if (st != OK || !a->silu)
		return st;
	void *y = a->out[0].y;
	return hip_silu_mul(b, &(struct silu_mul_args){
				       .n_tok = a->n_tok, .dim = a->out[0].w->n,
				       .gate = y, .up = a->out[1].y, .y = y});
}
