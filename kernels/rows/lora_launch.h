/* SPDX-License-Identifier: Apache-2.0
 *
 * The argument of lora_add's kernels, with device addresses. C for the host, C++ for the kernels.
 */
#pragma once
#include "kernels/ops/lora_part.h"

enum {
	LORA_THREADS = 256,
	LORA_OUTS = 4, /* LINEAR_MAX_OUT */
};

struct lora_launch {
	const uint16_t *x;      /* (T, K) f16 */
	const int32_t *adapter; /* (T) */
	const float *scale;     /* (T) */
	float *low;             /* (T, n_out, rank) */
	const struct lora_part *part[LORA_OUTS];
	void *y[LORA_OUTS];
	int32_t n[LORA_OUTS];
	int32_t is_f32[LORA_OUTS];
	int32_t n_in, n_out, rank, filler;
};
