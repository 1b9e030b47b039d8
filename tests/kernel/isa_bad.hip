/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that check_isa.py must refuse, each for what its name says; and one that is
 * good.
 */
#include "kernels/device/dialect.h"

KERNEL(32) void bad_scratch_kernel(const int32_t *index, float *y)
{
	float table[64];
	for (int i = 0; i < 64; i++)
		table[i] = y[i];
	for (int i = 0; i < 64; i++)
		table[index[i]] += 1;
	y[thread_index()] = table[index[thread_index()]];
}

KERNEL(32) void bad_divide_kernel(const float *x, float *y, int32_t n)
{
	float sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum += 1 / (x[i] + sum);
	y[thread_index()] = sum;
}

KERNEL(32) void bad_narrow_kernel(const uint32_t *x, uint32_t *y, int32_t n)
{
	uint32_t sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum ^= load_nt<uint32_t>(x + i * 32 + (int32_t)thread_index());
	y[thread_index()] = sum;
}

KERNEL(32) void bad_cached_kernel(const u32x4 *x, uint32_t *y, int32_t n)
{
	uint32_t sum = 0;
	for (int32_t i = 0; i < n; i++) {
		u32x4 v = x[i * 32 + (int32_t)thread_index()];
		sum ^= v[0] ^ v[1] ^ v[2] ^ v[3];
	}
	y[thread_index()] = sum;
}

KERNEL(32) void bad_lds_kernel(float *y)
{
	LDS(float, part, 4096);
	for (uint32_t i = thread_index(); i < 4096; i += 32)
		part[i] = y[i];
	group_barrier();
	y[thread_index()] = part[thread_index() * 31 % 4096];
}

/* Plain loads by addresses that were themselves loaded; by load_global beside it. */
KERNEL(32) void bad_flat_kernel(const uint32_t *const *table, uint32_t *y)
{
	const uint32_t *x = table[thread_index()];
	y[thread_index()] = x[0] + load_global<uint32_t>(table[thread_index() + 32]);
}

KERNEL(32) void good_kernel(const uint32_t *x, const uint32_t *q, float *y, int32_t n)
{
	float sum = 0;
	for (int32_t i = 0; i < n; i++) {
		u32x4 v = load_nt<u32x4>(q + (i * 32 + (int32_t)thread_index()) * 4);
		sum = dot2_f16(v[0], x[i], sum);
		sum = dot2_f16(v[1] ^ v[2] ^ v[3], x[i], sum);
	}
	y[thread_index()] = sum;
}
