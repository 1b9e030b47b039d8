/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of 8 bits and less, and bf16, as the fast path reads them: a copy made at load,
 * 16 rows (a panel) interleaved so that one vector holds the same columns of all 16, and
 * a panel is one run of memory. Numbers stay what they are in the checkpoint: codes, zero
 * points and scales move, nothing is rounded or widened. Thread: engine.
 *
 * A panel is arrays of 16 rows, each aligned to 64 bytes:
 *   scales  as enum cpu_scaling says
 *   lows    zero points or minima: what is taken off, where the form has it
 *   supers  (K/256, 16) float16, and those of the minima, where scales are small integers
 *           that these multiply
 *   q       of each 32 columns, one behind the other, those of
 *           4 bits: (4, 16) uint32, nibble i of word j is column 8 j + i
 *           2 bits: (2, 16) uint32, pair m of byte b of word h is column
 *                   16 h + m / 2 * 8 + 2 b + m % 2
 *           1 bit:  (16) uint32, bit m of byte b is column m / 2 * 8 + 2 b + m % 2
 *           8 bits: (8, 16) uint32, the bytes columns 8 j + 0 2 4 6, and + 1 3 5 7
 *           that enum cpu_form lists. E4M3: (K/4, 16) uint32 of the columns 0 2 1 3
 *           of four. BF16: (K/2, 16) uint32 of two columns; K is rounded up to a
 *           multiple of four, with zeros.
 * Bit m of a byte b in word w (0 .. 7, where a word is 0 2 4 6 or 1 3 5 7 of eight
 * columns) thus is where the nibble or byte of the same column comes to lie when the
 * words are unpacked, so that all parts meet without a shuffle. Rows past the last are
 * zero.
 */
#pragma once
#include <stdbool.h>

#include "base/pool.h"
#include "base/status.h"
#include "model/formats/blocks.h"

#define CPU_PANEL_ROWS 16

/* What a column's code u is made of, and its number v. */
enum cpu_form {
	CPU_FORM_4,      /* 4 bits; v = u - zero */
	CPU_FORM_8,      /* 8 bits; v = u - zero */
	CPU_FORM_4_MIN,  /* 4 bits; v = u, and a minimum is taken off what is scaled */
	CPU_FORM_5,      /* 4 + 1 bits; v = u - 16 */
	CPU_FORM_5_MIN,  /* 4 + 1 bits; v = u */
	CPU_FORM_6,      /* 4 + 2 bits; v = u - 32; a scale for 16 columns */
	CPU_FORM_3,      /* 2 + 1 bits; v = u - 4; a scale for 16 columns */
	CPU_FORM_2_MIN,  /* 2 bits; v = u; a scale and a minimum for 16 columns */
	CPU_FORM_E2M1,   /* 4 bits; v = 2 e2m1 */
	CPU_FORM_E2M1_16, /* the same with a scale for 16 columns */
	CPU_FORM_IQ4,    /* 4 bits; v = blocks_iq4[u] */
	CPU_FORM_GRID,   /* IQ2_XXS: (2, 16) uint32: the indices of four groups; their
			  * signs and the scale */
	CPU_FORM_E4M3,   /* 8 bits; the number itself */
	CPU_FORM_BF16,   /* 16 bits; likewise, without a scale */
	CPU_FORM_COUNT,
	CPU_FORM_NONE = CPU_FORM_COUNT
};

enum cpu_scaling {
	CPU_SCALING_FLOAT, /* (K/group, 16) of scale_type; minima the same */
	CPU_SCALING_E8M0,  /* (K/32, 16) bytes: half of 2^(byte - 127) */
	CPU_SCALING_E4M3,  /* (K/16, 16) bytes, times `factor` */
	CPU_SCALING_SUPER, /* (K/group, 16) signed bytes times the super; minima bytes,
			    * times theirs */
	CPU_SCALING_PAIR,  /* (K/16, 16) bytes: a scale in the low nibble, a minimum in
			    * the high one, times the supers */
	CPU_SCALING_GRID,  /* with the signs: 2 s + 1, times the super, times 1/8 */
	CPU_SCALING_NONE,
};

struct cpu_panels {
	int32_t n, k;
	int32_t group; /* columns of a scale */
	enum cpu_form form;
	enum cpu_scaling scaling;
	enum dtype scale_type;
	bool has_zero;      /* CPU_FORM_4, 8: zero points, bytes; else 8, 128 */
	bool has_nan_scale; /* CPU_SCALING_E8M0: 255 is one */
	float factor;
	/* (K): column i of the panels is column order[i] of the weight. NULL: both are in
	 * the same order. */
	const int32_t *order;
	size_t at_low, at_super, at_q, panel_bytes;
	const uint8_t *data; /* (ceil(N/16), panel_bytes) */
};

/* Is w of a format that becomes panels? */
bool cpu_panels_can(const struct weight *w);
/* The shape of w's panels: all of *out but data and order. */
void cpu_panels_plan(const struct weight *w, struct cpu_panels *out);
size_t cpu_panels_bytes(const struct cpu_panels *p);
/* All panels to `out`, cpu_panels_bytes, or panel i alone, panel_bytes, of zeros. False: w has
 * numbers that panels cannot say (NaN in FP8). */
bool cpu_panels_fill(struct pool *pool, const struct weight *w,
		     const struct cpu_panels *p, uint8_t *out) MUST_USE;
bool cpu_panels_fill_one(const struct weight *w, const struct cpu_panels *p, int32_t i,
			 uint8_t *out) MUST_USE;

/* The columns of a weight whose groups are mixed (group_of) by rising group, into
 * out (K). False where not all groups are of the same size. */
bool cpu_panels_order(const struct weight *w, int32_t *out);

/* How much larger panels are than weights of format q in the file, of common groups; 0:
 * they are read where they lie. */
double cpu_panels_growth(enum quant q);

/* Pairs of K columns as panels and inputs of bf16 have them: an even number. */
static inline size_t cpu_pairs_of(int32_t k)
{
	return ((size_t)k + 3) / 4 * 2;
}

/* Bits of a code, without scales. */
static inline int cpu_form_bits(enum cpu_form f)
{
	switch (f) {
	case CPU_FORM_2_MIN: case CPU_FORM_GRID: return 2;
	case CPU_FORM_3: return 3;
	case CPU_FORM_5: case CPU_FORM_5_MIN: return 5;
	case CPU_FORM_6: return 6;
	case CPU_FORM_8: case CPU_FORM_E4M3: return 8;
	case CPU_FORM_BF16: return 16;
	default: return 4;
	}
}

/* Columns that share what is summed as integers: 16 or 32. */
static inline int cpu_form_sub(enum cpu_form f)
{
	return f == CPU_FORM_6 || f == CPU_FORM_3 || f == CPU_FORM_2_MIN ||
			       f == CPU_FORM_E2M1_16
		       ? 16
		       : 32;
}

static inline bool cpu_form_has_min(enum cpu_form f)
{
	return f == CPU_FORM_4_MIN || f == CPU_FORM_5_MIN || f == CPU_FORM_2_MIN;
}

static inline int32_t cpu_panels_count(const struct cpu_panels *p)
{
	return (p->n + CPU_PANEL_ROWS - 1) / CPU_PANEL_ROWS;
}

static inline const uint8_t *cpu_panels_at(const struct cpu_panels *p, int32_t i)
{
	return p->data + (size_t)i * p->panel_bytes;
}
