/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the sources that fill panels.
 */
#pragma once
#include <stdatomic.h>

#include "backend/cpu/cpu_panels.h"

struct fill {
	const struct weight *w;
	const struct cpu_panels *p;
	uint8_t *out; /* memory of all panels */
	atomic_bool has_nan; /* set by any thread that finds a NaN */
};

/* Bytes 0 2 4 6 of v. */
static inline uint32_t even_bytes(uint64_t v)
{
	v &= 0x00FF00FF00FF00FFu;
	v = (v | v >> 8) & 0x0000FFFF0000FFFFu;
	return (uint32_t)(v | v >> 16);
}

/* Fill rows [n0, n0 + n_rows) of a panel: from block formats, from NVFP4 and MXFP4, from
 * FP8. */
void cpu_panels_fill_blocks(struct fill *f, int32_t n0, int n_rows, uint8_t *panel);
void cpu_panels_fill_fp4(struct fill *f, int32_t n0, int n_rows, uint8_t *panel);
void cpu_panels_fill_fp8(struct fill *f, int32_t n0, int n_rows, uint8_t *panel);
