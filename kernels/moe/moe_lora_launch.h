/* SPDX-License-Identifier: Apache-2.0
 *
 * The argument of moe_lora's kernels, with device addresses. C for the host, C++ for the kernels.
 * A launch is for gate and up, which read x, or for down, which reads h.
 */
#pragma once
#include "kernels/moe/moe_tile.h"
#include "kernels/rows/lora_launch.h"

enum {
	MOE_LORA_WAVES = 8,    /* of a workgroup of down … */
	MOE_LORA_LOWS = 8,     /* … the numbers of low that a wave computes at once, … */
	MOE_LORA_EACH = 2,     /* … and elements of y of a lane, and of a workgroup */
	MOE_LORA_COLUMNS = 32 * MOE_LORA_EACH,
	MOE_LORA_THREADS = 256, /* many tokens: of a workgroup */
	MOE_LORA_BLOCK = 16,   /* many tokens: pairs of an expert of a workgroup … */
	MOE_LORA_ROWS = 16,    /* … and rows of A, two a wave */
	MOE_LORA_GROUP = 4,    /* pairs that share a read of A or B */
};

struct moe_lora_launch {
	const uint16_t *x;            /* (T, D) f16, or h (T, U, F) */
	const int32_t *id;            /* (T, U) */
	const int32_t *adapter;       /* (T) */
	const float *scale;           /* (T) */
	const struct lora_part *part; /* (adapters, E, MOE_PARTS) */
	float *low;                   /* (T, U, 2, rank); many tokens */
	float *high;                  /* (2, T, U, F): what is added to gate and to up */
	const float *gate_bias, *up_bias; /* (E, F), which `high` includes, or NULL */
	const float *weight;          /* (T, U) */
	float *y;                     /* (T, D), added to */
	int32_t n_tok, n_used, n_experts, rank;
	int32_t n_in, x_token, x_slot; /* elements of x: a row, from token to token, slot to slot */
	int32_t dim, ffn;
	int32_t first, n_parts;       /* which of MOE_PARTS: gate and up, or down */
	int32_t by_fours;             /* A and x begin, and their rows end, at multiples of four */
};

/* Many tokens: pairs as moe_tile.h has sorted them, of tokens from t0 on. */
struct moe_lora_tiles {
	struct moe_lora_launch a;
	const int32_t *pairs, *block_expert;
	uint16_t *out; /* of down, added to (struct moe_tile_launch) */
	int32_t block_m, n_slots, shared, t0;
};
