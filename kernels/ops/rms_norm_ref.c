/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/rms_norm.h"

#include <math.h>

void rms_norm_ref(const struct rms_norm_args *a)
{
	for (int32_t t = 0; t < a->n_tok; t++) {
		size_t row = (size_t)t * (size_t)a->dim;
		size_t out = (size_t)t * (size_t)(a->y_pitch ? a->y_pitch : a->dim);
		float *x = a->x + row, *y = a->y ? (float *)a->y + out : NULL;
		const float *add = a->add ? (const float *)a->add + row : NULL;
		const float *weight = rms_norm_weight(a, t);
		double squares = 0;
		for (int32_t d = 0; d < a->dim; d++) {
			if (add)
				x[d] += add[d];
			squares += (double)x[d] * x[d];
		}
		double scale = 1 / sqrt(squares / a->dim + (double)a->eps);
		for (int32_t d = 0; d < a->dim; d++)
			if (a->sum)
				a->sum[row + (size_t)d] = (float)(
					(a->sum[row + (size_t)d] + x[d] * scale * weight[d]) *
					rms_norm_sum_scale(a));
			else
				y[d] = (float)(x[d] * scale * weight[d]);
		/* What rounding took from y, as floats; here y is rounded from double to float. */
		for (int32_t d = 0; a->y_low && d < a->dim; d++)
			((float *)a->y_low)[row + (size_t)d] = (float)(
				(x[d] * scale * weight[d] - (double)y[d]) * RMS_NORM_LOW);
	}
}
