/* SPDX-License-Identifier: Apache-2.0
 *
 * The language that kernels (*.hip) are written in: C++17 and the names below, the
 * same on an AMD GPU (wave32), an NVIDIA GPU, and the CPU with one fiber per thread.
 * Only dialect_*.h name a compiler's own functions.
 *
 * Each dialect defines
 *   KERNEL(max_threads) void name(...)   an entry point, C linkage
 *   DEVICE                               a function, always inlined
 *   UNROLL                               before a loop whose arrays must be registers
 *   LDS(T, name, n)                      n elements of the workgroup's memory
 *   LDS_DYNAMIC(T, name)                 as much as the launch gives; one a kernel
 *   u32x2, u32x4                         vectors, elements by []
 *   f32x8, h16x16                        a lane's part of a 16x16 tile: see mma_*
 *   bits_cast<T>(x)                      the same bits as another type
 *   thread_index(), group_index_x/y()
 *   wave_uniform(x)                      x, told that all lanes of the wave have the same
 *   group_barrier()                      all threads of the workgroup, LDS visible
 *   device_fence()                       memory visible to other workgroups, both ways
 *   load_nt<T>(p)                        T = u32x4, u32x2, uint32_t, read once: not to
 *                                        be kept in the caches
 *   wave_xor<M>(x), wave_shuffle(x, lane), wave_ballot(bool)
 *   dot2_f16(a, b, c), dot2_bf16         c + a.lo * b.lo + a.hi * b.hi, a and b pairs
 *                                        of 16-bit numbers in a uint32_t
 *   sub2_f16(a, b), fma2_f16(a, b, c)    pairs, each result rounded to f16
 *   f16_to_f32, f32_to_f16 (nearest even), bf16_to_f32
 *   fast_exp2, fast_rcp, fast_rsqrt      one instruction, 1 unit in the last place
 *   mma_f16, mma_bf16(a, b, c)           c + a b, 16x16x16
 *   atomic_add(p, x)                     at the device, relaxed; the old value
 *
 * Wave operations must be reached by all lanes of a wave that have not returned.
 *
 * The 16x16 tile, as gfx11 has it in wave32: with l = lane & 15, a holds row l of A
 * and b column l of B (lanes 16-31 repeat lanes 0-15); element i of c is row
 * 2i + (lane >> 4), column l of C.
 *
 * Half numbers travel as their bits, uint16_t: memory is read as it is typed on every
 * machine, and no compiler's own half type is needed.
 */
#pragma once
#if defined(__HIP__)
#include "kernels/dialect_amd.h"
#elif defined(__CUDACC__)
#include "kernels/dialect_cuda.h"
#else
#include "kernels/dialect_cpu.h"
#endif

enum { WAVE = 32 };

/* Where a call stands, for the CPU's check that lanes meet at one place. */
#define CALL_SITE __builtin_LINE()

DEVICE uint32_t lane_index()
{
	return thread_index() % WAVE;
}

DEVICE uint32_t wave_index()
{
	return wave_uniform(thread_index() / WAVE);
}

/* Butterflies: every lane ends with the same bits. */
DEVICE float wave_sum(float x, int site = CALL_SITE)
{
	x += wave_xor<16>(x, site);
	x += wave_xor<8>(x, site);
	x += wave_xor<4>(x, site);
	x += wave_xor<2>(x, site);
	return x + wave_xor<1>(x, site);
}

/* Over the n = 8, 16 or 32 lanes that differ in the low bits. */
template <int n> DEVICE float lanes_sum(float x, int site = CALL_SITE)
{
	if constexpr (n > 16)
		x += wave_xor<16>(x, site);
	if constexpr (n > 8)
		x += wave_xor<8>(x, site);
	x += wave_xor<4>(x, site);
	x += wave_xor<2>(x, site);
	return x + wave_xor<1>(x, site);
}

/* The greater key and, of equals, the lower id. */
DEVICE void wave_best(uint32_t *key, uint32_t *id, int site = CALL_SITE)
{
	UNROLL
	for (uint32_t m = 16; m; m /= 2) {
		uint32_t other = lane_index() ^ m;
		uint32_t k = wave_shuffle(*key, other, site);
		uint32_t i = wave_shuffle(*id, other, site);
		if (k > *key || (k == *key && i < *id)) {
			*key = k;
			*id = i;
		}
	}
}

/* Order of floats as that of unsigned numbers; every NaN below every number. */
DEVICE uint32_t order_key(float x)
{
	uint32_t bits = bits_cast<uint32_t>(x);
	if (x != x)
		return 0;
	return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Sum over a workgroup of n_threads, a multiple of 32; part: n_threads / 32 floats of
 * LDS, free for the next use after the next group_barrier(). Every wave adds the
 * parts itself, in the same order. */
template <int n_threads>
DEVICE float group_sum(float x, float *part, int site = CALL_SITE)
{
	x = wave_sum(x, site);
	if (lane_index() == 0)
		part[wave_index()] = x;
	group_barrier(site);
	uint32_t lane = lane_index();
	return wave_sum(lane < n_threads / WAVE ? part[lane] : 0, site + 1000000);
}
