/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how fast the memory that a backend computes from can be read. Thread: main.
 */
#pragma once
#include "backend/backend.h"

/* GB/s when memory is only read: the best of several rounds over several times the size of the
 * caches. For the GPU, or for n_threads of the CPU (0: one for each CPU). E_NOMEM, E_DEVICE. */
enum status read_rate(struct backend *b, int n_threads, double *out_gbs,
		      struct fail *fail) MUST_USE;
