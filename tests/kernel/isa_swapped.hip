/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that clang 17 to 20 compile wrongly for every amdgcn target: the guard of the
 * unrolled loop's first store is turned round (docs/gpu-compilers.md). check_isa.py must
 * refuse what comes out.
 */
#include "kernels/device/dialect.h"

KERNEL(128) void swapped_kernel(uint32_t *out)
{
	LDS(uint16_t, ones, 384);
	for (int32_t i = (int32_t)thread_index(); i < 384; i += 128)
		ones[i] = 0x3C00;
	group_barrier();
	for (int32_t i = (int32_t)thread_index(); i < 192; i += 128)
		out[i] = ((uint32_t *)ones)[i];
}
