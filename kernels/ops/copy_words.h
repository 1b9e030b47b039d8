/* SPDX-License-Identifier: Apache-2.0
 *
 * Words from one memory to another: y[i] = x[i]. What a step brings along is fetched so
 * from the host's memory, inside of the step: a copy of its own before the step would
 * have the device change from what copies to what computes.
 */
#pragma once
#include "model/formats/blocks.h"

struct copy_words_args {
	int32_t n;
	const int32_t *x; /* (n), may be shared (backend.h) */
	int32_t *y;       /* (n) */
};

void copy_words_ref(const struct copy_words_args *a);
