/* SPDX-License-Identifier: Apache-2.0
 *
 * The best LOGITS_TOP_K logits of each row, and the sums of its softmax. Nearly every
 * sampling method needs only these: a kilobyte in place of a whole vocabulary. -0 counts
 * as 0.
 *
 * n, id, logit and max are exact. sum and sum_t have a relative error below 1e-5; callers
 * rely on that bound in proofs. If a row has a NaN, or its largest logit is infinite, sum
 * is NaN, and n, id and logit are meaningless.
 */
#pragma once
#include "kernels/ops/logits_top_row.h"
#include "model/formats/blocks.h"

struct logits_top_args {
	int32_t n_rows, n_vocab; /* V at most LOGITS_TOP_MAX_VOCAB */
	const float *logits;     /* (R, V) f32 */
	const float *inv_t;      /* (R) f32: 1 / temperature, used in sum_t */
	struct logits_top *out;  /* (R) */
};

void logits_top_ref(const struct logits_top_args *a);
