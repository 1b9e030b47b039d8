/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory the GPU of an APU may use, which shares the system's memory. The GPU has a
 * carve-out ("vram"), which the firmware takes from the system, and GTT: pages of the system up
 * to a limit of the kernel. Thread: any.
 */
#pragma once
#include <stdbool.h>

#include "base/sysmem.h"

/* Bytes, as amdgpu reports them. */
struct gpumem {
	int64_t gtt, gtt_used, vram, vram_used;
};

/* Reads sys/class/drm/renderDN/device/mem_info_* below root ("/" for this machine). False:
 * there is no such GPU, or there are several and it is unknown which one is meant. */
bool gpumem_read(const char *root, struct gpumem *out);

struct gpumem_have {
	int64_t total, free; /* bytes */
	bool is_system;      /* true: GTT, so the bytes are the system's and other programs use
			      * them too */
};
/* What an APU can take of the `total` and `left` bytes that the HIP runtime reports. g: NULL if
 * gpumem_read found nothing. */
void gpumem_of_apu(const struct gpumem *g, const struct sysmem *system, int64_t total,
		   int64_t left, struct gpumem_have *out);
