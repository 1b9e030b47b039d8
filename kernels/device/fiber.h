/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel that runs on the CPU asks of the runtime that runs it: a workgroup
 * is one fiber per thread, a wave is 32 of them. Only dialect_cpu.h calls these;
 * tests/hip-on-cpu/fiber.c is the runtime. Thread: the one that launched.
 *
 * site: where in the source the call stands. All threads that meet must stand at the
 * same place; where they do not, or where some never come, the runtime says which
 * and ends the process: on a GPU that would have hung or returned rubbish.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FIBER_WAVE = 32, FIBER_SLOT = 64 };

uint32_t fiber_thread(void);        /* index in the workgroup */
uint32_t fiber_group(int axis);     /* index of the workgroup: axis 0 or 1 */
/* Wait for every thread of the workgroup that has not returned. */
void fiber_barrier(int site);
/* Leave n_bytes <= FIBER_SLOT, wait for the wave, and see what each lane left: 32
 * slots of FIBER_SLOT bytes, valid until the next exchange. A lane that has returned
 * shows bytes 0xEE. */
const uint8_t *fiber_exchange(const void *value, size_t n_bytes, int site);
/* The workgroup's memory named by the address `key`, filled with 0xCD when the first
 * thread asks. Each is an allocation of its own, so that ASan sees its ends. */
void *fiber_lds(const void *key, size_t n_bytes);
void *fiber_lds_dynamic(void); /* of the size the launch gave */

#ifdef __cplusplus
}
#endif
