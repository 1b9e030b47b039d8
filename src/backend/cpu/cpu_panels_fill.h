/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources that fill panels share.
 */
#pragma once
#include <stdatomic.h>

#include "backend/cpu/cpu_panels.h"

struct fill {
	const struct weight *w;
	const struct cpu_panels *p;
	uint8_t *out; /* of all panels */
	atomic_bool has_nan; /* seen by any thread */
};

/* Bytes 0 2 4 6 of v. */
static inline uint32_t even_bytes(uint64_t v)
{
	v &= 0x00FF00FF00FF00FFu;
	v = (v | v >> 8) & 0x0000FFFF0000FFFFu;
	return (uint32_t)(v | v >> 16);
}

/* Rows [n0, n0 + n_rows) of formats in blocks, of NVFP4 and MXFP4, and of FP8. */
void cpu_panels_fill_blocks(struct fill *f, int32_t n0, int n_rows, uint8_t *panel);
void cpu_panels_fill_fp4(struct fill *f, int32_t n0, int n_rows, uint8_t *panel);
void cpu_panels_fill_fp8(struct fill *f, int32_t n0, int n_rows, uint8_t *panel);
