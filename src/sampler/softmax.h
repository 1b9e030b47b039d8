/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic under the sampler: whole-vocabulary passes over float logits.
 * Thread: any. Bit-identical everywhere: fixed lanes, fixed order, no libm.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Largest of x (n). False when a NaN is among them or the largest is not
 * finite. */
bool softmax_max(const float *x, int32_t n, float *out_max);
/* out[i] = exp((x[i] - max) * inv_t); returns their sum. out may be x. Exact to
 * about 1.5e-7 of itself; 0 below exp(-87). */
double softmax_weights(const float *x, int32_t n, float max, float inv_t,
		       float *out);
/* The sum alone, at inv_t 1: log of it plus max is the log of the partition. */
double softmax_sum(const float *x, int32_t n, float max);
