/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      none. configure compiles this file to test whether compiler and target have
 *           what dialect_amd.h needs: matrix tiles in registers in gfx11's layout, a
 *           barrier that waits for LDS only, and dot2
 * LAYOUT    x, y 16 x 16 halves; out 32 floats
 * GEOMETRY  one wave
 */
#include "kernels/device/dialect.h"

KERNEL(32) void probe_kernel(const uint16_t *x, const uint16_t *y, float *out)
{
	LDS(uint16_t, lds, 256);
	for (int i = 0; i < 8; i++)
		lds[thread_index() * 8 + i] = x[thread_index() * 8 + i];
	group_barrier();
	tile_c c = {};
	c = tile_mma<TILE_F16>(tile_load_a<TILE_F16>(lds, 16), tile_load_b<TILE_F16>(y, 16), c);
	out[thread_index()] = dot2_f16(y[0], y[1], c.v[0]);
}
