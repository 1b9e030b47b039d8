/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic under the sampler: whole-vocabulary passes over float logits.
 * Thread: any. Bit-identical everywhere: fixed lanes, fixed order, no libm.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Sets *out_max to the largest of x (n). False: x has a NaN, or the largest is not finite. */
bool softmax_max(const float *x, int32_t n, float *out_max);
/* out[i] = exp((x[i] - max) * inv_t); returns the sum of out. out may be x. Relative error
 * about 1.5e-7; 0 below exp(-87). */
double softmax_weights(const float *x, int32_t n, float max, float inv_t,
		       float *out);
/* Returns the sum of exp(x[i] - max), without storing the weights. max + log(sum) is the
 * logarithm of the partition function. */
double softmax_sum(const float *x, int32_t n, float max);
