/* SPDX-License-Identifier: Apache-2.0
 *
 * y = silu(gate) * up, silu(g) = g / (1 + exp(-g)). Shazeer, GLU Variants Improve
 * Transformer, 2020, eq. 6 (SwiGLU).
 */
#pragma once
#include <stddef.h>

#include "model/formats/blocks.h"

struct silu_mul_args {
	int32_t n_tok, dim;
	const void *gate; /* (T, F) act */
	const void *up;   /* (T, F) act */
	void *y;          /* (T, F) act; may be gate or up */
};

void silu_mul_ref(const struct silu_mul_args *a);
