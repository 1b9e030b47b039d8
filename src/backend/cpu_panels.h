/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of 4 and 8 bit integers as the fast path reads them: a copy made at load,
 * 16 rows (a panel) interleaved so that one vector holds the same columns of all 16,
 * and a panel is one run of memory. Thread: engine.
 *
 * A panel is three arrays, each aligned to 64 bytes:
 *   scales  (K/group, 16) of scale_type
 *   zeros   (K/group, 16) bytes, where has_zero; else the zero is 8 or 128
 *   q       4 bits: (K/8, 16) uint32, nibble i of a word is column 8 j + i
 *           8 bits: (K/8, 2, 16) uint32, the bytes columns 8 j + 0 2 4 6, and + 1 3 5 7
 * Rows past the last are zero.
 */
#pragma once
#include <stdbool.h>

#include "base/pool.h"
#include "base/status.h"
#include "model/blocks.h"

#define CPU_PANEL_ROWS 16

struct cpu_panels {
	int32_t n, k, group;
	int bits; /* 4 or 8 */
	enum dtype scale_type;
	bool has_zero;
	size_t at_zero, at_q, panel_bytes;
	uint8_t *data; /* (ceil(N/16), panel_bytes) */
};

/* Is w of a format that becomes panels? */
bool cpu_panels_can(const struct weight *w);
/* The shape of w's panels: all of *out but data, which is to have room for
 * cpu_panels_bytes. */
void cpu_panels_plan(const struct weight *w, struct cpu_panels *out);
size_t cpu_panels_bytes(const struct cpu_panels *p);
void cpu_panels_fill(struct pool *pool, const struct weight *w,
		     const struct cpu_panels *p);

static inline int32_t cpu_panels_count(const struct cpu_panels *p)
{
	return (p->n + CPU_PANEL_ROWS - 1) / CPU_PANEL_ROWS;
}

static inline const uint8_t *cpu_panels_at(const struct cpu_panels *p, int32_t i)
{
	return p->data + (size_t)i * p->panel_bytes;
}
