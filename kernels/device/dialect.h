/* SPDX-License-Identifier: Apache-2.0
 *
 * The language of the kernels (*.hip): C++17 and the names below. It means the same on an
 * AMD GPU (wave32) and on the stand-ins of the tests, which name their dialect in DIALECT
 * (tests/hip-on-cpu, tests/hip-on-cuda). Only dialects use a compiler's builtins. Each defines
 *
 *   KERNEL(max_threads) void name(...)   an entry point, C linkage
 *   DEVICE                               a function, always inlined
 *   UNROLL                               before a loop whose arrays must be in registers
 *   ONE_BY_ONE                           before a loop that must not be unrolled, so that
 *                                        its loads do not all occupy registers at once
 *   LDS(T, name, n)                      n elements of the workgroup's memory, 16-byte
 *                                        aligned
 *   LDS_DYNAMIC(T, name)                 LDS of the size given at launch; one a kernel
 *   u32x2, u32x4                         vectors, elements by []
 *   bits_cast<T>(x)                      the same bits as another type
 *   bit_count(x)                         number of ones in a uint32_t
 *   thread_index(), group_index_x/y()
 *   wave_uniform(x)                      x; tells the compiler that x is the same in all
 *                                        lanes of the wave
 *   address_beside(p, &bytes)            p + bytes. If p is the same in all lanes of the
 *                                        wave, a load adds them, and no instruction does
 *   group_barrier()                      waits for all threads of the workgroup, and makes
 *                                        LDS visible. Not global memory: loads stay in
 *                                        flight, and other threads' stores become visible
 *                                        only by group_arrive or the next launch
 *   schedule_barrier()                   the compiler moves no instruction across. Else it
 *                                        would issue the loads of an unrolled loop first
 *                                        and run out of registers
 *   load_global<T>(p)                    a load that is known not to be from LDS; for
 *                                        pointers that were themselves read from memory
 *   load_uniform<T>(p)                   a scalar load, if p is the same in all lanes of the
 *                                        wave; of what this launch does not write
 *   load_nt<T>(p)                        T = u32x4, u32x2, uint32_t: a non-temporal load,
 *                                        for data that is read once
 *   load_nt_even(p)                      a non-temporal load of 16 bytes at an even address
 *   load_even(p)                         the same, cached
 *   wave_xor<M>(x)                       x of lane (own index xor M)
 *   wave_shuffle(x, lane), wave_ballot(bool)
 *   wave_max(x)                          largest uint32_t of the wave
 *   dot2_f16(a, b, c), dot2_bf16         c + a.lo * b.lo + a.hi * b.hi; a and b are pairs
 *                                        of 16-bit numbers in a uint32_t
 *   permute_bytes<sel>(a, b)             byte i of the result is chosen by nibble i of sel:
 *                                        0..3 from a, 4..7 from b
 *   lookup_bytes(at, low, high)          byte i of the result is chosen by byte i of at:
 *                                        0..3 from low, 4..7 from high
 *   and_or(x, mask, bits)                (x & mask) | bits, one instruction
 *   sub2_f16(a, b), fma2_f16(a, b, c)    on pairs, each result rounded to f16
 *   fma_f32(a, b, c)                     a b + c, rounded once, in every build
 *   max_f32(a, b)                        the larger one, one instruction; which one is open if
 *                                        either is a NaN
 *   f16_to_f32, bf16_to_f32, f32_to_f16, f32_to_bf16 (nearest even)
 *   fast_exp2, fast_log2, fast_rcp,
 *   fast_rsqrt                           one instruction, error of 1 unit in the last place
 *   atomic_add(p, x)                     float, uint32_t or uint64_t: device-wide, relaxed;
 *                                        returns the old value
 *   group_arrive(p, lds)                 called by all threads of a workgroup: adds 1 to
 *                                        *p and returns its old value to all of them, by
 *                                        way of one number of LDS. Memory written by
 *                                        workgroups that arrived earlier is now visible
 *   wave_barrier()                       orders the accesses to LDS of a wave's lanes, and makes
 *                                        their stores visible to each other. Exchanges such as
 *                                        wave_xor do not
 *
 * Matrix tiles, C (16, 16) += A (16, 16) B (16, 16), f16 or bf16 in, f32 sums:
 *
 *   tile_a<F>, tile_b<F>                 a lane's part of A, B; F: enum tile_format. The
 *                                        order of elements is up to the machine
 *   tile_c                               c.v[i], i < TILE_C: elements of C
 *   tile_load_a<F>(p, stride)            element (row, k) is p[row * stride + k]
 *   tile_load_b<F>(p, stride)            element (k, column) is p[column * stride + k]
 *   tile_load_a_placed<F, PIECES>(p, first, piece), tile_load_b_placed
 *                                        the same from rows that lie as tile_place.h
 *                                        says: k = 0 is piece `piece` (even), p + first
 *                                        the first row, whose number is a multiple of 16
 *   tile_load_b_rows<F>(p, stride)       element (k, column) is p[k * stride + column].
 *                                        gfx11 needs sixteen 2-byte loads for this, so
 *                                        data that is read many times is better stored
 *                                        transposed
 *   tile_mma(a, b, c)                    c + a b
 *   tile_product(a, b)                   a b
 *   tile_row(i), tile_column(i)          row and column in C of this lane's c.v[i]
 *   tile_pin(c)                          forces c to be computed here: the compiler moves
 *                                        no later load before this point
 *   tile_round_f16(&c)                   c rounded to f16, still stored as floats
 *
 * Scores of 16 queries and 16 positions, f16 in, for attention. A query is a column of C, so a
 * lane has numbers of one query instead of eight:
 *
 *   score_query, score_key               a lane's part of 16 queries, of 16 keys
 *   score_load_query(p, stride), score_load_key
 *                                        element (row, k) is p[row * stride + k]
 *   score_mma(q, k, c)                   c + q k'
 *   score_value, score_weight            a lane's part of 16 values, of the weights made of C
 *   score_load_value(p, stride)          16 positions of 16 elements: element (position, e) is
 *                                        p[e * stride + position]
 *   score_weight_of(c)                   weights, rounded to f16
 *   score_add(w, v, c)                   c + w v: sums of values. e stands for positions
 *   SCORE_SLOTS                          queries of a lane
 *   score_query_at(i), score_other_at(i) query, and position or element, of c.v[i]
 *   score_slot(i), score_slot_query(s)   the slot of c.v[i]'s query; the query of a slot
 *   score_max(x)                         over the lanes that share a slot's query
 *   score_totals(c, out)                 out[SCORE_SLOTS]: sums over the 16 positions: those
 *                                        that differ by 8 first, then by 1, by 4, by 2
 *
 * Tile loads read LDS. p is 16-byte aligned, stride a multiple of 8; rows lie in
 * different banks if stride / 8 is odd. A loop over i must be unrolled, because registers
 * cannot be indexed. On gfx11 (wave32), with l = lane & 15: a lane holds row l of A and
 * column l of B in eight registers, lanes 16-31 the same as 0-15; c.v[i] is row 2i +
 * (lane >> 4), column l.
 *
 * All lanes of a wave that have not returned must reach a wave operation together; this
 * includes the tile functions. Halves are passed as their bits in uint16_t, which needs
 * no compiler's half type and keeps the types of loads the same everywhere.
 */
#pragma once
enum tile_format { TILE_F16, TILE_BF16 };
enum { TILE_C = 8 }; /* elements of C in a lane */

#if defined(__HIP__)
#include "kernels/device/dialect_amd.h"
#else
#include DIALECT
#endif

enum { WAVE = 32 };

/* Line of the call, for the CPU dialect's check that lanes meet at the same place. */
#define CALL_SITE __builtin_LINE()

DEVICE uint32_t lane_index()
{
	return thread_index() % WAVE;
}

DEVICE uint32_t wave_index()
{
	return wave_uniform(thread_index() / WAVE);
}

/* Sum over n = 8, 16 or 32 lanes whose indices differ in the low bits. It is a butterfly:
 * every lane gets the same bits. */
template <int n> DEVICE float lanes_sum(float x, int site = CALL_SITE)
{
#ifdef DIALECT_LANES_SUM /* the same result with one exchange */
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

/* The largest x of the wave. */
DEVICE uint32_t wave_max(uint32_t x, int site = CALL_SITE)
{
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

/* The largest key of the wave and its id; of equal keys the lower id. */
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

/* Maps floats to integers of the same order. Every NaN is below every number. */
DEVICE uint32_t order_key(float x)
{
	uint32_t bits = bits_cast<uint32_t>(x);
	if (x != x)
		return 0;
	return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Sum over a workgroup of n_threads, a multiple of 32. part: n_threads / 32 floats of
 * LDS, reusable after the next group_barrier(). Each wave adds the parts itself in the
 * same order, so all get the same bits. */
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
