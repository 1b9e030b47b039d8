/* SPDX-License-Identifier: Apache-2.0
 *
 * Which launches the operations of real models would be on a chip that need not be here:
 * the backend runs, and what it asks of the runtime is answered without doing it.
 * Thread: main.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "lab/chip.h"
#include "lab/kernel_case.h"

typedef void (*kernel_grids_on)(void *ctx, const struct case_shape *s,
				const struct hip_launch_info *l);

/* Each launch of each shape at n_tok tokens, in order. The runtime of o is opened and
 * nothing else done with it. A shape that the backend refuses is left out. */
enum status kernel_grids(const struct backend_opts *o, const struct chip *chip,
			 int32_t n_tok, int32_t depth, kernel_grids_on on, void *ctx,
			 struct fail *fail) MUST_USE;
