/* SPDX-License-Identifier: Apache-2.0
 *
 * The language that kernels (*.hip) are written in: C++17 and the names below, the
 * same on an AMD GPU (wave32), an NVIDIA GPU, and the CPU with one fiber per thread.
 * Only dialect_*.h name a compiler's own functions.
 *
 * Each dialect defines
 *   KERNEL(max_threads) void name(...)   an entry point, C linkage
 *   KERNEL_OF_MANY(max_threads, n)       the same; on an NVIDIA GPU its registers are to
 *                                        leave room for n workgroups on a multiprocessor
 *   DEVICE                               a function, always inlined
 *   UNROLL                               before a loop whose arrays must be registers
 *   ONE_BY_ONE                           before one that is not to be unrolled, so that
 *                                        the loads of its turns do not pile up there
 *   LDS(T, name, n)                      n elements of the workgroup's memory, 16-byte
 *                                        aligned
 *   LDS_DYNAMIC(T, name)                 as much as the launch gives; one a kernel
 *   u32x2, u32x4                         vectors, elements by []
 *   bits_cast<T>(x)                      the same bits as another type
 *   bit_count(x)                         ones of a uint32_t
 *   thread_index(), group_index_x/y()
 *   wave_uniform(x)                      x, told that all lanes of the wave have the same
 *   group_barrier()                      all threads of the workgroup; LDS visible, not
 *                                        memory: loads stay in flight, and what another
 *                                        thread stored needs group_arrive or a launch
 *   device_fence()                       memory visible to other workgroups, both ways
 *   schedule_barrier()                   the compiler moves nothing across: loads of
 *                                        many turns of an unrolled loop would otherwise
 *                                        come first and take all registers
 *   load_global<T>(p)                    told that p is no address of LDS: for pointers
 *                                        that were themselves read from memory
 *   load_nt<T>(p)                        T = u32x4, u32x2, uint32_t, read once: not to
 *                                        be kept in the caches
 *   load_nt_even(p)                      the same 16 bytes from any even address
 *   wave_xor<M>(x), wave_shuffle(x, lane), wave_ballot(bool)
 *   wave_max(x)                          of uint32_t
 *   dot2_f16(a, b, c), dot2_bf16         c + a.lo * b.lo + a.hi * b.hi, a and b pairs
 *                                        of 16-bit numbers in a uint32_t. DIALECT_LACKS_DOT2
 *                                        is defined where that is no one instruction
 *   permute_bytes<sel>(a, b)             byte i of the result: nibble i of sel says which,
 *                                        0..3 of a, 4..7 of b
 *   lookup_bytes(at, low, high)          byte i of the result: byte number at's byte i,
 *                                        0..3 of low, 4..7 of high
 *   and_or(x, mask, bits)                (x & mask) | bits, one instruction
 *   sub2_f16(a, b), fma2_f16(a, b, c)    pairs, each result rounded to f16
 *   fma_f32(a, b, c)                     a b + c, rounded once, in every build
 *   f16_to_f32, bf16_to_f32, f32_to_f16, f32_to_bf16 (nearest even)
 *   fast_exp2, fast_log2, fast_rcp,
 *   fast_rsqrt                           one instruction, 1 unit in the last place
 *   atomic_add(p, x)                     at the device, relaxed; the old value
 *   group_arrive(p, lds)                 by all threads of a workgroup: *p += 1, and its
 *                                        old value, known to all of them by way of a
 *                                        number of LDS. What other workgroups wrote
 *                                        before they came here is visible to this one
 *   wave_barrier()                       LDS visible among the lanes of a wave
 *
 * Matrix tiles, C (16, 16) += A (16, 16) B (16, 16), f16 or bf16 in, f32 sums:
 *   tile_a<F>, tile_b<F>                 a lane's part of A, B; F: enum tile_format.
 *                                        Opaque: the machine's own order
 *   tile_c                               c.v[i], i < TILE_C: elements of C
 *   tile_load_a<F>(p, stride)            element (row, k) at p[row * stride + k]
 *   tile_load_b<F>(p, stride)            element (k, column) at p[column * stride + k]
 *   tile_load_b_rows<F>(p, stride)       element (k, column) at p[k * stride + column];
 *                                        gfx11 has no instruction for it: sixteen
 *                                        2-byte loads. Better to transpose once.
 *   tile_mma(a, b, c)                    c + a b
 *   tile_row(i), tile_column(i)          which element of C c.v[i] of this lane is
 *   tile_slot(i)                         0..TILE_ROWS-1: which of this lane's rows;
 *                                        equal slots are equal rows
 *   tile_row_sum(x), tile_row_max(x)     over the lanes that share this lane's rows
 *   tile_pin(c)                          to the compiler: c is known here, and what is
 *                                        loaded after this is loaded after it
 *   tile_a_of_c<F>(c, scratch)           C as the next product's A, rounded to F;
 *                                        scratch: TILE_SCRATCH numbers of this wave's
 *                                        LDS
 *   tile_round_f16(&c)                   c rounded to f16, still as floats
 *   tile_row_totals(c, out)              out[TILE_ROWS]: sums of this lane's rows over
 *                                        the 16 columns, in one order on every machine:
 *                                        columns that differ by 8, by 1, by 4, by 2
 *   TILE_LINES_B                         1: B wants its 16 rows to lie together, so LDS
 *                                        that is read by tile_load_b_rows many times is
 *                                        better transposed when it is written. 0: not so
 * A thread's way from memory to LDS, 16 bytes at a time, while it does something else:
 *   copy_ahead<N>                        N pieces on their way
 *   copy_ask(&c, i, to, from, is_there)  piece i; from: memory that may be read. `to` is
 *                                        free from here on: where the machine can, it
 *                                        writes there by itself
 *   copy_land(&c, i, to, is_there)       the same `to`: the piece is written, or 0 where
 *                                        it is not there
 *   copy_wait()                          after the last copy_land, before a barrier
 *   COPY_LANDS                           0: copy_land does nothing, and the pieces are
 *                                        in no registers (DIALECT_COPIES_TO_LDS is
 *                                        defined); 1: c.v[i] is the piece
 *
 * Loads are from LDS, p 16-byte aligned, stride a multiple of 8; rows lie in different
 * banks where stride / 8 is odd. A loop over i must be unrolled: registers have no
 * index. On gfx11 (wave32), with l = lane & 15: A and B are row and column l in eight
 * registers, lanes 16-31 as 0-15; c.v[i] is row 2i + (lane >> 4), column l.
 *
 * Wave operations, the tiles' among them, must be reached by all lanes of a wave that
 * have not returned.
 *
 * Half numbers travel as their bits, uint16_t: memory is read as it is typed on every
 * machine, and no compiler's own half type is needed.
 */
#pragma once
enum tile_format { TILE_F16, TILE_BF16 };
/* Elements of C that a lane has; 16 rows of 16 halves, 48 bytes from row to row. */
enum { TILE_C = 8, TILE_SCRATCH = 16 * 24 };

#if defined(__HIP__)
#include "kernels/device/dialect_amd.h"
#elif defined(__CUDACC__)
#include "kernels/device/dialect_cuda.h"
#else
#include "kernels/device/dialect_cpu.h"
#endif

enum { WAVE = 32 };
#ifndef KERNEL_OF_MANY
#define KERNEL_OF_MANY(max_threads, n) KERNEL(max_threads)
#endif

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

/* Over the n = 8, 16 or 32 lanes that differ in the low bits. A butterfly: every lane
 * ends with the same bits. */
template <int n> DEVICE float lanes_sum(float x, int site = CALL_SITE)
{
#ifdef DIALECT_LANES_SUM /* the same in one meeting of the lanes */
	return DIALECT_LANES_SUM<n>(x, site);
#endif
	if constexpr (n > 16)
		x += wave_xor<16>(x, site);
	if constexpr (n > 8)
		x += wave_xor<8>(x, site);
	x += wave_xor<4>(x, site);
	x += wave_xor<2>(x, site);
	return x + wave_xor<1>(x, site);
}

DEVICE float wave_sum(float x, int site = CALL_SITE)
{
	return lanes_sum<WAVE>(x, site);
}

/* The greatest of the wave's. */
DEVICE uint32_t wave_max(uint32_t x, int site = CALL_SITE)
{
#ifdef DIALECT_WAVE_MAX /* one instruction */
	return DIALECT_WAVE_MAX(x);
#endif
	auto with = [&](float other) {
		uint32_t o = bits_cast<uint32_t>(other);
		x = o > x ? o : x;
		return bits_cast<float>(x);
	};
	float mine = with(wave_xor<16>(bits_cast<float>(x), site));
	mine = with(wave_xor<8>(mine, site));
	mine = with(wave_xor<4>(mine, site));
	mine = with(wave_xor<2>(mine, site));
	with(wave_xor<1>(mine, site));
	return x;
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
