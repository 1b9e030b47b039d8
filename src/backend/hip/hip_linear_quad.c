/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for int4 weights with four lanes a row: linear_quad_sum.h.
 */
#include <stdio.h>

#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "kernels/linear/linear_int4.h"

static const struct quad_axes axes[] = {
#define QUAD(name, ...) {#name, __VA_ARGS__},
#include "kernels/linear/linear_quad.def"
#undef QUAD
};

int hip_linear_quad_count(void)
{
	return (int)ARRAY_LEN(axes);
}

const struct quad_axes *hip_linear_quad_axes(int i)
{
	return &axes[i];
}

bool hip_linear_quad_takes(const struct quad_axes *x, const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	return hip_linear_is_int4(a) && first->k % QUAD_STEP == 0 && first->group % 32 == 0 &&
	       (!x->is_lean || first->k % (x->unroll * QUAD_STEP) == 0) &&
	       QUAD_LDS(1, first->k, x->split, x->rows) <= LINEAR_INT4_LDS;
}

int hip_linear_quad_guess(const struct linear_args *a, int32_t n)
{
	enum { ONE, FOUR, EIGHT, SIXTEEN, LEAN };
	int32_t k = a->out[0].w->k;
	if (n >= 65536 && hip_linear_quad_takes(&axes[LEAN], a))
		return LEAN;
	int i = n >= 16384 ? ONE : k >= 8192 ? EIGHT : n * (int64_t)k <= 20 << 20 && k >= 4096
			   ? SIXTEEN : FOUR;
	return hip_linear_quad_takes(&axes[i], a) ? i : -1;
}

/* Each workgroup of a fused norm normalises all tokens for itself. Measured on an NVIDIA H200, K
 * 4096: 384 workgroups of one token do it in less time than a launch takes, 1,536 do not. */
static bool fuses_norm(const struct hip *h, const struct quad_axes *x, int32_t groups,
		       int32_t n_tok)
{
	enum { MOST_PER_CU = 8 };
	return !x->is_lean && (int64_t)groups * n_tok <= MOST_PER_CU * h->device.n_cu;
}

enum status hip_linear_quad(struct hip *h, const struct quad_axes *x,
			    const struct linear_args *a)
{
	const struct weight *w = a->out[0].w;
	const char *kind = w->zero_points ? "_zero" : w->group == 32 ? "" : "_any";
	bool is_pair = hip_linear_fuses(a);
	struct linear_int4_args r = hip_linear_int4_args(
		h, a, x->rows * (is_pair ? QUAD_ROWS / 2 : QUAD_ROWS), false, is_pair);
	bool fuses = fuses_norm(h, x, r.grid, a->n_tok);
	enum status st = hip_fuse_norm(h, a->norm, fuses, &r.norm);
	for (int32_t t = 0; t < a->n_tok && st == OK; t += r.n_tok) {
		int32_t m = 1, lds;
		while (m < a->n_tok - t && m < LINEAR_INT4_MAX_TOK &&
		       QUAD_LDS(2 * m, r.k, x->split, x->rows) <= h->device.lds_bytes)
			m *= 2;
		char name[80];
		lds = QUAD_LDS(m, r.k, x->split, x->rows);
		r.n_tok = MIN(m, a->n_tok - t);
		snprintf(name, sizeof name, "linear_quad_%s_m%d%s_kernel", x->name, m, kind);
		st = LAUNCH(h, name, ((struct hip_grid){r.grid, 1, 32 * x->split * x->rows,
							lds}), ARG(r));
		hip_linear_int4_next(&r, r.n_tok);
	}
	return st;
}
