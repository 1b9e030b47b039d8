/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation linear: the choice of kernel for each weight. linear_int4 is the fast path of
 * int4 at few tokens. linear_any does what is left, one launch a weight.
 */
#include "backend/hip/hip_linear.h"

#include "base/alloc.h"

uint32_t hip_linear_store(const struct linear_out *o)
{
	return o->adds ? LINEAR_ADD_F32 : o->is_f32 ? LINEAR_TO_F32 : LINEAR_TO_F16;
}

void *hip_linear_next(void *y, uint32_t store, int32_t m, int32_t n)
{
	size_t size = store == LINEAR_TO_F16 ? 2 : 4;
	return y ? (char *)y + (size_t)m * (size_t)n * size : NULL;
}

static enum status linear_any(struct hip *h, const struct linear_args *a,
			      const struct linear_out *out)
{
	enum { WAVES = 4 };
	struct linear_out o = *out;
	struct weight_view w = hip_view(o.w);
	const void *x = a->x;
	uint32_t store = hip_linear_store(&o);
	struct hip_grid g = {DIV_UP(w.n, WAVES), a->n_tok, 32 * WAVES, 0};
	return LAUNCH(h, PLAIN("linear_any_%s_kernel", quant_name(o.w->quant)), g, ARG(w), ARG(x),
		      ARG(o.bias), ARG(o.y), ARG(store));
}

/* Queue the norm and the products. Kernels of int4 and of rows do the norm. i_axes: see
 * hip_linear_int4_choose. */
static enum status products(struct hip *h, const struct linear_args *a, bool is_tiled,
			    int i_axes)
{
	if (!is_tiled && i_axes >= 0)
		return hip_linear_int4(h, a, i_axes);
	if (!is_tiled && (hip_linear_rows_takes(a) || hip_linear_pair_takes(a)))
		return hip_linear_rows(h, a);
	enum status st = a->norm ? hip_rms_norm(&h->base, a->norm) : OK;
	if (is_tiled)
		return st == OK ? hip_linear_tile(h, a) : st;
	for (int i = 0; i < a->n_out && st == OK; i++)
		st = linear_any(h, a, &a->out[i]);
	return st;
}

enum status hip_linear_act(struct backend *b, const struct linear_args *a)
{
	if (!a->act)
		return OK;
	void *y = a->out[0].y;
	return hip_act_mul(b, &(struct act_mul_args){
				      .n_tok = a->n_tok, .dim = a->out[0].w->n,
				      .act = *a->act, .gate = y, .up = a->out[1].y,
				      .y = y});
}

enum status hip_linear_alike(struct backend *b, const struct linear_args *a)
{
	struct hip *h = hip_of(b);
	bool is_tiled = a->n_tok >= h->tile_from && hip_linear_tile_takes(a);
	int i = is_tiled ? -1 : hip_linear_int4_choose(h, a);
	/* Forget a router that was done and that nobody asked for, as where an operation failed. */
	h->routed = NULL;
	if (!is_tiled && hip_route_takes(h, a, i))
		return hip_route(h, a, i);
	enum status st = products(h, a, is_tiled, i);
	return st == OK && !is_tiled ? hip_linear_act(b, a) : st; /* tiles do the activation */
}
