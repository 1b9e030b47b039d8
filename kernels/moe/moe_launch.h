/* SPDX-License-Identifier: Apache-2.0
 *
 * How the kernels of moe_experts are launched. C for the host, C++ for the kernels.
 *
 * Expert ids stay on the device: kernels look up their expert in a table of weights. A
 * shared expert, which all tokens use, is row E of the table. If it has the width and the
 * format of the others, it is one more slot after the U slots of each token (n_slots = U
 * + 1). Otherwise it has launches of its own (id NULL).
 *
 * Slot s of token t is pair t * n_slots + s.
 */
#pragma once
#include "kernels/moe/moe_router_launch.h"
#include "kernels/weights/weight_view.h"

enum {
	/* moe_rows.hip: waves of a workgroup, lanes that share a row, rows of a
	 * workgroup. */
	MOE_ROWS_WAVES = 8,
	MOE_ROWS_UP_THRDS = 16,
	MOE_ROWS_UP = MOE_ROWS_WAVES * 32 / MOE_ROWS_UP_THRDS * 2,
	MOE_ROWS_DOWN_THRDS = 8,
	MOE_ROWS_DOWN = 32 / MOE_ROWS_DOWN_THRDS * 4,
	MOE_ROWS_LDS = 65536, /* bytes of LDS that a workgroup may have */
	/* moe_group.h: pairs that share a read of an expert; most tokens and slots of a
	 * step, so that a pair fits a byte; most waves of a workgroup of down. */
	MOE_GROUP = 4,
	MOE_GROUP_TOK = 16,
	MOE_GROUP_SLOTS = 12,
	MOE_GROUP_WAVES = 8,
	/* Many tokens: an expert's output is stored over this, as a half. Above 65504 MOE_OUT_PART
	 * it becomes the largest one; below MOE_OUT_PART / 16384 it loses digits. */
	MOE_OUT_PART = 16
};
enum { MOE_GATE, MOE_UP, MOE_DOWN, MOE_PARTS };
/* activations that kernels can fuse */
enum moe_act { MOE_SILU, MOE_CLAMPED, MOE_GELU, MOE_RELU, MOE_CLIPPED };

struct moe_launch {
	int32_t dim;
	int32_t shared;        /* row of the shared expert in the table: E */
	const int32_t *id;     /* (T, U); NULL: every pair is the expert `shared`, U = 0 */
	uint16_t *h;           /* (T, U, F) f16 */
	float *y;              /* (T, D) f32, added to */
	const float *weight;   /* (T, U) f32; NULL: all are 1 */
	int32_t n_tok, n_used, n_slots, ffn;
	int32_t up_shift, down_shift; /* log2(group), or 31 for one group a row */
	const uint16_t *x;     /* (T, D) f16 */
	const struct weight_view *table; /* (E + 1, MOE_PARTS) */
	uint32_t act;          /* enum moe_act. The shared expert has MOE_SILU or, like the
				* others, MOE_RELU or MOE_CLIPPED */
	uint32_t is_bf16;      /* int4: the scales are bf16, not f16 */
	float alpha, limit;    /* alpha: MOE_CLAMPED; limit of |u|: it and MOE_CLIPPED */
	const float *gate_bias, *up_bias; /* (E, F) f32, or of_pairs; or NULL */
	const float *down_bias;           /* (E, D) f32, or NULL */
	uint16_t *shared_h;    /* (T, F) f16: h of the shared expert */
	float *shared_scale;   /* (T) f32: weight of the shared expert; NULL: 1 */
	struct weight_view shared_router; /* (1, D); q NULL: no router, or shared_scale is
					   * ready */
	int32_t n_waves; /* waves of a workgroup of down by groups of pairs (moe_group.h) */
	float gate_limit; /* most of g: MOE_CLAMPED and MOE_CLIPPED */
	uint32_t of_pairs; /* gate_bias and up_bias are (T, U, F), as h is (moe_lora.hip) */
	uint32_t filler;
};

struct moe_int4_axes {
	const char *name;
	int32_t thrds, ytile, waves, chunk, unroll; /* as in struct linear_int4_axes */
};

/* Bytes of LDS of moe_rows. table: 16-byte pieces, unit_table of the format. */
#define MOE_ROWS_UP_LDS(d, table) (((d) + 63) / 64 * 128 + (table) * 16)
#define MOE_ROWS_DOWN_LDS(n_slots, f, table) \
	((n_slots) * (((f) + 63) / 64 * 128 + MOE_ROWS_DOWN * 4) + (table) * 16)

/* Bytes of LDS of moe_int4_group_down and moe_rows_group_down: for each pair its part of y, in
 * `rows` rows; and for each of `waves` waves h of a group, h_bytes a pair. */
#define MOE_GROUP_DOWN_LDS(n_slots, rows, h_bytes, waves) \
	((n_slots) * MOE_GROUP_TOK * (rows) * 4 + (waves) * MOE_GROUP * (h_bytes))

/* Bytes of LDS of moe_int4_down: h of all slots, and the row sums of each slot. */
#define MOE_INT4_DOWN_ROWS(thrds, ytile) (32 / (thrds) * (ytile))
#define MOE_INT4_DOWN_LDS(n_slots, f, thrds, ytile, chunk) \
	(LINEAR_INT4_LDS_BYTES(n_slots, f, thrds, chunk) + \
	 (n_slots) * MOE_INT4_DOWN_ROWS(thrds, ytile) * 4)
