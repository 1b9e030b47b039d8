/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the launches of real models' operations on a chip that need not be present. The
 * backend runs on a runtime that executes nothing (null_hip.h). Thread: main.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "lab/chip.h"
#include "lab/kernel_case.h"

typedef void (*kernel_grids_on)(void *ctx, const struct case_shape *s,
				const struct hip_launch_info *l);

struct kernel_grids_opts {
	int32_t n_tok, depth;
	const char *model, *part; /* NULL: all real models */
	const enum quant *formats; /* weights in each of these; n_formats 0: in the shapes' own */
	int n_formats;
	const char *kernel_dir;   /* folder of the tune file; NULL: beside the program */
};

/* Call `on` for each launch of each shape, in order. Shapes that the backend refuses are
 * skipped. With formats, only shapes that take them count, each in every format. */
enum status kernel_grids(const struct chip *chip, const struct codeobject *code,
			 const struct kernel_grids_opts *o, kernel_grids_on on, void *ctx,
			 struct fail *fail) MUST_USE;
