/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies 32-bit words: y[i] = x[i]. A step's inputs are copied from host memory in this
 * way, within the step. A separate copy command before the step would make the device
 * switch between its copy and compute engines.
 */
#pragma once
#include "model/formats/blocks.h"

struct copy_words_args {
	int32_t n;
	const int32_t *x; /* (n), may be shared host memory (backend.h) */
	int32_t *y;       /* (n) */
};

void copy_words_ref(const struct copy_words_args *a);
