/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product of the fast path: 16 rows of a weight times a tile of up to CPU_TOK
 * inputs. Weights of at most 8 bits, and bf16, are packed to panels (cpu_panels.h). They
 * multiply inputs rounded to 8 bits; panels of FP8 and bf16 take inputs as bf16 or
 * floats. Other float weights stay in the file's layout and take inputs as floats
 * (cpu_isa.h). Thread: engine and the pool's.
 */
#pragma once
#include "backend/cpu/cpu.h"
#include "base/alloc.h"

enum cpu_path {
	CPU_PATH_TILE,  /* cpu_tile.h, with activations unrounded */
	CPU_PATH_PANEL, /* panels, with inputs rounded to 8 bits */
	CPU_PATH_WIDE,  /* panels of e4m3 and bf16; inputs from cpu_isa.spread */
	CPU_PATH_DOT,   /* rows in the file's layout, inputs as floats */
};

struct cpu_way {
	enum cpu_path path;
	enum cpu_number number; /* CPU_PATH_DOT: type of the weights */
	int planes;             /* 1, or 2: rounded inputs are a sum of two planes, which
				 * take two places of a tile */
	bool is_halved;         /* CPU_PATH_PANEL: see struct cpu_rounding */
	const int32_t *order;   /* CPU_PATH_PANEL: see struct cpu_rounding */
	const float *in_scale;  /* the same */
};

/* The way in which this backend multiplies w. Weights of the same way share prepared
 * inputs. */
struct cpu_way cpu_way_of(const struct backend *b, const struct weight *w);
static inline bool cpu_way_is_same(struct cpu_way v, struct cpu_way w)
{
	return v.path == w.path && v.number == w.number && v.planes == w.planes &&
	       v.is_halved == w.is_halved && v.order == w.order &&
	       v.in_scale == w.in_scale;
}

/* Divides n inputs into tiles of nearly equal size. */
struct cpu_split {
	int n, n_tiles, per; /* each tile but the last has `per` inputs */
};
static inline struct cpu_split cpu_split_of(struct cpu_way way, int n)
{
	int most = CPU_TOK / way.planes, n_tiles = DIV_UP(n, most);
	int per = n_tiles ? DIV_UP(n, n_tiles) : 0;
	return (struct cpu_split){n, per ? DIV_UP(n, per) : 0, per};
}

static inline int cpu_split_count(const struct cpu_split *s, int i)
{
	return i + 1 < s->n_tiles ? s->per : s->n - i * s->per;
}

/* Bytes of one input of K elements in a tile; a multiple of 4. */
size_t cpu_fast_input_bytes(const struct backend *b, struct cpu_way way, int32_t k);
/* Prepare inputs x[0 .. n_x) of K elements as a tile. */
void cpu_fast_prepare(const struct backend *b, struct cpu_way way, int32_t k,
		      const float *const *x, int n_x, void *tile);
/* out[t][j][r] = row 16 i + r of w times input j of tile t. w must have this way; n_x
 * counts inputs. */
void cpu_fast_block(const struct backend *b, struct cpu_way way,
		    const struct weight *w, int32_t i, const struct cpu_tiles *tiles,
		    float (*out)[CPU_TOK][CPU_PANEL_ROWS]);

static inline int32_t cpu_fast_blocks(const struct weight *w)
{
	return DIV_UP(w->n, CPU_PANEL_ROWS);
}
