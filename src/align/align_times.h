/* SPDX-License-Identifier: Apache-2.0
 *
 * Times that an aligner told, made to go forward. Thread: any.
 *
 * Source: _fix_timestamps in processing_qwen3_asr.py of Hugging Face Transformers.
 */
#pragma once
#include <stddef.h>

/* Keeps the longest row of times that never go back, the first of several. One or two times between
 * kept ones become the nearer of their kept neighbours, the earlier where both are as near. More
 * than two are spread evenly between these. io: (n) in ms, whole numbers afterwards. The work grows
 * as the square of n. */
void align_times_mend(double *io, size_t n);
