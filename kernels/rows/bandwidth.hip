/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      none: reads n times 16 bytes and keeps their exclusive or, so that no load
 *           can be left out
 * LAYOUT    16 bytes a lane, lanes one after the other
 * GEOMETRY  256 threads, as many workgroups as the host likes; each goes on by the
 *           grid's width, four loads before the first use
 * ROOFLINE  memory: the rate that other kernels are measured against
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
	if (sum == 0x5EED5EEDu) /* one in four thousand million: a store to depend on it */
		atomic_add(out, 1u);
}
