/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product of the fast path: 16 rows of a weight times a tile of up to
 * CPU_TOK inputs, in one of two ways. Weights of 8 bits and less, and bf16, are panels
 * (cpu_panels.h) times inputs rounded to 8 bits, or, of FP8 and bf16, rounded to bf16 or
 * as floats; other floats lie as in the file, times inputs as floats (cpu_isa.h).
 * Thread: engine and the pool's.
 */
#pragma once
#include "backend/cpu/cpu.h"

enum cpu_path {
	CPU_PATH_TILE,  /* cpu_tile.h, with activations as they are */
	CPU_PATH_PANEL, /* inputs of 8 bits */
	CPU_PATH_WIDE,  /* panels of e4m3 and bf16: inputs as cpu_isa.spread has them */
	CPU_PATH_DOT,   /* rows, inputs as floats */
};

struct cpu_way {
	enum cpu_path path;
	enum cpu_number number; /* of CPU_PATH_DOT */
	int planes;             /* inputs that are rounded are so once, or as a sum of
				 * two, which take two places of a tile */
	bool is_halved;         /* of CPU_PATH_PANEL: see struct cpu_rounding */
	const int32_t *order;
};

/* Which way w goes in this backend. Weights that go the same way share prepared inputs. */
struct cpu_way cpu_way_of(const struct backend *b, const struct weight *w);
static inline bool cpu_way_is_same(struct cpu_way v, struct cpu_way w)
{
	return v.path == w.path && v.number == w.number && v.planes == w.planes &&
	       v.is_halved == w.is_halved && v.order == w.order;
}

/* n inputs in tiles of nearly the same size. */
struct cpu_split {
	int n, n_tiles, per; /* `per` in each tile but the last */
};
static inline struct cpu_split cpu_split_of(struct cpu_way way, int n)
{
	int most = CPU_TOK / way.planes, n_tiles = (n + most - 1) / most;
	int per = n_tiles ? (n + n_tiles - 1) / n_tiles : 0;
	return (struct cpu_split){n, per ? (n + per - 1) / per : 0, per};
}

static inline int cpu_split_count(const struct cpu_split *s, int i)
{
	return i + 1 < s->n_tiles ? s->per : s->n - i * s->per;
}

/* Bytes that an input of K takes in a tile; a multiple of 4. */
size_t cpu_fast_input_bytes(const struct backend *b, struct cpu_way way, int32_t k);
/* x[0 .. n_x) of K into a tile. */
void cpu_fast_prepare(const struct backend *b, struct cpu_way way, int32_t k,
		      const float *const *x, int n_x, void *tile);
/* out[t][j][r] = row 16 i + r of w, which goes that way, times input j of tile t; n_x
 * counts inputs. */
void cpu_fast_block(const struct backend *b, struct cpu_way way,
		    const struct weight *w, int32_t i, const struct cpu_tiles *tiles,
		    float (*out)[CPU_TOK][CPU_PANEL_ROWS]);

static inline int32_t cpu_fast_blocks(const struct weight *w)
{
	return (w->n + CPU_PANEL_ROWS - 1) / CPU_PANEL_ROWS;
}
