/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for weights of several formats. Some checkpoints leave a part of a layer
 * unquantized (in a gated delta net: qkv and z in int4, a and b in bf16). Each format
 * gets its own launch, so that each keeps its fast kernel, except pairs of linear_pairs.def.
 *
 * Where loading has sorted a weight's columns (weight.order), its inputs are sorted first. Where
 * they have factors (weight.in_scale), they are multiplied first. No file has both.
 */
#include "backend/hip/hip_linear.h"

#include "base/alloc.h"
#include "kernels/rows/sort_inputs.h"

/* --- inputs in another order, or with factors ----------------------------------------- */

/* y (n_tok, K) = x with the columns of w, or with its factors. */
static enum status change_inputs(struct hip *h, const struct weight *w, const void *x,
				 int32_t n_tok, void *y)
{
	const void *by = w->order ? (const void *)w->order : w->in_scale;
	struct hip_kernel kernel = w->order ? PLAIN("sort_inputs_kernel")
					    : PLAIN("scale_inputs_kernel");
	int32_t k = w->k;
	struct hip_grid g = {DIV_UP(k, SORT_INPUTS_THREADS * SORT_INPUTS_EACH),
			     DIV_UP(n_tok, SORT_INPUTS_TOK), SORT_INPUTS_THREADS, 0};
	return LAUNCH(h, kernel, g, ARG(n_tok), ARG(k), ARG(x), ARG(by), ARG(y));
}

/* a, whose weights have one order or the same factors: its inputs go changed into work memory,
 * as many tokens at once as have room. Pieces are about equal, so that none is so short that
 * other kernels take it. */
static enum status changed(struct hip *h, const struct linear_args *a)
{
	const struct weight *w = a->out[0].w;
	size_t row = (size_t)w->k * dtype_bytes(DTYPE_F16);
	int32_t most = (int32_t)(h->work_bytes / row);
	most = h->checks.few_groups ? 2 * (HIP_FEW_TOK + 1) : most;
	int32_t each = DIV_UP(a->n_tok, MAX(DIV_UP(a->n_tok, most), 1));
	struct linear_args part = *a;
	enum status st = a->norm ? hip_rms_norm(&h->base, a->norm) : OK;
	part.norm = NULL;
	part.x = h->work;
	for (int32_t t = 0; st == OK && (t < a->n_tok || t == 0); t += MAX(each, 1)) {
		part.n_tok = MIN(each, a->n_tok - t);
		st = change_inputs(h, w, (const char *)a->x + (size_t)t * row, part.n_tok, h->work);
		if (st == OK)
			st = hip_linear_alike(&h->base, &part);
		for (int i = 0; i < part.n_out; i++)
			part.out[i].y = hip_linear_next(part.out[i].y,
							hip_linear_store(&part.out[i]),
							part.n_tok, part.out[i].w->n);
	}
	return st;
}

/* a, whose weights have one format, and one order or the same factors. */
static enum status alike(struct backend *b, const struct linear_args *a)
{
	const struct weight *w = a->out[0].w;
	return w->order || w->in_scale ? changed(hip_of(b), a) : hip_linear_alike(b, a);
}

/* --- several formats ------------------------------------------------------------------ */

/* True if one launch can do both weights. Types of scales may differ, except that int4
 * with f32 scales has no fast kernel. */
static bool is_alike(const struct weight *a, const struct weight *b)
{
	if (a->quant != b->quant || a->group != b->group || a->order != b->order ||
	    a->in_scale != b->in_scale)
		return false;
	return a->quant != QUANT_INT4 ||
	       (!a->zero_points == !b->zero_points &&
		(a->scale_type == DTYPE_F32) == (b->scale_type == DTYPE_F32));
}

/* True if one launch can do one's outputs and this one. */
static bool fits(const struct linear_args *one, const struct linear_out *o, bool in_pairs)
{
	struct linear_args more = *one;
	more.out[more.n_out++] = *o;
	bool all_alike = true;
	for (int i = 0; i < one->n_out; i++)
		all_alike &= is_alike(one->out[i].w, o->w);
	return all_alike || (in_pairs && hip_linear_pair_takes(&more));
}

/* Collect the outputs that one launch can do with output i, the first one left. Their bits in
 * *left are cleared. */
static void take_alike(const struct linear_args *a, int i, bool in_pairs, uint32_t *left,
		       struct linear_args *out)
{
	for (int j = i; j < a->n_out; j++) {
		if (!(*left >> j & 1) || !fits(out, &a->out[j], in_pairs))
			continue;
		out->out[out->n_out++] = a->out[j];
		*left &= ~(1u << j);
	}
}

enum status hip_linear(struct backend *b, const struct linear_args *a)
{
	const struct rms_norm_args *norm = a->norm;
	bool in_pairs = a->n_tok < hip_of(b)->tile_from;
	uint32_t left = (1u << a->n_out) - 1;
	enum status st = OK;
	if (b->profile)
		backend_count_linear(b, a);
	while (left && st == OK) {
		struct linear_args one = {.n_tok = a->n_tok, .x = a->x, .norm = norm};
		take_alike(a, __builtin_ctz(left), in_pairs, &left, &one);
		if (one.n_out == a->n_out)
			return alike(b, a);
		st = alike(b, &one);
		norm = NULL; /* the first launch has written the norm's result, x */
	}
	return st == OK ? hip_linear_act(b, a) : st;
}
