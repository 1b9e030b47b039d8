/* SPDX-License-Identifier: Apache-2.0
 *
 * linear of weights in several formats, as layers have that leave some of theirs
 * unquantized (a gated delta net: qkv and z in int4, a and b in bf16): a launch for each
 * format, so that none loses its fast kernel by its neighbours.
 */
#include "backend/hip/hip_linear.h"

/* Do the kernels take them in one launch? Scales may differ in type, but for int4's f32,
 * which alone have no fast kernel. */
static bool is_alike(const struct weight *a, const struct weight *b)
{
	if (a->quant != b->quant || a->group != b->group)
		return false;
	return a->quant != QUANT_INT4 ||
	       (!a->zero_points == !b->zero_points &&
		(a->scale_type == DTYPE_F32) == (b->scale_type == DTYPE_F32));
}

/* Parts of a that are like part i, i being the first that is left; takes them off
 * *left, a bit each. */
static void take_alike(const struct linear_args *a, int i, uint32_t *left,
		       struct linear_args *out)
{
	for (int j = i; j < a->n_out; j++) {
		if (!(*left >> j & 1) || !is_alike(a->out[i].w, a->out[j].w))
			continue;
		out->out[out->n_out++] = a->out[j];
		*left &= ~(1u << j);
	}
}

enum status hip_linear(struct backend *b, const struct linear_args *a)
{
	const struct rms_norm_args *norm = a->norm;
	uint32_t left = (1u << a->n_out) - 1;
	enum status st = OK;
	while (left && st == OK) {
		struct linear_args one = {.n_tok = a->n_tok, .x = a->x, .norm = norm};
		take_alike(a, __builtin_ctz(left), &left, &one);
		if (one.n_out == a->n_out)
			return hip_linear_alike(b, a);
		st = hip_linear_alike(b, &one);
		norm = NULL; /* its y, which is x, is there now */
	}
	return st == OK ? hip_linear_act(b, a) : st;
}
