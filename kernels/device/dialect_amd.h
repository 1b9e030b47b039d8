/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect (dialect.h) for gfx11, compiled by clang without HIP headers or device
 * libraries: -x hip --cuda-device-only -nogpuinc -nogpulib.
 */
#pragma once
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
typedef unsigned long size_t;
#ifndef NULL
#define NULL nullptr
#endif

#define DEVICE static inline __attribute__((device, always_inline))
#define KERNEL(max_threads) \
	extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, max_threads)))
#define UNROLL _Pragma("unroll")
#define TABLE static __attribute__((constant)) const
#define ONE_BY_ONE _Pragma("clang loop unroll(disable)")
#define LDS(T, name, n) \
	static __attribute__((shared)) __attribute__((aligned(16))) T name[n]
#define LDS_DYNAMIC(T, name) \
	extern __attribute__((shared)) __attribute__((aligned(16))) T name[]

typedef uint32_t u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef _Float16 h16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 dialect_h2 __attribute__((ext_vector_type(2)));
typedef __bf16 dialect_b2 __attribute__((ext_vector_type(2)));
typedef short dialect_s16 __attribute__((ext_vector_type(16)));

template <class T, class F> DEVICE T bits_cast(F x)
{
	return __builtin_bit_cast(T, x);
}

DEVICE uint32_t bit_count(uint32_t x) { return (uint32_t)__builtin_popcount(x); }
/* Lets the compiler compute what depends on x once per wave, in scalar registers. */
DEVICE uint32_t wave_uniform(uint32_t x) { return __builtin_amdgcn_readfirstlane(x); }
DEVICE uint32_t thread_index() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE uint32_t group_index_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE uint32_t group_index_y() { return __builtin_amdgcn_workgroup_id_y(); }

/* On gfx11, clang 19's barrier builtin first waits for all global loads in flight, with
 * or without fences. That would stall prefetches meant to arrive during the barrier. This
 * code waits only for LDS and scalar loads. */
DEVICE void group_barrier(int = 0)
{
	__asm__ volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
}

DEVICE void schedule_barrier() { __builtin_amdgcn_sched_barrier(0); }

/* Through a pointer that was itself read from memory, a plain load becomes flat_load.
 * That instruction also checks for LDS and waits for it, and is split if unaligned. The
 * address space avoids this. */
template <class T> DEVICE T load_global(const void *p)
{
	return *(const __attribute__((address_space(1))) T *)p;
}

/* Where the compiler sees `bytes` widened outside of a loop it adds 64 bits in each iteration. */
DEVICE const uint8_t *address_beside(const void *p, uint32_t *bytes)
{
	asm volatile("" : "+v"(*bytes));
	return (const uint8_t *)p + *bytes;
}

/* In the constant address space: loads that the compiler may move and merge. */
template <class T> DEVICE T load_uniform(const void *p)
{
	return *(const __attribute__((address_space(4))) T *)p;
}

template <class T> DEVICE T load_nt(const void *p)
{
	return __builtin_nontemporal_load((const __attribute__((address_space(1))) T *)p);
}


/* A single load: gfx11 on Linux allows unaligned addresses. */
typedef u32x4 dialect_even __attribute__((aligned(2)));
DEVICE u32x4 load_nt_even(const void *p)
{
	return __builtin_nontemporal_load(
		(const __attribute__((address_space(1))) dialect_even *)p);
}

DEVICE u32x4 load_even(const void *p)
{
	return *(const __attribute__((address_space(1))) dialect_even *)p;
}

/* The middle one of three. For fmaxf clang first quiets each operand: two instructions more. */
DEVICE float max_f32(float a, float b)
{
	return __builtin_amdgcn_fmed3f(a, b, __builtin_inff());
}

/* Within 16 lanes a DPP row exchange is free: it is part of the addition that uses it. */
template <int M> DEVICE float wave_xor(float x, int = 0)
{
	int i = bits_cast<int>(x);
	if constexpr (M < 16)
		i = __builtin_amdgcn_update_dpp(0, i, 0x160 | M, 0xF, 0xF, true);
	else
		i = __builtin_amdgcn_permlanex16(i, i, 0x76543210u, 0xFEDCBA98u, false,
						 false);
	return bits_cast<float>(i);
}

DEVICE uint32_t wave_shuffle(uint32_t x, uint32_t lane, int = 0)
{
	return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(lane * 4), (int)x);
}

DEVICE float wave_shuffle(float x, uint32_t lane, int = 0)
{
	return bits_cast<float>(wave_shuffle(bits_cast<uint32_t>(x), lane));
}

DEVICE uint32_t wave_ballot(bool is_set, int = 0)
{
	return __builtin_amdgcn_ballot_w32(is_set);
}

DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
	return __builtin_amdgcn_fdot2(bits_cast<dialect_h2>(a), bits_cast<dialect_h2>(b),
				      c, false);
}

DEVICE float dot2_bf16(uint32_t a, uint32_t b, float c)
{
	return __builtin_amdgcn_fdot2_f32_bf16(bits_cast<dialect_b2>(a),
					       bits_cast<dialect_b2>(b), c, false);
}

DEVICE uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) { return (x & mask) | bits; }

/* v_perm_b32 numbers the bytes of its second operand first. */
template <uint32_t sel> DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b)
{
	constexpr uint32_t s = (sel & 15) | (sel >> 4 & 15) << 8 | (sel >> 8 & 15) << 16 |
			       (sel >> 12 & 15) << 24;
	return __builtin_amdgcn_perm(b, a, s);
}

DEVICE uint32_t lookup_bytes(uint32_t at, uint32_t low, uint32_t high)
{
	return __builtin_amdgcn_perm(high, low, at);
}

DEVICE uint32_t sub2_f16(uint32_t a, uint32_t b)
{
	return bits_cast<uint32_t>(bits_cast<dialect_h2>(a) - bits_cast<dialect_h2>(b));
}

DEVICE uint32_t fma2_f16(uint32_t a, uint32_t b, uint32_t c)
{
	return bits_cast<uint32_t>(__builtin_elementwise_fma(
		bits_cast<dialect_h2>(a), bits_cast<dialect_h2>(b),
		bits_cast<dialect_h2>(c)));
}

DEVICE float f16_to_f32(uint16_t h) { return (float)bits_cast<_Float16>(h); }
DEVICE uint16_t f32_to_f16(float x) { return bits_cast<uint16_t>((_Float16)x); }
DEVICE float bf16_to_f32(uint16_t h) { return bits_cast<float>((uint32_t)h << 16); }

DEVICE float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE float fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
DEVICE float fast_log2(float x) { return __builtin_amdgcn_logf(x); }
DEVICE float fast_rcp(float x) { return __builtin_amdgcn_rcpf(x); }
DEVICE float fast_rsqrt(float x) { return __builtin_amdgcn_rsqf(x); }

/* After this, LDS writes of one lane are visible to the other lanes of its wave. */
DEVICE void wave_barrier(int = 0)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
	__builtin_amdgcn_wave_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

/* Round to bf16, nearest even: gfx11 has no instruction for this. A NaN stays NaN. */
DEVICE uint16_t f32_to_bf16(float x)
{
	uint32_t bits = bits_cast<uint32_t>(x);
	uint32_t up = bits + 0x7FFF + (bits >> 16 & 1);
	return (uint16_t)((x != x ? bits | 0x400000 : up) >> 16);
}

DEVICE float atomic_add(float *p, float x)
{
	return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

DEVICE uint32_t atomic_add(uint32_t *p, uint32_t x)
{
	return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

DEVICE uint64_t atomic_add(uint64_t *p, uint64_t x)
{
	return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

/* The first fence waits for the wave's stores, the last one invalidates L1 and L0. */
DEVICE uint32_t group_arrive(uint32_t *p, uint32_t *lds)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
	group_barrier();
	if (thread_index() == 0)
		*lds = atomic_add(p, 1u);
	group_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
	return *lds;
}

/* --- matrix tiles ----------------------------------------------------------------- */

typedef h16x16 dialect_line;
#include "kernels/device/dialect_tiles.h"

template <int format>
DEVICE dialect_line dialect_tile_row(const uint16_t *low, const uint16_t *high)
{
	struct pair {
		u32x4 lo, hi;
	};
	return bits_cast<h16x16>(pair{*(const u32x4 *)low, *(const u32x4 *)high});
}

template <int format>
DEVICE tile_b<format> tile_load_b_rows(const uint16_t *p, int32_t stride, int = 0)
{
	tile_b<format> b;
	UNROLL
	for (int k = 0; k < 16; k++)
		b.line[k] = bits_cast<_Float16>(p[k * stride + tile_column(0)]);
	return b;
}

template <int format>
DEVICE tile_c tile_mma(tile_a<format> a, tile_b<format> b, tile_c c, int)
{
	if constexpr (format == TILE_F16)
		return {__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a.line, b.line, c.v)};
	else
		return {__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(
			bits_cast<dialect_s16>(a.line), bits_cast<dialect_s16>(b.line), c.v)};
}

DEVICE void tile_pin(tile_c *c)
{
	asm volatile("" : "+v"(c->v) : : "memory");
}

/* A column of B has all 16 positions in both of its lanes, and C half of them in each. */
DEVICE score_weight score_weight_of(const tile_c &c, int = 0)
{
	bool is_odd = thread_index() >> 4 & 1;
	uint32_t low = is_odd ? 0x01000504u : 0x05040100u, high = low | 0x02020202u;
	struct {
		uint32_t v[8];
	} words;
	UNROLL
	for (int j = 0; j < 4; j++) {
		/* As a vector: of numbers of 16 bits, clang clears the upper halves first. */
		uint32_t mine = bits_cast<uint32_t>(
			dialect_h2{(_Float16)c.v[2 * j], (_Float16)c.v[2 * j + 1]});
		uint32_t other = bits_cast<uint32_t>(wave_xor<16>(bits_cast<float>(mine)));
		words.v[2 * j] = __builtin_amdgcn_perm(other, mine, low);
		words.v[2 * j + 1] = __builtin_amdgcn_perm(other, mine, high);
	}
	return {bits_cast<h16x16>(words)};
}
