/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels by name, as a code object would have them, for fiber_run.
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

/* NULL where there is no such kernel. */
const struct kernel_entry *kernels_find(const char *name);

#ifdef __cplusplus
}
#endif
