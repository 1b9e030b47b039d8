/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a kernel's workgroups on the calling thread, one after the other (so races
 * between workgroups do not show), each as one fiber per thread. What the kernel may
 * call is fiber_threads.h.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fiber_launch {
	uint32_t grid_x, grid_y;
	uint32_t n_threads; /* of a workgroup, 1..1024 */
	size_t lds_bytes;   /* dynamic */
	bool is_reversed;   /* last thread first: finds what relies on an order */
	void (*entry)(void *arg);
	void *arg;
};

void fiber_run(const struct fiber_launch *l);

#ifdef __cplusplus
}
#endif
