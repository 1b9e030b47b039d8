/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect (kernels/device/dialect.h) for NVIDIA GPUs by nvcc -x cu, so that AMD's kernels run
 * on real hardware with real races where there is no AMD GPU. It is not for speed: dot2 is two
 * fused multiply-adds, and a matrix tile has gfx11's layout and is made of shuffles.
 */
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define DEVICE static __device__ __forceinline__
#define KERNEL(max_threads) extern "C" __global__ __launch_bounds__(max_threads)
#define UNROLL _Pragma("unroll")
#define TABLE static __constant__ const
#define ONE_BY_ONE _Pragma("unroll 1")
#define LDS(T, name, n) __shared__ __align__(sizeof(T) * (n) < 128 ? 16 : 128) T name[n]
#define LDS_DYNAMIC(T, name) extern __shared__ __align__(16) T name[]

template <class T, int n> struct __align__(sizeof(T) * n) dialect_vec {
	T v[n];
	__device__ T &operator[](int i) { return v[i]; }
	__device__ T operator[](int i) const { return v[i]; }
};
typedef dialect_vec<uint32_t, 2> u32x2;
typedef dialect_vec<uint32_t, 4> u32x4;
typedef dialect_vec<float, 8> f32x8;

template <class T, class F> DEVICE T bits_cast(F x)
{
	static_assert(sizeof(T) == sizeof(F), "the same size");
	T out;
	memcpy(&out, &x, sizeof out);
	return out;
}

DEVICE uint32_t bit_count(uint32_t x) { return (uint32_t)__popc(x); }
DEVICE uint32_t wave_uniform(uint32_t x) { return x; }
DEVICE uint32_t thread_index() { return threadIdx.x; }
DEVICE uint32_t group_index_x() { return blockIdx.x; }
DEVICE uint32_t group_index_y() { return blockIdx.y; }
DEVICE void group_barrier(int = 0) { __syncthreads(); }
DEVICE void schedule_barrier() {}
DEVICE const uint8_t *address_beside(const void *p, uint32_t *bytes)
{
	return (const uint8_t *)p + *bytes;
}
template <class T> DEVICE T load_global(const void *p)
{
	__builtin_assume(__isGlobal(p));
	return *(const T *)p;
}
template <class T> DEVICE T load_uniform(const void *p) { return *(const T *)p; }

template <class T> struct dialect_native;
template <> struct dialect_native<uint32_t> { typedef unsigned type; };
template <> struct dialect_native<u32x2> { typedef uint2 type; };
template <> struct dialect_native<u32x4> { typedef uint4 type; };

template <class T> DEVICE T load_nt(const void *p)
{
	return bits_cast<T>(__ldcs((const typename dialect_native<T>::type *)p));
}

/* Loads four aligned words, and a fifth only if the sixteen bytes reach into it. */
DEVICE u32x4 load_nt_even(const void *p)
{
	size_t at = (size_t)p;
	const unsigned *q = (const unsigned *)(at & ~(size_t)3);
	unsigned shift = (unsigned)(at & 2) * 8, word[5];
	for (int i = 0; i < 4; i++)
		word[i] = __ldcs(q + i);
	word[4] = shift ? __ldcs(q + 4) : 0;
	u32x4 out;
	for (int i = 0; i < 4; i++)
		out[i] = __funnelshift_r(word[i], word[i + 1], shift);
	return out;
}
DEVICE u32x4 load_even(const void *p)
{
	return load_nt_even(p);
}

DEVICE float max_f32(float a, float b) { return fmaxf(a, b); }

template <int M> DEVICE float wave_xor(float x, int = 0)
{
	return __shfl_xor_sync(0xFFFFFFFFu, x, M);
}

DEVICE uint32_t wave_shuffle(uint32_t x, uint32_t lane, int = 0)
{
	return __shfl_sync(0xFFFFFFFFu, x, lane);
}

DEVICE float wave_shuffle(float x, uint32_t lane, int = 0)
{
	return __shfl_sync(0xFFFFFFFFu, x, lane);
}

DEVICE uint32_t wave_ballot(bool is_set, int = 0)
{
	return __ballot_sync(0xFFFFFFFFu, is_set);
}

DEVICE float f16_to_f32(uint16_t h) { return __half2float(__ushort_as_half(h)); }
DEVICE uint16_t f32_to_f16(float x) { return __half_as_ushort(__float2half_rn(x)); }
DEVICE float bf16_to_f32(uint16_t h) { return bits_cast<float>((uint32_t)h << 16); }
DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
	float2 x = __half22float2(bits_cast<__half2>(a));
	float2 y = __half22float2(bits_cast<__half2>(b));
	return fmaf(x.y, y.y, fmaf(x.x, y.x, c));
}

DEVICE float dot2_bf16(uint32_t a, uint32_t b, float c)
{
	float lo = fmaf(bf16_to_f32((uint16_t)a), bf16_to_f32((uint16_t)b), c);
	return fmaf(bits_cast<float>(a & 0xFFFF0000u), bits_cast<float>(b & 0xFFFF0000u),
		    lo);
}

/* Inline assembly, because nvcc makes two instructions of this. */
DEVICE uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits)
{
	uint32_t out;
	asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(x), "r"(mask), "r"(bits));
	return out;
}

template <uint32_t sel> DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b)
{
	return __byte_perm(a, b, sel);
}

/* __byte_perm takes its selectors as nibbles. */
DEVICE uint32_t lookup_bytes(uint32_t at, uint32_t low, uint32_t high)
{
	uint32_t two = at | at >> 4;
	return __byte_perm(low, high, (two & 0xFF) | (two >> 8 & 0xFF00));
}

DEVICE uint32_t sub2_f16(uint32_t a, uint32_t b)
{
	return bits_cast<uint32_t>(__hsub2(bits_cast<__half2>(a), bits_cast<__half2>(b)));
}

DEVICE uint32_t fma2_f16(uint32_t a, uint32_t b, uint32_t c)
{
	return bits_cast<uint32_t>(__hfma2(bits_cast<__half2>(a), bits_cast<__half2>(b),
					   bits_cast<__half2>(c)));
}

DEVICE float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
/* Like AMD's instructions: no exact rounding, and denormal numbers are zeros. */
DEVICE float fast_exp2(float x)
{
	asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
	return x;
}
DEVICE float fast_log2(float x) { return log2f(x); }
DEVICE float fast_rcp(float x)
{
	asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
	return x;
}
DEVICE float fast_rsqrt(float x)
{
	asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x));
	return x;
}

DEVICE void wave_barrier(int = 0) { __syncwarp(); }
DEVICE uint16_t f32_to_bf16(float x)
{
	return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

template <class T> DEVICE T atomic_add(T *p, T x)
{
	return atomicAdd(p, x);
}

DEVICE uint64_t atomic_add(uint64_t *p, uint64_t x)
{
	return atomicAdd((unsigned long long *)p, (unsigned long long)x);
}

/* The fence of thread 0 also covers other threads' writes, which the barrier made visible
 * to it. */
DEVICE uint32_t group_arrive(uint32_t *p, uint32_t *lds)
{
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		*lds = atomicAdd(p, 1u);
		__threadfence();
	}
	__syncthreads();
	return *lds;
}

/* --- matrix tiles ----------------------------------------------------------------- */

/* A row of A or a column of B: pairs of halves. Lanes 16-31 have the same as 0-15. */
struct dialect_line {
	uint32_t v[8];
};
#include "kernels/device/dialect_tiles.h"

DEVICE void tile_pin(tile_c *) {}

template <int format>
DEVICE dialect_line dialect_tile_row(const uint16_t *low, const uint16_t *high)
{
	u32x4 lo = *(const u32x4 *)low, hi = *(const u32x4 *)high;
	return {{lo[0], lo[1], lo[2], lo[3], hi[0], hi[1], hi[2], hi[3]}};
}

template <int format>
DEVICE tile_b<format> tile_load_b_rows(const uint16_t *p, int32_t stride, int = 0)
{
	tile_b<format> b;
	UNROLL
	for (int k = 0; k < 8; k++)
		b.line.v[k] = p[2 * k * stride + tile_column(0)] |
			      (uint32_t)p[(2 * k + 1) * stride + tile_column(0)] << 16;
	return b;
}

/* Row tile_row(i) of A is in the lane of that number. */
template <int format>
DEVICE tile_c tile_mma(tile_a<format> a, tile_b<format> b, tile_c c, int)
{
	UNROLL
	for (int i = 0; i < TILE_C; i++)
		UNROLL
		for (int k = 0; k < 8; k++) {
			uint32_t x = wave_shuffle(a.line.v[k], (uint32_t)tile_row(i));
			c.v[i] = format == TILE_F16 ? dot2_f16(x, b.line.v[k], c.v[i])
						    : dot2_bf16(x, b.line.v[k], c.v[i]);
		}
	return c;
}

/* Of 16 positions of its query a lane has the even ones, the lane 16 on the odd ones. */
DEVICE score_weight score_weight_of(const tile_c &c, int = 0)
{
	score_weight out;
	uint32_t lane = threadIdx.x & 15;
	UNROLL
	for (int j = 0; j < TILE_C; j++) {
		uint32_t mine = f32_to_f16(c.v[j]);
		out.line.v[j] = wave_shuffle(mine, lane) | wave_shuffle(mine, lane + 16) << 16;
	}
	return out;
}
