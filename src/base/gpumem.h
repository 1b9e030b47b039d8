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

/* Reads mem_info_* in the folder `device` below root ("/" for this machine), as in
 * "/sys/class/drm/renderD128/device". False: the driver does not tell all four. */
bool gpumem_read(const char *root, const char *device, struct gpumem *out);

/* True for an APU, as in "gfx1151". Source: the column of dGPUs and APUs in LLVM's user guide of
 * the AMDGPU backend. */
bool gpumem_is_shared(const char *arch);

struct gpumem_have {
	int64_t total, free; /* bytes */
	bool is_system;      /* true: GTT, so the bytes are the system's and other programs use
			      * them too */
};
/* What an APU can take. g: the driver's numbers, which decide; NULL: it tells none. left: bytes
 * that the HIP runtime calls free, an upper bound; INT64_MAX: it was not asked. What the runtime
 * calls the total is no help: by its version that is GTT, the carve-out, their sum, or half of
 * the system's memory. */
void gpumem_of_apu(const struct gpumem *g, const struct sysmem *system, int64_t left,
		   struct gpumem_have *out);
