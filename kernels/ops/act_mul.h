/* SPDX-License-Identifier: Apache-2.0
 *
 * y = act(gate) * up, element by element. model/formats/activation.h defines act.
 */
#pragma once
#include <stddef.h>

#include "model/formats/activation.h"
#include "model/formats/blocks.h"

struct act_mul_args {
	int32_t n_tok, dim;
	struct activation act;
	const void *gate; /* (T, F) act */
	const void *up;   /* (T, F) act */
	void *y;          /* (T, F) act; may be gate or up */
	int32_t up_pitch; /* elements from a row of up to the next; 0: F */
};

static inline size_t act_mul_up_pitch(const struct act_mul_args *a)
{
	return (size_t)(a->up_pitch ? a->up_pitch : a->dim);
}

void act_mul_ref(const struct act_mul_args *a);
