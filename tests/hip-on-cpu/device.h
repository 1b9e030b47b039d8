/* SPDX-License-Identifier: Apache-2.0
 *
 * What runtime.c runs kernels on: fibers (device_fibers.c), or the machine code of a code
 * object, instruction by instruction (tests/hip-on-gfx11). Kernels come by kernels_find.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/hip-on-cpu/kernels.h"

struct device_launch {
	uint32_t grid_x, grid_y;
	uint32_t n_threads; /* of a workgroup, 1..1024 */
	size_t lds_bytes;   /* dynamic */
	bool is_reversed;   /* last thread or wave first: finds what relies on an order */
};

const char *device_name(void);
const char *device_arch(void);
/* args: the address of each argument, in order. False: it failed, and stderr says why.
 * Thread: one at a time. */
bool device_run(const struct kernel_entry *k, void **args, const struct device_launch *l);
/* Whose memory it is. Kernels may not touch what is pinned without the flag that makes it
 * coherent: the chip's caches may keep such memory beyond the end of a kernel. */
enum memory_kind { MEMORY_DEVICE, MEMORY_COHERENT, MEMORY_PINNED, MEMORY_GONE };
/* Memory [p, p + n_bytes) comes, or goes. Thread: any. */
void device_memory(void *p, size_t n_bytes, enum memory_kind kind);
/* n_bytes at a place that shows mistakes in addresses, aligned to 256, of any contents.
 * NULL: anywhere will do. Thread: any. */
void *device_place(size_t n_bytes);
/* Gives it back; false: it is not from device_place. Thread: any. */
bool device_displace(void *block);
