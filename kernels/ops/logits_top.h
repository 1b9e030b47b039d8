/* SPDX-License-Identifier: Apache-2.0
 *
 * The best LOGITS_TOP_K of each row of logits, and the sums of its softmax: what nearly
 * every way of sampling needs, in a kilobyte instead of a vocabulary. -0 counts as 0.
 *
 * Exactly: n, id, logit and max. sum and sum_t are within 1e-5 of themselves: callers
 * build proofs on that. Where a row has a NaN, or its largest is infinite, sum is a NaN
 * and n, id and logit mean nothing.
 */
#pragma once
#include "kernels/ops/logits_top_row.h"
#include "model/formats/blocks.h"

struct logits_top_args {
	int32_t n_rows, n_vocab; /* V at most LOGITS_TOP_MAX_VOCAB */
	const float *logits;     /* (R, V) f32 */
	const float *inv_t;      /* (R) f32: 1 / temperature, of sum_t */
	struct logits_top *out;  /* (R) */
};

void logits_top_ref(const struct logits_top_args *a);
