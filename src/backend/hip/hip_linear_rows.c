/* SPDX-License-Identifier: Apache-2.0
 *
 * linear by linear_rows and linear_blocks: weights with contiguous rows, at few tokens.
 * More tokens than one launch takes are done in batches.
 */
#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "kernels/linear/linear_pairs.def"
#include "kernels/linear/linear_rows.h"

/* The pair of formats that a's weights have, and that one launch takes; NULL: another. */
struct block_pair {
	enum quant first, other;
	const char *name;
};

static const struct block_pair *pair_of(const struct linear_args *a)
{
#define PAIR(name, other, first, second) {QUANT_##first, QUANT_##second, #name "_" #other},
	static const struct block_pair pairs[] = {LINEAR_PAIRS(PAIR)};
#undef PAIR
	for (size_t p = 0; p < ARRAY_LEN(pairs); p++) {
		int n_first = 0, n_other = 0;
		for (int i = 0; i < a->n_out; i++) {
			n_first += a->out[i].w->quant == pairs[p].first;
			n_other += a->out[i].w->quant == pairs[p].other;
		}
		if (n_first && n_other && n_first + n_other == a->n_out)
			return &pairs[p];
	}
	return NULL;
}

bool hip_linear_pair_takes(const struct linear_args *a)
{
	if (a->n_tok > LINEAR_PAIRS_MAX_TOK || !pair_of(a))
		return false;
	for (int i = 0; i < a->n_out; i++)
		if (!(a->out[i].w->fits & HIP_FITS_ROWS))
			return false;
	return LINEAR_BLOCKS_LDS_BYTES(a->n_tok, a->out[0].w->k) <= LINEAR_ROWS_LDS;
}

bool hip_linear_rows_takes(const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	for (int i = 0; i < a->n_out; i++)
		if (a->out[i].w->quant != first->quant || a->out[i].w->group != first->group ||
		    !(a->out[i].w->fits & HIP_FITS_ROWS))
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

/* The kernel of a launch, and for how many tokens it is. */
struct form {
	struct hip_kernel kernel;
	int32_t n_tok, m;  /* tokens of the launch; most tokens of its kernel */
	int32_t waves;     /* waves in a workgroup */
	int32_t rows;      /* rows that a workgroup sums at once */
	int32_t most;      /* workgroups for each part. More would not run at once, and each
			    * copies the activations to LDS */
	int32_t lds_bytes;
};

/* The smallest power of two from n_tok on: kernels are for such numbers of tokens. */
static int32_t kernel_tok(int32_t n_tok)
{
	int32_t m = 1;
	while (m < n_tok)
		m *= 2;
	return m;
}

static void set_blocks(struct form *f, enum quant q, int32_t k)
{
	int32_t table = HIP_UNIT_TABLE_BYTES(q);
	while (LINEAR_BLOCKS_LDS_BYTES(f->n_tok, k) + table > LINEAR_ROWS_LDS)
		f->n_tok--;
	f->m = kernel_tok(f->n_tok);
	f->waves = LINEAR_ROWS_WAVES;
	f->rows = LINEAR_BLOCKS_ROWS(f->m);
	f->most *= 4;
	f->lds_bytes = LINEAR_BLOCKS_LDS_BYTES(f->n_tok, k) + table;
}

static void set_rows(struct form *f, int32_t k)
{
	f->m = kernel_tok(f->n_tok);
	if (k > LINEAR_ROWS_SLICE(f->m))
		f->m = MAX(f->m, LINEAR_ROWS_SLICED_TOK);
	f->waves = LINEAR_ROWS_WAVES_OF(f->m);
	f->rows = f->waves * LINEAR_ROWS_TILE;
	f->most = k > LINEAR_ROWS_SLICE(f->m) ? INT32_MAX
					      : f->most * 4 * LINEAR_ROWS_WAVES / f->waves;
	f->lds_bytes = LINEAR_ROWS_LDS_BYTES(f->n_tok, f->m, k);
}

/* The form for the first of `left` tokens: as many of them as one launch takes. */
static struct form form_of(const struct hip *h, const struct linear_args *a, int32_t left)
{
	enum quant q = a->out[0].w->quant;
	bool in_blocks = quant_block(q);
	int32_t k = a->out[0].w->k;
	int32_t most = in_blocks ? LINEAR_BLOCKS_MAX_TOK : LINEAR_ROWS_MAX_TOK;
	struct form f = {.n_tok = MIN(left, most), .most = h->device.n_cu};
	if (in_blocks)
		set_blocks(&f, q, k);
	else
		set_rows(&f, k);
	if (h->checks.few_groups)
		f.most = 3;
	const struct block_pair *pair = pair_of(a);
	f.kernel = hip_kernel(in_blocks ? KERNEL_LINEAR_BLOCKS : KERNEL_LINEAR_ROWS, PROFILE_COUNT,
			      "linear_%s_%s_m%d_kernel",
			      pair ? "pair" : in_blocks ? "blocks" : "rows",
			      pair ? pair->name : quant_name(q), (int)f.m);
	return f;
}

static struct linear_rows_args args_of(const struct linear_args *a, const struct form *f)
{
	const struct weight *first = a->out[0].w;
	bool is_small = quant_bits(first->quant) == 4, in_blocks = quant_block(first->quant);
	const struct block_pair *pair = pair_of(a);
	struct linear_rows_args r = {.x = a->x, .k = first->k, .n_tok = f->n_tok,
				     .n_groups = 1, .group_shift = 31};
	if (!in_blocks && quant_bits(first->quant) < 16 &&
	    (first->group < first->k || is_small)) {
		r.n_groups = DIV_UP(first->k, first->group);
		r.group_shift = __builtin_ctz((unsigned)first->group);
	}
	for (int i = 0; i < LINEAR_ROWS_MAX_PART; i++) {
		r.part[i].first_group = INT32_MAX;
		if (i >= a->n_out)
			continue;
		r.part[i] = hip_linear_part(&a->out[i]);
		r.part[i].first_group = r.grid;
		r.part[i].is_other = pair && a->out[i].w->quant == pair->other;
		r.grid += MIN(DIV_UP(r.part[i].n, f->rows), f->most);
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
	struct form f = form_of(h, a, 1);
	*out = args_of(a, &f);
	*lds_bytes = f.lds_bytes;
	return true;
}

struct hip_linear_shape hip_linear_rows_shape(const struct hip *h, const struct linear_args *a,
					      struct linear_rows_args *out)
{
	struct form f = form_of(h, a, 1);
	f.most = INT32_MAX;
	*out = args_of(a, &f);
	return (struct hip_linear_shape){"rows_", quant_name(a->out[0].w->quant), f.rows,
					 32 * f.waves, f.lds_bytes};
}

enum status hip_linear_rows(struct hip *h, const struct linear_args *a)
{
	struct linear_args rest = *a;
	struct form whole = form_of(h, a, a->n_tok);
	bool does_norm = whole.n_tok == a->n_tok && whole.m <= FUSED_NORM_TOK &&
			 a->out[0].w->k >= LINEAR_ROWS_NORM_K;
	struct fused_norm norm;
	enum status st = hip_fuse_norm(h, a->norm, does_norm, &norm);
	for (int32_t t = 0, n; t < a->n_tok && st == OK; t += n) {
		struct form f = form_of(h, a, a->n_tok - t);
		struct linear_rows_args r = args_of(&rest, &f);
		r.norm = norm;
		n = f.n_tok;
		st = LAUNCH(h, f.kernel,
			    ((struct hip_grid){r.grid, 1, 32 * f.waves, f.lds_bytes}), ARG(r));
		rest.x = (const uint16_t *)rest.x + (size_t)n * (size_t)r.k;
		for (int i = 0; i < a->n_out; i++)
			rest.out[i].y = hip_linear_next(rest.out[i].y, r.part[i].store, n,
							r.part[i].n);
	}
	return st;
}
