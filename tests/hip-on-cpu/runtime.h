/* SPDX-License-Identifier: Apache-2.0
 *
 * What libhip_cpu.so tells a test, beside HIP's own functions: what was asked of it
 * since it was loaded. For dlsym. Thread: the one that calls the runtime.
 */
#pragma once
#include <stddef.h>

struct hip_cpu_counts {
	int n_allocs;              /* of device and pinned memory */
	int n_coherent;            /* of these, pinned memory asked for as coherent */
	int n_copies[4];           /* asynchronous, by enum hip_copy */
	size_t copied_bytes[4];
	int n_launches, n_graphs;  /* asked for, not by graphs */
};

struct hip_cpu_counts hip_cpu_counts(void);
