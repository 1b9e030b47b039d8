/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels by name, as a code object would have them, for fiber_run.
 */
#pragma once
#ifdef __cplusplus
extern "C" {
#endif

/* Runs the thread that calls it; args: the address of each argument, in order. */
typedef void (*kernels_entry)(void **args);
/* NULL where there is no such kernel. */
kernels_entry kernels_find(const char *name);

#ifdef __cplusplus
}
#endif
