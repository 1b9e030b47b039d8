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

struct kernel_grids_opts {
	int32_t n_tok, depth;
	const char *model, *part; /* NULL: of all real models */
	const char *kernel_dir;   /* where the tune file is; NULL: beside the program */
};

/* Each launch of each shape, in order, on null_hip.h. A shape that the backend refuses is
 * left out. */
enum status kernel_grids(const struct chip *chip, const struct codeobject *code,
			 const struct kernel_grids_opts *o, kernel_grids_on on, void *ctx,
			 struct fail *fail) MUST_USE;
