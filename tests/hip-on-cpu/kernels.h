/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels by name, as a code object would have them, for fiber_run. Each compile
 * unit (unit.cpp) adds its own when the library is loaded.
 */
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kernel_entry {
	const char *name;
	/* Runs the thread that calls it; args: the address of each argument, in order. */
	void (*run)(void **args);
	int n_args;
	const size_t *arg_bytes; /* (n_args) */
};

struct kernel_unit {
	const struct kernel_entry *kernel; /* (n_kernels) */
	size_t n_kernels;
	struct kernel_unit *next;
};

/* The unit must stay. Thread: the one that loads the library. */
void kernels_add(struct kernel_unit *unit);
/* NULL where there is no such kernel. Thread: any. */
const struct kernel_entry *kernels_find(const char *name);

#ifdef __cplusplus
}
#endif
