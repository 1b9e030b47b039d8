/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for int4 weights at few tokens: the choice of a row of linear_int4.def, and the launch.
 */
#include "backend/hip/hip_linear.h"

#include <string.h>

#include "backend/hip/hip_tune.h"
#include "base/alloc.h"
#include "kernels/linear/linear_int4.h"

/* The row of linear_int4.def that has kernels for up to LINEAR_INT4_MANY_TOK tokens. */
#define MANY_TOK_AXES "t32y4w16c32"

static const struct linear_int4_axes axes[] = {
#define AXES(name, ...) {#name, __VA_ARGS__},
#define AXES_TO_4 AXES
#define AXES_TO_1 AXES
#include "kernels/linear/linear_int4.def"
#undef AXES_TO_1
#undef AXES_TO_4
#undef AXES
};

int hip_linear_int4_count(void)
{
	return (int)ARRAY_LEN(axes);
}

const char *hip_linear_int4_name(int i)
{
	return axes[i].name;
}

/* --- choice of a row ------------------------------------------------------------------ */

/* True if all weights are int4 of one kind. */
static bool is_int4(const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	for (int i = 0; i < a->n_out; i++) {
		const struct weight *w = a->out[i].w;
		if (!(w->fits & HIP_FITS_INT4) || w->group != first->group ||
		    !w->zero_points != !first->zero_points)
			return false;
	}
	return true;
}

static bool takes_int4(const struct linear_int4_axes *x, const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	return is_int4(a) && first->k % x->chunk == 0 &&
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

/* True if shape i can be used and gives every lane work. */
static bool fits(int i, const struct linear_args *a)
{
	return takes_int4(&axes[i], a) &&
	       LINEAR_INT4_STEP(axes[i].thrds, axes[i].chunk) <= a->out[0].w->k;
}

/* The row for a shape that was not measured; -1: none. It depends on N and K alone,
 * because the order of a row's sum must not depend on other tokens. */
static int default_row(const struct hip *h, const struct linear_args *a, int32_t n)
{
	static const char *const smaller[] = {"t32y4w16c16", "t16y2w8c16", "t8y1w4c8"};
	int four_rows = find_axes(MANY_TOK_AXES), one_row = find_axes("t32y1w16c32");
	int few_waves = find_axes("t32y2w4c32");
	const struct linear_int4_axes *x = &axes[four_rows];
	if (n >= 8192 && fits(few_waves, a))
		return few_waves;
	/* With few rows, use fewer of them in a workgroup: each compute unit should have
	 * one. */
	if (n / LINEAR_INT4_ROWS(x->thrds, x->ytile, x->waves) < h->device.n_cu &&
	    fits(one_row, a))
		return one_row;
	if (fits(four_rows, a))
		return four_rows;
	for (size_t s = 0; s < ARRAY_LEN(smaller); s++)
		if (fits(find_axes(smaller[s]), a))
			return find_axes(smaller[s]);
	int last = find_axes(smaller[ARRAY_LEN(smaller) - 1]);
	return takes_int4(&axes[last], a) ? last : -1;
}

int hip_linear_int4_choose(const struct hip *h, const struct linear_args *a)
{
	int32_t n = 0;
	if (h->int4_axes >= 0)
		return takes_int4(&axes[h->int4_axes], a) ? h->int4_axes : -1;
	for (int i = 0; i < a->n_out; i++)
		n += a->out[i].w->n;
	int i = hip_tune_find(h, (struct hip_tune_key){HIP_TUNE_INT4, n, a->out[0].w->k, 1});
	return i >= 0 && takes_int4(&axes[i], a) ? i : default_row(h, a, n);
}

/* --- arguments -------------------------------------------------------------------- */

struct linear_int4_args hip_linear_int4_args(const struct hip *h,
					     const struct linear_args *a, int32_t rows,
					     bool goes_on)
{
	const struct weight *first = a->out[0].w;
	struct linear_int4_args r = {.x = a->x, .k = first->k, .n_groups = hip_groups(first),
				     .group_shift = hip_group_shift(first)};
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++) {
		if (i > 0)
			r.first_group[i - 1] = i < a->n_out ? r.grid : INT32_MAX;
		if (i >= a->n_out)
			continue;
		const struct linear_out *o = &a->out[i];
		r.part[i] = (struct linear_int4_part){
			.q = o->w->q, .scales = o->w->scales,
			.zero_points = o->w->zero_points, .bias = o->bias, .y = o->y,
			.n = o->w->n, .pitch = (int32_t)(hip_pitch(o->w) / 4),
			.store = hip_linear_store(o),
			.is_bf16 = o->w->scale_type == DTYPE_BF16};
		int32_t groups = DIV_UP(o->w->n, rows);
		if (goes_on && h->checks.few_groups)
			groups = MAX(1, groups * 2 / 3);
		r.grid += groups;
	}
	return r;
}

/* Advance the arguments by m tokens. */
static void next(struct linear_int4_args *r, int32_t m)
{
	r->x += m * r->k;
	if (r->norm.x) {
		r->norm.x += m * r->k;
		r->norm.y += m * r->k;
	}
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++)
		r->part[i].y = hip_linear_next(r->part[i].y, r->part[i].store, m,
					       r->part[i].n);
}

/* --- linear_int4 ------------------------------------------------------------------ */

/* The row in use for n_tok tokens: MANY_TOK_AXES in place of those that have no kernel for so
 * many, and of those with fewer waves a workgroup. LDS has room for few workgroups then, so they
 * must have many waves: by prediction for gfx1151 24,576 rows of 4,096 take 342 us for four tokens
 * in t32y2w4c32, and 247 in t32y4w16c32. */
static const struct linear_int4_axes *at_width(const struct linear_int4_axes *x, int32_t n_tok)
{
	const struct linear_int4_axes *many = &axes[find_axes(MANY_TOK_AXES)];
	bool is_alike = x->thrds == many->thrds && x->chunk == many->chunk;
	int32_t most = x->waves < many->waves ? 1 : LINEAR_INT4_OWN_TOK;
	return n_tok > most && is_alike ? many : x;
}

static bool is_sliced(const struct linear_int4_axes *x, int32_t m)
{
	return m >= LINEAR_INT4_SLICED_TOK &&
	       LINEAR_INT4_STEP(x->thrds, x->chunk) == LINEAR_INT4_SLICED_STEP;
}

/* Number of tokens of the kernel that takes the next of `left` tokens. */
static int32_t kernel_tokens(const struct linear_int4_axes *x, int32_t left, int32_t k)
{
	bool has_many = strcmp(x->name, MANY_TOK_AXES) == 0;
	int32_t m = MIN(left, LINEAR_INT4_MAX_TOK);
	if (has_many && left > m)
		m = left > 12 ? LINEAR_INT4_MANY_TOK : 12;
	while (!is_sliced(x, m) &&
	       LINEAR_INT4_LDS_BYTES(m, k, x->thrds, x->chunk) > LINEAR_INT4_LDS)
		m--;
	return m;
}

/* Elements of K that LDS holds at once for m tokens: slices of about one size. */
static int32_t slice_of(const struct linear_int4_axes *x, int32_t m, int32_t k)
{
	int32_t step = LINEAR_INT4_STEP(x->thrds, x->chunk), steps = DIV_UP(k, step);
	int32_t slices = DIV_UP(steps, LINEAR_INT4_LDS / (2 * m * step));
	return DIV_UP(steps, slices) * step;
}

enum status hip_linear_int4(struct hip *h, const struct linear_args *a, int i)
{
	const struct linear_int4_axes *x = at_width(&axes[i], a->n_tok);
	int32_t rows = LINEAR_INT4_ROWS(x->thrds, x->ytile, x->waves);
	bool goes_on = !is_sliced(x, a->n_tok);
	struct linear_int4_args r = hip_linear_int4_args(h, a, rows, goes_on);
	const char *zero = a->out[0].w->zero_points ? "_zero" : "";
	enum status st = hip_fuse_norm(h, a->norm, true, &r.norm);
	for (int32_t t = 0; t < a->n_tok && st == OK; t += r.n_tok) {
		int32_t m = kernel_tokens(x, a->n_tok - t, r.k);
		r.n_tok = MIN(m, a->n_tok - t);
		r.slice = slice_of(x, m, r.k);
		st = LAUNCH(h, hip_kernel(KERNEL_LINEAR_INT4, PROFILE_COUNT,
					  "linear_int4_%s_m%d%s_kernel", x->name, m, zero),
			    ((struct hip_grid){r.grid, 1, 32 * x->waves, 2 * m * r.slice}),
			    ARG(r));
		next(&r, r.n_tok);
	}
	return st;
}

struct hip_linear_shape hip_linear_int4_shape(const struct linear_args *a, int i)
{
	const struct weight *w = a->out[0].w;
	const struct linear_int4_axes *x = &axes[i];
	return (struct hip_linear_shape){
		x->name, w->zero_points ? "_zero" : "",
		LINEAR_INT4_ROWS(x->thrds, x->ytile, x->waves), 32 * x->waves,
		2 * slice_of(x, 1, w->k)};
}
