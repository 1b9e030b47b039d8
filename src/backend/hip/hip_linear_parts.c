/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for weights of several formats. Some checkpoints leave a part of a layer
 * unquantized (in a gated delta net: qkv and z in int4, a and b in bf16). Each format
 * gets its own launch, so that each keeps its fast kernel, except pairs of linear_pairs.def.
 */
#include "backend/hip/hip_linear.h"

/* True if one launch can do both weights. Types of scales may differ, except that int4
 * with f32 scales has no fast kernel. */
static bool is_alike(const struct weight *a, const struct weight *b)
{
	if (a->quant != b->quant || a->group != b->group)
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
			return hip_linear_alike(b, a);
		st = hip_linear_alike(b, &one);
		norm = NULL; /* the first launch has written the norm's result, x */
	}
	return st == OK ? hip_linear_act(b, a) : st;
}
