/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      none: reads n times 16 bytes and computes their exclusive or, so that the
 *           compiler cannot drop a load
 * LAYOUT    16 bytes a lane, lanes contiguous
 * GEOMETRY  any number of workgroups of 256 threads; each thread advances by the grid's
 *           width, four loads before the first use
 * ROOFLINE  memory: this measures the rate to which other kernels are compared
 */
#include "kernels/device/dialect.h"

KERNEL(256) void bandwidth_read_kernel(const u32x4 *p, size_t n, uint32_t width,
				       uint32_t *out)
{
	uint32_t sum = 0;
	size_t i = (size_t)group_index_x() * 256 + thread_index();
	for (; i + 3 * (size_t)width < n; i += 4 * (size_t)width) {
		u32x4 v[4];
		UNROLL
		for (int j = 0; j < 4; j++)
			v[j] = load_nt<u32x4>(p + i + (size_t)j * width);
		UNROLL
		for (int j = 0; j < 4; j++)
			sum ^= v[j][0] ^ v[j][1] ^ v[j][2] ^ v[j][3];
	}
	for (; i < n; i += width) {
		u32x4 v = load_nt<u32x4>(p + i);
		sum ^= v[0] ^ v[1] ^ v[2] ^ v[3];
	}
	if (sum == 0x5EED5EEDu) /* practically never: a store that depends on sum */
		atomic_add(out, 1u);
}
