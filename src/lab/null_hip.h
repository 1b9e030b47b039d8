/* SPDX-License-Identifier: Apache-2.0
 *
 * A HIP runtime that executes nothing, for a chip that need not be present. The backend
 * runs on it, so that its launches can be observed. The kernels are those of a code
 * object. Device memory is host memory of zeros; untouched pages cost nothing. Uploads of
 * at most NULL_HIP_KEPT bytes are stored; larger ones (weights) are dropped.
 *
 * Only one can be open at a time. Thread: main.
 */
#pragma once
#include "backend/hip/hip_launch.h"
#include "lab/chip.h"

/* Bytes of the largest copy that is stored. An expert in int4 has more; tables of 1,000 experts,
 * or of the pages of a million tokens, have less. */
enum { NULL_HIP_KEPT = 1 << 18 };

/* Open the runtime, for backend_opts.hip_api, until null_hip_close. chip and code still
 * belong to the caller. */
const struct hip_api *null_hip_open(const struct chip *chip, const struct codeobject *code);
void null_hip_close(void);

/* Read device memory, as walk_read (walk.h). Memory is known if the host wrote it, if
 * copy_words_kernel copied it from known memory, or if index_choose_kernel chose it. */
bool null_hip_read(void *ctx, uint64_t at, size_t n, void *out);
/* Call after each launch: does the copies of copy_words_kernel, and what index_choose_kernel would
 * choose if the best blocks were equally far apart. */
void null_hip_after(const struct hip_launch_info *l);
