/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation linear. The row blocks of all weights form one sequence of units of work,
 * so that q, k and v share one loop over the pool. Weights of one call may be multiplied
 * in different ways (cpu_fast.h); those of the same way are done together.
 *
 * Fast way: the inputs are prepared once, in tiles. A unit is a few blocks of rows times
 * a few tiles. The tiles stay in a core's second-level cache while the rows pass, and
 * consecutive units read the same rows.
 */
#include <stdlib.h>

#include "backend/cpu/cpu_fast.h"
#include "backend/cpu/cpu_tile.h"
#include "base/alloc.h"
#include "base/vec4.h"

/* --- exact way ---------------------------------------------------------------------- */

static void cpu_linear_store(const struct linear_out *o, int32_t n0, int n_rows, int tok,
			     const float *sums)
{
	float *y = (float *)o->y + (size_t)tok * (size_t)o->w->n + n0;
	int r = 0;
	for (; r + 4 <= n_rows; r += 4) {
		vec4 sum = vec4_load(sums + r);
		if (o->bias)
			sum += vec4_load(o->bias + n0 + r);
		vec4_store(y + r, o->adds ? vec4_load(y + r) + sum : sum);
	}
	for (; r < n_rows; r++) {
		float sum = sums[r] + (o->bias ? o->bias[n0 + r] : 0);
		y[r] = o->adds ? y[r] + sum : sum;
	}
}

static void run_tiles(void *arg, int begin, int end)
{
	const struct linear_args *a = arg;
	float sums[TILE_TOK][TILE_ROWS];
	const float *x[TILE_TOK];
	for (int t0 = 0; t0 < a->n_tok; t0 += TILE_TOK) {
		int n_tok = MIN(TILE_TOK, a->n_tok - t0);
		for (int j = 0; j < n_tok; j++)
			x[j] = (const float *)a->x +
			       (size_t)(t0 + j) * (size_t)a->out[0].w->k;
		const struct linear_out *o = a->out;
		int first = 0; /* index of the unit of o's first tile */
		for (int i = begin; i < end; i++) {
			while (i - first >= cpu_tiles(o->w->n))
				first += cpu_tiles(o++->w->n);
			int32_t n0 = (i - first) * TILE_ROWS;
			cpu_tile(o->w, n0, x, n_tok, sums);
			for (int j = 0; j < n_tok; j++)
				cpu_linear_store(o, n0, MIN(TILE_ROWS, o->w->n - n0), t0 + j,
						 sums[j]);
		}
	}
}

static void run_plain(struct backend *b, const struct linear_args *a)
{
	int n_tiles = 0;
	for (int i = 0; i < a->n_out; i++)
		n_tiles += cpu_tiles(a->out[i].w->n);
	size_t work = (size_t)a->n_tok * (size_t)a->out[0].w->k * TILE_ROWS;
	cpu_for(b, n_tiles, work, run_tiles, a);
}

/* --- fast way -------------------------------------------------------------------------- */

enum { UNIT_BLOCKS = 4 };

struct linear_job {
	struct backend *b;
	const struct linear_args *a;
	struct cpu_way way;
	struct cpu_split split;
	size_t input_bytes;
	char *tiles;
	int n_token_units, blocks; /* units for one set of row blocks; row blocks in a unit */
};

static const char *tile_at(const struct linear_job *j, int i)
{
	return j->tiles + (size_t)i * (size_t)j->split.per * j->input_bytes;
}

static void run_prepare(void *arg, int begin, int end)
{
	const struct linear_job *j = arg;
	const struct weight *w = j->a->out[0].w;
	for (int i = begin; i < end; i++) {
		const float *x[CPU_TOK];
		int n = cpu_split_count(&j->split, i);
		for (int t = 0; t < n; t++)
			x[t] = (const float *)j->a->x +
			       ((size_t)i * (size_t)j->split.per + (size_t)t) *
				       (size_t)w->k;
		cpu_fast_prepare(j->b, j->way, w->k, x, n, (char *)tile_at(j, i));
	}
}

/* Prefetch the outputs, whose rows are far apart, while their sums are computed. Inlined
 * for the reason given at fetch_y in cpu_moe_fast.c. */
VEC4_INLINE void fetch_out(const struct linear_out *o, int32_t n0, int tok, int end)
{
	for (; tok < end; tok++)
		__builtin_prefetch((float *)o->y + (size_t)tok * (size_t)o->w->n + n0, 1, 2);
}

/* Compute one block of rows for tiles [tile, tile + n). */
static void run_block(const struct linear_job *j, const struct linear_out *o, int32_t block,
		      int tile, int n)
{
	float sums[CPU_TILES][CPU_TOK][CPU_PANEL_ROWS];
	struct cpu_tiles tiles = {.at = tile_at(j, tile), .n = n};
	int32_t n0 = block * CPU_PANEL_ROWS;
	for (int t = 0; t < n; t++)
		tiles.n_x[t] = cpu_split_count(&j->split, tile + t);
	fetch_out(o, n0, tile * j->split.per, MIN((tile + n) * j->split.per, j->a->n_tok));
	cpu_fast_block(j->b, j->way, o->w, block, &tiles, sums);
	for (int t = 0; t < n; t++)
		for (int i = 0; i < tiles.n_x[t]; i++)
			cpu_linear_store(o, n0, MIN(CPU_PANEL_ROWS, o->w->n - n0),
					 (tile + t) * j->split.per + i, sums[t][i]);
}

static int units_of(const struct linear_job *j, const struct linear_out *o)
{
	return DIV_UP(cpu_fast_blocks(o->w), j->blocks) * j->n_token_units;
}

static void run_units(void *arg, int begin, int end)
{
	const struct linear_job *j = arg;
	const struct linear_out *o = j->a->out;
	int first = 0; /* index of the unit of o's first block */
	for (int i = begin; i < end; i++) {
		while (i - first >= units_of(j, o))
			first += units_of(j, o++);
		int32_t block = (i - first) / j->n_token_units * j->blocks;
		int32_t last = MIN(block + j->blocks, cpu_fast_blocks(o->w));
		int tile = (i - first) % j->n_token_units * CPU_TILES;
		int n = MIN(CPU_TILES, j->split.n_tiles - tile);
		for (; block < last; block++)
			run_block(j, o, block, tile, n);
	}
}

static enum status run_fast(struct backend *b, const struct linear_args *a,
			    struct cpu_way way)
{
	const struct weight *w = a->out[0].w;
	struct linear_job j = {.b = b, .a = a, .way = way, .split = cpu_split_of(way, a->n_tok),
			.input_bytes = cpu_fast_input_bytes(b, way, w->k)};
	j.tiles = cpu_scratch(b, (size_t)a->n_tok * j.input_bytes);
	if (!j.tiles)
		return E_NOMEM;
	j.n_token_units = DIV_UP(j.split.n_tiles, CPU_TILES);
	j.blocks = j.split.n_tiles == 1 ? 1 : UNIT_BLOCKS;
	cpu_for(b, j.split.n_tiles, (size_t)j.split.per * (size_t)w->k / 8, run_prepare,
		&j);
	int n = 0;
	for (int i = 0; i < a->n_out; i++)
		n += units_of(&j, &a->out[i]);
	size_t tokens = (size_t)MIN(a->n_tok, CPU_TILES * j.split.per);
	cpu_for(b, n, tokens * (size_t)w->k * (size_t)(2 * j.blocks), run_units, &j);
	return OK;
}

static enum status run_all(struct backend *b, const struct linear_args *a)
{
	bool is_done[LINEAR_MAX_OUT] = {false};
	enum status st = OK;
	for (int i = 0; i < a->n_out && st == OK; i++) {
		struct linear_args part = {.n_tok = a->n_tok, .x = a->x};
		struct cpu_way way = cpu_way_of(b, a->out[i].w);
		for (int o = i; o < a->n_out; o++) {
			struct cpu_way its = cpu_way_of(b, a->out[o].w);
			if (is_done[o] || !cpu_way_is_same(way, its))
				continue;
			part.out[part.n_out++] = a->out[o];
			is_done[o] = true;
		}
		if (part.n_out == 0)
			continue;
		if (way.path == CPU_PATH_TILE)
			run_plain(b, &part);
		else
			st = run_fast(b, &part, way);
	}
	return st;
}

enum status cpu_linear(struct backend *b, const struct linear_args *a)
{
	enum status st = a->norm ? cpu_rms_norm(b, a->norm) : OK;
	if (b->profile)
		backend_count_linear(b, a);
	if (st == OK)
		st = run_all(b, a);
	if (st != OK || !a->act)
		return st;
	void *y = a->out[0].y;
	return cpu_act_mul(b, &(struct act_mul_args){
				      .n_tok = a->n_tok, .dim = a->out[0].w->n,
				      .act = *a->act, .gate = y, .up = a->out[1].y,
				      .y = y});
}
