/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a weight when it is loaded. hip_weight_plan asks once which format it has. The
 * plan tells hip_repack.c how to convert it, hip_weight.c and hip_slots.c how it lies in memory,
 * and operations which kernels read it (weight.fits). Thread: engine.
 */
#pragma once
#include <stdatomic.h>

#include "backend/hip/hip.h"

/* Bits of weight.fits: kernels that read a weight of its format, shape and pitch. */
enum hip_fits {
	HIP_FITS_INT4 = 1,  /* linear_int4, and moe_int4 where rows are aligned */
	HIP_FITS_UNITS = 2, /* those in units of 16 weights (kernels/weights/weight_units.h) */
	HIP_FITS_ROWS = 4,  /* linear_rows or linear_blocks */
	HIP_FITS_TILE = 8,  /* linear_tile and moe_tile */
};

enum { HIP_WEIGHT_ARRAYS = 3 }; /* quants, scales, zero points */

/* Writes rows [begin, end) of a plan's arrays to `made`; put_in_rows: eight times as many. */
typedef void (*hip_convert_fn)(void *plan, int begin, int end);

struct weight_plan {
	const struct weight *from;
	struct weight to;  /* on the device; its addresses are the host's until it is uploaded */
	hip_convert_fn convert; /* NULL: the arrays are from's */
	const int32_t *order; /* input of each column (K), if from has group_of; else NULL */
	/* Ready to be copied but for dst. src NULL: there is none, or it is not yet made */
	struct hip_rows array[HIP_WEIGHT_ARRAYS];
	uint8_t *made[HIP_WEIGHT_ARRAYS]; /* what `convert` writes */
	void *memory;      /* holds `made`; the caller frees it */
	atomic_bool is_rounded; /* `convert` could not keep a number */
};

/* The format that loading makes of format q. */
enum quant hip_quant(enum quant q);
/* Depends on the weight's format and shape, not on its numbers. */
struct weight_plan hip_weight_plan(const struct weight *w);
/* Converts the numbers. The plan changes where they allow fewer bytes: without zero points, or in
 * 16 bits. E_NOMEM */
enum status hip_weight_make(struct hip *h, struct weight_plan *p) MUST_USE;

/* hip_repack.c. hip_repack says what converts w to format `to`; NULL: nothing has to.
 * hip_weight_convert does it. E_NOMEM */
hip_convert_fn hip_repack(const struct weight *w, enum quant to);
enum status hip_weight_convert(struct hip *h, struct weight_plan *p) MUST_USE;
