/* SPDX-License-Identifier: Apache-2.0
 *
 * Times that an aligner told, made to go forward. Thread: any.
 *
 * Source: _fix_timestamps in processing_qwen3_asr.py of Hugging Face Transformers.
 */
#pragma once
#include <stddef.h>

/* Those of the first longest row of times that never go back stay. One or two between them become
 * the nearer of their neighbours, the earlier where both are as near; more lie evenly between
 * these. io: (n) in ms, whole numbers afterwards. Takes time as the square of n. */
void align_times_mend(double *io, size_t n);
