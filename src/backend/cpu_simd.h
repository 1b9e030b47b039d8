/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources of one instruction set offer to its table (cpu_simd_float.c).
 */
#pragma once
#include "backend/cpu_vec.h"

enum {
	CPU_ROWS = CPU_PANEL_ROWS,
#if CPU_AVX512 || CPU_AVX2
	CPU_Q_WORDS = CPU_BLOCK / 4,
#else
	CPU_Q_WORDS = CPU_BLOCK / 2,
#endif
	CPU_TILE_WORDS = CPU_Q_WORDS + 2, /* integers, - sum, scale */
};

void ISA(cpu_quantize)(const float *const *x, int n_x, int32_t k, int planes,
		       int32_t *tile);
void ISA(cpu_panel)(const struct cpu_panels *w, int32_t i_panel, const int32_t *tile,
		    int n_x, float (*out)[CPU_PANEL_ROWS]);
void ISA(cpu_attend)(const struct cpu_attend *u, int32_t from, int32_t to);
void ISA(cpu_attend_join)(struct cpu_state *s, const struct cpu_state *other, int v_dim);
void ISA(cpu_to_half)(const float *x, int32_t n, uint16_t *out);
