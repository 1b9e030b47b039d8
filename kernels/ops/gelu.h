/* SPDX-License-Identifier: Apache-2.0
 *
 * x = GELU(x), element by element: x Phi(x), Phi of the standard normal distribution. Or,
 * with is_tanh, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Hendrycks and Gimpel,
 * Gaussian Error Linear Units, 2016. For vision towers.
 */
#pragma once
#include <stdbool.h>

#include "model/formats/blocks.h"

struct gelu_args {
	int32_t n_tok, dim;
	bool is_tanh;
	void *x; /* (T, F) act; changed in place */
};

void gelu_ref(const struct gelu_args *a);
