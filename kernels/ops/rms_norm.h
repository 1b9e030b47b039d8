/* SPDX-License-Identifier: Apache-2.0
 *
 * x += add (if given), then y = x / sqrt(mean(x^2) + eps) * weight, over each row.
 *
 * If sum is given, the result is added to sum and not written to y. This is the norm
 * after attention or feed-forward, whose output is x; x is overwritten. The new sum is
 * multiplied by sum_scale. Zhang and Sennrich, Root Mean Square Layer Normalization, 2019,
 * eq. 4.
 *
 * If y_low is given, it is what rounding took from y, times RMS_NORM_LOW. So a product with
 * y, and one with y_low over RMS_NORM_LOW, add up to one with y before it was rounded. The
 * factor keeps small numbers above the least half.
 */
#pragma once
#include "model/formats/blocks.h"

#define RMS_NORM_LOW 2048.0f

struct rms_norm_args {
	int32_t n_tok, dim;
	float eps;
	float *x;            /* (T, D) f32; changed if add is given */
	const void *add;     /* (T, D) act, added to x first; or NULL */
	const float *weight; /* (n_weights, D) f32 */
	void *y;             /* (T, D) act; NULL if sum is given */
	void *y_low;         /* (T, D) act, or NULL; not with add, sum, n_weights or y_pitch */
	int32_t y_pitch;     /* elements from a row of y to the next; 0: D */
	float *sum;          /* (T, D) f32, a different array than x; or NULL */
	float sum_scale;     /* factor of the new sum; 0: like 1 */
	int32_t n_weights;   /* vectors of weights: row t takes vector t % n_weights. 0 is like 1.
			      * Above 1 sum must be NULL, and no other kernel may take this norm
			      * into its own launch */
};

static inline float rms_norm_sum_scale(const struct rms_norm_args *a)
{
	return a->sum_scale != 0 ? a->sum_scale : 1;
}

/* The weights of row t. */
static inline const float *rms_norm_weight(const struct rms_norm_args *a, int32_t t)
{
	return a->n_weights > 1 ? a->weight + (size_t)(t % a->n_weights) * (size_t)a->dim
				: a->weight;
}

void rms_norm_ref(const struct rms_norm_args *a);
