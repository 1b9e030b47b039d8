/* SPDX-License-Identifier: Apache-2.0
 *
 * linear at many tokens: linear_tile.hip. The tile is chosen by the numbers of
 * workgroups and compute units, unless `h->tile` gives it. The choice does not change
 * results.
 */
#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "backend/hip/hip_tune.h"
#include "kernels/linear/linear_tile.def"
#include "kernels/linear/linear_tile.h"

#define TILE(name, m, n, k, wm, wn, rate) {#name, m, n, wm, wn, rate, false},
#define ANY_TILE(name, m, n, k, wm, wn, rate) {#name, m, n, wm, wn, rate, true},
static const struct tile_shape tiles[] = {LINEAR_TILES(TILE, ANY_TILE)};
#undef ANY_TILE
#undef TILE

int hip_linear_tile_count(void)
{
	return (int)ARRAY_LEN(tiles);
}

const char *hip_linear_tile_name(int i)
{
	return tiles[i].name;
}

bool hip_linear_tile_is_any(int i)
{
	return tiles[i].is_any;
}

bool hip_linear_tile_takes(const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	for (int i = 0; i < a->n_out; i++) {
		const struct weight *w = a->out[i].w;
		if (!(w->fits & HIP_FITS_TILE) || w->quant != first->quant ||
		    w->group != first->group)
			return false;
	}
	return true;
}

/* Estimated cost: rounds of workgroups over the compute units, times the time of a
 * workgroup. */
static double cost(const struct hip *h, const struct tile_shape *s,
		   const struct linear_args *a)
{
	int32_t blocks = 0;
	for (int i = 0; i < a->n_out; i++)
		blocks += DIV_UP(a->out[i].w->n, s->block_n);
	double groups = (double)blocks * DIV_UP(a->n_tok, s->block_m);
	double rounds = groups / h->device.n_cu;
	if (rounds < 8) /* with more rounds, a partial last one matters little */
		rounds = (double)(int64_t)(rounds + 0.999999);
	return rounds * s->block_m * s->block_n / s->rate;
}

static const struct tile_shape *hip_linear_tile_choose(const struct hip *h,
						       const struct linear_args *a)
{
	bool must_any = a->out[0].w->quant != QUANT_INT4;
	if (h->tile >= 0 && tiles[h->tile].is_any >= must_any)
		return &tiles[h->tile];
	int32_t n = 0;
	for (int i = 0; i < a->n_out; i++)
		n += a->out[i].w->n;
	int tuned = hip_tune_find(
		h, (struct hip_tune_key){HIP_TUNE_TILE, n, a->out[0].w->k, a->n_tok});
	if (tuned >= 0 && tiles[tuned].is_any >= must_any)
		return &tiles[tuned];
	const struct tile_shape *best = NULL;
	for (size_t i = 0; i < ARRAY_LEN(tiles); i++)
		if (tiles[i].is_any >= must_any &&
		    (!best || cost(h, &tiles[i], a) < cost(h, best, a)))
			best = &tiles[i];
	return best;
}

static bool is_pair(const struct tile_shape *s, const struct linear_args *a)
{
	const struct weight *gate = a->out[0].w, *up = a->out[1].w;
	return a->act && a->act->kind == ACT_SILU && a->n_out == 2 && gate->n == up->n &&
	       gate->scale_type == up->scale_type && !a->out[0].is_f32 && !a->out[0].adds &&
	       LINEAR_TILE_PAIRS(s->block_n, s->waves_n);
}

enum status hip_linear_tile(struct hip *h, const struct linear_args *a)
{
	const struct tile_shape *s = hip_linear_tile_choose(h, a);
	const struct weight *first = a->out[0].w;
	struct linear_tile_args r = {.x = a->x, .m = a->n_tok, .k = first->k,
				     .n_groups = hip_groups(first),
				     .group_shift = hip_group_shift(first)};
	bool has_zeros = false;
	for (int i = 0; i < a->n_out; i++) {
		const struct linear_out *o = &a->out[i];
		has_zeros |= o->w->zero_points != NULL && first->quant == QUANT_INT4;
		r.part[i] = hip_linear_part(o);
		r.part[i].first_group = r.n_blocks;
		r.n_blocks += DIV_UP(o->w->n, s->block_n);
	}
	for (int i = a->n_out; i < LINEAR_ROWS_MAX_PART; i++)
		r.part[i].first_group = r.n_blocks;
	r.is_pair = is_pair(s, a);
	if (r.is_pair) { /* blocks of both, which the first part has all */
		r.n_blocks = DIV_UP(a->out[0].w->n, s->block_n / 2);
		r.part[1].first_group = r.n_blocks;
	}
	struct hip_grid g = {LINEAR_TILE_BLOCKS(r.m, s->block_m) * r.n_blocks, 1,
			     32 * s->waves_m * s->waves_n, 0};
	enum status st = LAUNCH(h, hip_kernel(KERNEL_LINEAR_TILE, PROFILE_COUNT,
					      "linear_tile_%s_%s%s_kernel", s->name,
					      quant_name(first->quant), has_zeros ? "_zero" : ""),
				g, ARG(r));
	return st == OK && !r.is_pair ? hip_linear_act(&h->base, a) : st;
}
