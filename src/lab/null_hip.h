/* SPDX-License-Identifier: Apache-2.0
 *
 * A HIP runtime that does nothing, for a chip that need not be here: the backend runs on it,
 * so that its launches are seen. Kernels are those of a code object. Memory is the host's,
 * all zero, and costs only what is written to it. Uploads of at most NULL_HIP_KEPT bytes
 * land, weights of more do not.
 *
 * There is one at a time. Thread: main.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "lab/chip.h"

enum { NULL_HIP_KEPT = 1 << 20 };

/* For backend_opts.hip_api; until null_hip_close. Both stay the caller's. */
const struct hip_api *null_hip_open(const struct chip *chip, const struct codeobject *code);
void null_hip_close(void);

/* Memory at a device address, as walk_read (walk.h) has it: known is what the host has
 * written, and what copy_words_kernel has copied of that. */
bool null_hip_read(void *ctx, uint64_t at, size_t n, void *out);
/* Called for each launch that is done: copies what copy_words_kernel copies. */
void null_hip_after(const struct hip_launch_info *l);
