/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a chip may use whose GPU shares the system's memory (an APU). Such a GPU has
 * a carve-out, which the firmware takes from the system, and GTT, which are pages of the
 * system up to a limit of the kernel. Thread: any.
 */
#pragma once
#include <stdbool.h>

#include "base/sysmem.h"

/* Bytes, as amdgpu tells them. */
struct gpumem {
	int64_t gtt, gtt_used, vram, vram_used;
};

/* Reads sys/class/drm/renderDN/device/mem_info_* below root ("/" for this machine). False: there
 * is no such GPU, or more than one, so that it is not known which is meant. */
bool gpumem_read(const char *root, struct gpumem *out);

struct gpumem_have {
	int64_t total, free; /* bytes */
	bool is_system;      /* they are the system's, which other programs use, too */
};
/* What an APU can take of the `total` and `left` bytes that the HIP runtime tells. g: NULL if
 * gpumem_read found nothing. */
void gpumem_of_apu(const struct gpumem *g, const struct sysmem *system, int64_t total,
		   int64_t left, struct gpumem_have *out);
