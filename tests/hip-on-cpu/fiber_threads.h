/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel on the CPU needs from its runtime. A workgroup is one fiber per thread;
 * 32 fibers are a wave. Only dialect_cpu.h calls these functions.
 * tests/hip-on-cpu/fiber.c is the runtime. Thread: the one that launched.
 *
 * site: the source line of the call. All threads that meet must be at the same line. If
 * they are not, or if some never arrive, the runtime reports which and ends the process.
 * On a GPU the kernel would hang or return garbage.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FIBER_WAVE = 32, FIBER_SLOT = 64 };

uint32_t fiber_thread(void);        /* index of the thread in the workgroup */
uint32_t fiber_group(int axis);     /* index of the workgroup in the grid; axis 0 or 1 */
/* Wait for every thread of the workgroup that has not returned. */
void fiber_barrier(int site);
/* Pass n_bytes <= FIBER_SLOT, wait for the wave, and get what each lane passed: 32 slots
 * of FIBER_SLOT bytes, valid until the next exchange. A lane that has returned shows
 * bytes 0xEE. */
const uint8_t *fiber_exchange(const void *value, size_t n_bytes, int site);
/* The workgroup's LDS array identified by the address `key`, filled with 0xCD at the
 * first call. Each array is a separate allocation, so that ASan sees overruns. */
void *fiber_lds(const void *key, size_t n_bytes);
void *fiber_lds_dynamic(void); /* the size is given at launch */

#ifdef __cplusplus
}
#endif
