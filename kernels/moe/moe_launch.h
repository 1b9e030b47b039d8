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
#include "kernels/linear/quad_launch.h"
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
	MOE_GROUP_WAVES = 8
};
enum { MOE_GATE, MOE_UP, MOE_DOWN, MOE_PARTS };
/* activations that kernels can fuse */
enum moe_act { MOE_SILU, MOE_CLAMPED, MOE_GELU, MOE_RELU, MOE_CLIPPED };

/* Addresses of an array of each expert: expert e has p[e >= split] + e * step. Device
 * memory is allocated in blocks, and one block may end within a layer. */
struct moe_run {
	const char *p[2];
	uint64_t step; /* bytes between experts */
	int32_t split;
	int32_t filler; /* tests/lint/check-padding */
};

/* Addresses of the experts' weights of one part (gate, up or down), without zero points. */
struct moe_span {
	struct moe_run q, scales; /* q.p[0] NULL: use the table */
	int32_t pitch;            /* as in struct weight_view */
	int32_t filler; /* tests/lint/check-padding */
};

/* Fields are in the order of their use by moe_quad.hip, for the reason that linear_int4.h tells. */
struct moe_launch {
	/* moe_quad.hip, one token: the logits are still `sums` (E) of moe_route.hip, and x is
	 * what `norm` makes. up writes x to norm.y, and down leaves the sums zero. NULL: x and
	 * the logits are ready. */
	struct fused_norm norm;
	uint64_t *sums;
	int32_t dim;
	int32_t shared;        /* row of the shared expert in the table: E */
	const int32_t *id;     /* (T, U); NULL: every pair is the expert `shared`, U = 0 */
	uint16_t *h;           /* (T, U, F) f16 */
	float *y;              /* (T, D) f32, added to */
	const float *weight;   /* (T, U) f32; NULL: all are 1 */
	int32_t n_tok, n_used, n_slots, ffn;
	/* moe_quad.hip: the workgroups of a pair (up) or token (down). Workgroup i takes blocks i,
	 * i + up_step, … of the rows. */
	int32_t up_step, down_step;
	int32_t up_shift, down_shift; /* log2(group), or 31 for one group a row */
	struct moe_span span[MOE_PARTS]; /* moe_quad.hip: weights of the routed experts */
	/* (T, E) f32: the up kernel chooses id and weight from them (moe_pick.h). NULL:
	 * id and weight are ready. */
	const float *logits;
	const uint16_t *x;     /* (T, D) f16 */
	struct moe_router_rule rule;
	const struct weight_view *table; /* (E + 1, MOE_PARTS) */
	uint32_t act;          /* enum moe_act. The shared expert has MOE_SILU or, like the
				* others, MOE_RELU or MOE_CLIPPED */
	uint32_t is_bf16;      /* int4: the scales are bf16, not f16 */
	float alpha, limit;    /* parameters of MOE_CLAMPED; limit of MOE_CLIPPED */
	const float *gate_bias, *up_bias; /* (E, F) f32, or NULL */
	const float *down_bias;           /* (E, D) f32, or NULL */
	uint16_t *shared_h;    /* (T, F) f16: h of the shared expert */
	float *shared_scale;   /* (T) f32: weight of the shared expert; NULL: 1 */
	struct weight_view shared_router; /* (1, D); q NULL: no router, or shared_scale is
					   * ready */
	int32_t n_waves; /* waves of a workgroup of down by groups of pairs (moe_group.h) */
	int32_t filler; /* tests/lint/check-padding */
};

/* 1 if each pair's first workgroup of up has no rows, but does the work that a token
 * needs once (kernels/moe/moe_pick.h). */
#define MOE_UP_FIRST(l) ((l).logits || (l).shared_router.q ? 1 : 0)

struct moe_int4_axes {
	const char *name;
	int32_t thrds, ytile, waves, chunk, unroll; /* as in struct linear_int4_axes */
};

enum { MOE_QUAD_DOWN_WAVES = 8 }; /* fewest waves of a workgroup of down in moe_quad.def */
/* A row of moe_quad.def. */
struct moe_quad_axes {
	const char *name;
	int32_t split;  /* waves that divide the elements of K */
	int32_t waves;  /* up: sets of SPLIT waves, 8 rows each; down: all waves */
	int32_t unroll;
	int32_t room;   /* KERNEL_OF_MANY: workgroups that must fit at once */
	bool goes_on;   /* a workgroup may take several blocks of rows */
};

/* Bytes of LDS of moe_quad. up: QUAD_LDS, the waves' sums of the next block, a choice, and
 * logits; or x and the shared expert's router.
 * down, for each slot: h, the waves' sums, the slot's part of y, and its weight. */
#define MOE_QUAD_UP_ROWS_LDS(k, split, rows, n_experts, n_used) \
	(QUAD_LDS(1, k, split, rows) + (split) * (rows) * QUAD_ROWS * 4 + \
	 MOE_ROUTE_LDS(n_experts, n_used))
#define MOE_QUAD_UP_LDS(k, split, rows, n_experts, n_used) \
	(MOE_QUAD_UP_ROWS_LDS(k, split, rows, n_experts, n_used) > (k) * 4 \
		 ? MOE_QUAD_UP_ROWS_LDS(k, split, rows, n_experts, n_used) : (k) * 4)
#define MOE_QUAD_DOWN_LDS(n_slots, f, split) \
	(QUAD_ZEROS * 16 + (n_slots) * ((f) * 2 + ((split) + 1) * QUAD_ROWS * 4 + 4))
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
