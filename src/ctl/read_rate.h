/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the memory that a backend computes from can be read. Thread: main.
 */
#pragma once
#include "backend/backend.h"

/* GB/s of reading and nothing else, the best of some rounds over several times what caches
 * hold: of the GPU, or of n_threads (0: one for each CPU). E_NOMEM, E_DEVICE. */
enum status read_rate(struct backend *b, int n_threads, double *out_gbs,
		      struct fail *fail) MUST_USE;
