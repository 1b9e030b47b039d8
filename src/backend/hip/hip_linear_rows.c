/* SPDX-License-Identifier: Apache-2.0
 *
 * linear by linear_rows and linear_blocks: weights with contiguous rows, at few tokens.
 * More tokens than one launch takes are done in batches.
 */
#include <stdio.h>

#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "kernels/linear/linear_rows.h"
#include "kernels/linear/quad_launch.h"

static int32_t max_tok(enum quant q)
{
	bool is_small = q == QUANT_FP8 || quant_bits(q) == 4;
	return is_small && !quant_block(q) ? LINEAR_ROWS_MAX_TOK / 2 : LINEAR_ROWS_MAX_TOK;
}

/* True if the kernel with four lanes a row (linear_quad_int8.hip) is faster. By K alone. */
static bool is_quad_int8(const struct hip *h, const struct linear_args *a)
{
	for (int i = 0; i < a->n_out; i++) {
		const struct weight *w = a->out[i].w;
		if (w->quant != QUANT_INT8 || w->group < w->k || w->zero_points ||
		    w->k % LINEAR_QUAD_INT8_TURN != 0 ||
		    LINEAR_QUAD_INT8_LDS_BYTES(1, w->k) > LINEAR_ROWS_LDS)
			return false;
	}
	return h->prefers_quads;
}

static int32_t lds_bytes(enum quant q, int32_t n_tok, int32_t k)
{
	if (!quant_block(q))
		return LINEAR_ROWS_LDS_BYTES(n_tok, k);
	return LINEAR_BLOCKS_LDS_BYTES(n_tok, k) + HIP_UNIT_TABLE_BYTES(q);
}

static bool takes_weight(const struct weight *w)
{
	if (quant_block(w->quant))
		return hip_has_units(w) && lds_bytes(w->quant, 1, w->k) <= LINEAR_ROWS_LDS;
	int32_t bits = quant_bits(w->quant), each = LINEAR_ROWS_EACH(bits);
	bool in_powers = w->group >= w->k ||
			 (hip_is_power_of_two(w->group) &&
			  w->group >= (w->quant == QUANT_NVFP4 ? 16 : each));
	switch (w->quant) {
	case QUANT_F16:
	case QUANT_BF16:
		in_powers = true;
		break;
	case QUANT_INT8:
	case QUANT_FP8:
		break;
	case QUANT_NVFP4:
	case QUANT_MXFP4: /* one scale for 16 or 32 elements, even if K is one group */
		in_powers = in_powers && w->group <= 32;
		break;
	default:
		return false;
	}
	return in_powers && w->k % each == 0 && hip_pitch(w) % 16 == 0 &&
	       lds_bytes(w->quant, 1, w->k) <= LINEAR_ROWS_LDS;
}

bool hip_linear_rows_takes(const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	for (int i = 0; i < a->n_out; i++)
		if (a->out[i].w->quant != first->quant || a->out[i].w->group != first->group ||
		    !takes_weight(a->out[i].w))
			return false;
	return true;
}

struct linear_rows_part hip_linear_part(const struct linear_out *o)
{
	const struct weight *w = o->w;
	struct weight_view v = hip_view(w);
	return (struct linear_rows_part){
		.q = v.q, .scales = v.scales, .zero_points = v.zero_points, .bias = o->bias,
		.y = o->y, .n = v.n, .pitch = v.pitch, .group_n = v.group_n,
		.scale_format = v.scale_format, .store = hip_linear_store(o),
		.factor = v.factor};
}

/* Which kernel a launch uses, and its limits. */
struct form {
	char name[48];    /* name of its kernels, without _m<M>_kernel */
	int32_t waves;    /* waves in a workgroup */
	int32_t rows;     /* rows that a workgroup sums at once */
	int32_t per_cu;   /* workgroups that a compute unit holds at once */
	int32_t max_tok;  /* most tokens of a launch */
	bool is_quad;
};

static struct form form_of(const struct hip *h, const struct linear_args *a)
{
	enum quant q = a->out[0].w->quant;
	if (is_quad_int8(h, a))
		return (struct form){"linear_quad_int8", LINEAR_QUAD_INT8_WAVES,
				     LINEAR_QUAD_INT8_WAVES * QUAD_ROWS,
				     LINEAR_QUAD_INT8_PER_CU, LINEAR_ROWS_MAX_TOK, true};
	struct form f = {.waves = LINEAR_ROWS_WAVES,
			 .rows = quant_block(q) ? LINEAR_BLOCKS_ROWS(a->n_tok)
						: LINEAR_ROWS_WAVES * LINEAR_ROWS_TILE,
			 .per_cu = 4, .max_tok = max_tok(q)};
	snprintf(f.name, sizeof f.name, "linear_%s_%s", quant_block(q) ? "blocks" : "rows",
		 quant_name(q));
	return f;
}

static int32_t form_lds(const struct form *f, enum quant q, int32_t n_tok, int32_t k)
{
	/* Its kernels keep LDS for M tokens, however many there are. */
	int32_t m = n_tok > 4 ? 8 : n_tok > 2 ? 4 : n_tok;
	return f->is_quad ? LINEAR_QUAD_INT8_LDS_BYTES(m, k) : lds_bytes(q, n_tok, k);
}

static struct linear_rows_args args_of(const struct hip *h, const struct linear_args *a,
				       const struct form *f)
{
	const struct weight *first = a->out[0].w;
	bool is_small = quant_bits(first->quant) == 4, in_blocks = quant_block(first->quant);
	struct linear_rows_args r = {.x = a->x, .k = first->k, .n_groups = 1,
				     .group_shift = 31};
	if (!in_blocks && quant_bits(first->quant) < 16 &&
	    (first->group < first->k || is_small)) {
		r.n_groups = hip_over(first->k, first->group);
		r.group_shift = __builtin_ctz((unsigned)first->group);
	}
	/* At most as many workgroups as run at once, because each copies the activations
	 * to LDS. */
	int32_t most = h->checks.few_groups ? 3 : h->device.n_cu * f->per_cu;
	for (int i = 0; i < LINEAR_ROWS_MAX_PART; i++) {
		r.part[i].first_group = INT32_MAX;
		if (i >= a->n_out)
			continue;
		r.part[i] = hip_linear_part(&a->out[i]);
		r.part[i].first_group = r.grid;
		r.grid += MIN(hip_over(r.part[i].n, f->rows), most);
	}
	return r;
}

bool hip_linear_rows_beside(const struct hip *h, const struct linear_args *a,
			    struct linear_rows_args *out, int32_t *lds_bytes)
{
	enum quant q = a->out[0].w->quant;
	if (a->n_tok != 1 || a->norm || a->act || h->tile_from <= 1 || q != QUANT_BF16 ||
	    !hip_linear_rows_takes(a))
		return false;
	struct form f = form_of(h, a);
	*out = args_of(h, a, &f);
	out->n_tok = 1;
	*lds_bytes = form_lds(&f, q, 1, out->k);
	return true;
}

enum status hip_linear_rows(struct hip *h, const struct linear_args *a)
{
	struct form f = form_of(h, a);
	struct linear_rows_args r = args_of(h, a, &f);
	enum quant q = a->out[0].w->quant;
	enum status st = OK;
	for (int32_t t = 0, m; t < a->n_tok && st == OK; t += r.n_tok) {
		r.n_tok = MIN(a->n_tok - t, f.max_tok);
		while (form_lds(&f, q, r.n_tok, r.k) > LINEAR_ROWS_LDS)
			r.n_tok--;
		for (m = 1; m < r.n_tok; m *= 2)
			;
		char name[80];
		snprintf(name, sizeof name, "%s_m%d_kernel", f.name, (int)m);
		st = LAUNCH(h, name,
			    ((struct hip_grid){r.grid, 1, 32 * f.waves,
					       form_lds(&f, q, r.n_tok, r.k)}),
			    ARG(r));
		r.x += (size_t)r.n_tok * (size_t)r.k;
		for (int i = 0; i < a->n_out; i++)
			r.part[i].y = hip_linear_next(r.part[i].y, r.part[i].store, r.n_tok,
						      r.part[i].n);
	}
	return st;
}
