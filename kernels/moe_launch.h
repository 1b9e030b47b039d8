/* SPDX-License-Identifier: Apache-2.0
 *
 * How the kernels of moe_experts are launched. C for the host, C++ for the kernels.
 *
 * Ids stay on the device: kernels look their expert up in a table of weights. A shared
 * expert is one more row of the table, at E; it sees every token.
 */
#pragma once
#include "kernels/weight_view.h"

enum { MOE_GATE, MOE_UP, MOE_DOWN, MOE_PARTS };
enum moe_act { MOE_SILU, MOE_CLAMPED }; /* of enum experts_act the numbers */

struct moe_launch {
	const struct weight_view *table; /* (E + 1, MOE_PARTS) */
	const int32_t *id;     /* (T, U); NULL: all are `only`, U = 1 */
	const float *weight;   /* (T, U) f32; NULL: 1 */
	const float *gate_bias, *up_bias; /* (E, F) f32, or NULL */
	const float *down_bias;           /* (E, D) f32, or NULL */
	const uint16_t *x;     /* (T, D) f16 */
	uint16_t *h;           /* (T, U, F) f16 */
	float *y;              /* (T, D) f32, added to */
	int32_t n_tok, n_used, dim, ffn;
	int32_t only;
	uint32_t act;          /* enum moe_act */
	float alpha, limit;    /* MOE_CLAMPED */
};
