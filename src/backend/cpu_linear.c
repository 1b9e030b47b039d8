/* SPDX-License-Identifier: Apache-2.0
 *
 * linear: tiles of all the weights in one row of units, so that q, k and v share a
 * loop over the pool.
 */
#include "backend/cpu.h"
#include "backend/cpu_tile.h"
#include "base/alloc.h"

static void store(const struct linear_out *o, int32_t n0, int t0, int n_tok,
		  const float (*sums)[TILE_ROWS])
{
	int n_rows = MIN(TILE_ROWS, o->w->n - n0);
	for (int j = 0; j < n_tok; j++) {
		float *y = (float *)o->y + (size_t)(t0 + j) * (size_t)o->w->n + n0;
		for (int r = 0; r < n_rows; r++) {
			float sum = sums[j][r] + (o->bias ? o->bias[n0 + r] : 0);
			y[r] = o->adds ? y[r] + sum : sum;
		}
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
		int first = 0; /* unit of o's first tile */
		for (int i = begin; i < end; i++) {
			while (i - first >= cpu_tiles(o->w->n))
				first += cpu_tiles(o++->w->n);
			int32_t n0 = (i - first) * TILE_ROWS;
			cpu_tile(o->w, n0, x, n_tok, sums);
			store(o, n0, t0, n_tok, sums);
		}
	}
}

enum status cpu_linear(struct backend *b, const struct linear_args *a)
{
	int n_tiles = 0;
	for (int i = 0; i < a->n_out; i++)
		n_tiles += cpu_tiles(a->out[i].w->n);
	size_t work = (size_t)a->n_tok * (size_t)a->out[0].w->k * TILE_ROWS;
	cpu_for(b, n_tiles, work, run_tiles, a);
	return OK;
}
