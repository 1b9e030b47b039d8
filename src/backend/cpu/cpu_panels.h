/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of at most 8 bits, and bf16, packed for the fast path when loaded. A panel is
 * 16 rows, interleaved so that one vector holds the same columns of all 16; it is
 * contiguous in memory. Numbers are those of the checkpoint: packing moves codes, zero
 * points and scales, and rounds or widens nothing. Thread: engine.
 *
 * A panel consists of arrays of 16 rows, each aligned to 64 bytes:
 *
 *   scales  see enum cpu_scaling
 *   lows    zero points or minima, which are subtracted, if the form has them
 *   supers  (K/256, 16) float16 factors of scales that are small integers; then those
 *           of the minima
 *   q       for each 32 columns in turn, the arrays that enum cpu_form lists:
 *           4 bits: (4, 16) uint32, nibble i of word j is column 8 j + i
 *           2 bits: (2, 16) uint32, pair m of byte b of word h is column
 *                   16 h + m / 2 * 8 + 2 b + m % 2
 *           1 bit:  (16) uint32, bit m of byte b is column m / 2 * 8 + 2 b + m % 2
 *           8 bits: (8, 16) uint32; bytes of a word are columns 8 j + 0 2 4 6, of the
 *                   next word 8 j + 1 3 5 7
 *           E4M3: (K/4, 16) uint32 of the columns 0 2 1 3 of each four
 *           BF16: (K/2, 16) uint32 of two columns; K is padded with zeros to a multiple
 *           of four
 *
 * Unpacking nibbles or bytes gives eight words (w = 0 .. 7) that hold columns 0 2 4 6 or
 * 1 3 5 7 of eight. Bit m of byte b above belongs to byte b of word w = m. So all parts
 * of a code meet without a shuffle. Rows past the last are zero.
 */
#pragma once
#include <stdbool.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "base/status.h"
#include "model/formats/blocks.h"

#define CPU_PANEL_ROWS 16

/* The parts of a column's code u, and its value v. */
enum cpu_form {
	CPU_FORM_4,      /* 4 bits; v = u - zero */
	CPU_FORM_8,      /* 8 bits; v = u - zero */
	CPU_FORM_4_MIN,  /* 4 bits; v = u; the minimum is subtracted after scaling */
	CPU_FORM_5,      /* 4 + 1 bits; v = u - 16 */
	CPU_FORM_5_MIN,  /* 4 + 1 bits; v = u */
	CPU_FORM_6,      /* 4 + 2 bits; v = u - 32; one scale for 16 columns */
	CPU_FORM_3,      /* 2 + 1 bits; v = u - 4; one scale for 16 columns */
	CPU_FORM_2_MIN,  /* 2 bits; v = u; a scale and a minimum for 16 columns */
	CPU_FORM_E2M1,   /* 4 bits; v = twice the e2m1 value */
	CPU_FORM_E2M1_16, /* CPU_FORM_E2M1 with one scale for 16 columns */
	CPU_FORM_IQ4,    /* 4 bits; v = blocks_iq4[u] */
	CPU_FORM_NF4,    /* 4 bits; v = 256 blocks_nf4[u] + blocks_nf4_low[u] */
	CPU_FORM_IQ1,    /* 4 bits; v = -9 -7 -1 1 7 9; one scale for 16 columns */
	CPU_FORM_IQ2,    /* 4 bits; v = 8 25 43, or negative from u = 8 on; one scale for 16
			  * columns */
	CPU_FORM_IQ3_XXS, /* 4 bits; v = 4 12 20 28 36 44 52 62, then their negatives */
	CPU_FORM_IQ3_S,  /* 4 bits; v = 1 3 5 7 9 11 13 15, then their negatives */
	CPU_FORM_GRID,   /* IQ2_XXS: (2, 16) uint32: indices of four groups; then their
			  * signs and the scale */
	CPU_FORM_E4M3,   /* 8 bits; u is the e4m3 number */
	CPU_FORM_BF16,   /* 16 bits; u is the bf16 number; no scale */
	CPU_FORM_COUNT,
	CPU_FORM_NONE = CPU_FORM_COUNT
};

enum cpu_scaling {
	CPU_SCALING_FLOAT, /* (K/group, 16) of scale_type; minima likewise */
	CPU_SCALING_E8M0,  /* (K/32, 16) bytes: 2^(byte - 127) / 2 */
	CPU_SCALING_E4M3,  /* (K/16, 16) e4m3 bytes, times `factor` */
	CPU_SCALING_SUPER, /* (K/group, 16) signed bytes times the super; minima are bytes
			    * times their super */
	CPU_SCALING_PAIR,  /* (K/16, 16) bytes times the supers: scale in the low nibble,
			    * minimum in the high */
	CPU_SCALING_GRID,  /* stored with the signs: (2 s + 1) / 8 times the super */
	CPU_SCALING_NONE,
};

struct cpu_panels {
	int32_t n, k;
	int32_t group; /* columns that share a scale */
	enum cpu_form form;
	enum cpu_scaling scaling;
	enum dtype scale_type;
	bool has_zero;      /* CPU_FORM_4, 8: zero points as bytes; else all are 8, 128 */
	bool has_nan_scale; /* CPU_SCALING_E8M0: byte 255 means NaN */
	float factor;
	/* (K): column i of the panels is column order[i] of the weight. NULL: the same
	 * order. */
	const int32_t *order;
	size_t at_low, at_super, at_q, panel_bytes;
	const uint8_t *data; /* (ceil(N/16), panel_bytes) */
};

/* True if w's format can become panels. */
bool cpu_panels_can(const struct weight *w);
/* Compute the layout of w's panels: all fields of *out but data and order. */
void cpu_panels_plan(const struct weight *w, struct cpu_panels *out);
size_t cpu_panels_bytes(const struct cpu_panels *p);
/* Fill all panels (`out` has cpu_panels_bytes), or panel i alone (panel_bytes). `out`
 * must be zeroed. False: w has numbers that panels cannot represent (NaN in FP8). */
bool cpu_panels_fill(struct pool *pool, const struct weight *w,
		     const struct cpu_panels *p, uint8_t *out) MUST_USE;
bool cpu_panels_fill_one(const struct weight *w, const struct cpu_panels *p, int32_t i,
			 uint8_t *out) MUST_USE;

/* Bytes of panels divided by bytes in the file, for format q with usual groups. 0: the
 * format is read in place. */
double cpu_panels_growth(enum quant q);

/* Number of bf16 pairs in a panel's row, or an input, of K columns. It is even. */
static inline size_t cpu_pairs_of(int32_t k)
{
	return ((size_t)k + 3) / 4 * 2;
}

/* Bits of a code without scales. */
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

/* Columns that are summed as integers before scaling: 16 or 32. */
static inline int cpu_form_sub(enum cpu_form f)
{
	return f == CPU_FORM_6 || f == CPU_FORM_3 || f == CPU_FORM_2_MIN ||
			       f == CPU_FORM_E2M1_16 || f == CPU_FORM_IQ1 ||
			       f == CPU_FORM_IQ2
		       ? 16
		       : 32;
}

static inline bool cpu_form_has_min(enum cpu_form f)
{
	return f == CPU_FORM_4_MIN || f == CPU_FORM_5_MIN || f == CPU_FORM_2_MIN;
}

static inline int32_t cpu_panels_count(const struct cpu_panels *p)
{
	return DIV_UP(p->n, CPU_PANEL_ROWS);
}

static inline const uint8_t *cpu_panels_at(const struct cpu_panels *p, int32_t i)
{
	return p->data + (size_t)i * p->panel_bytes;
}
