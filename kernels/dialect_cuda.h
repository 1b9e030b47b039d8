/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect (dialect.h) for NVIDIA GPUs by nvcc -x cu: to run the kernels on a GPU
 * where there is no AMD one. The matrix tile keeps gfx11's layout by shuffles: right,
 * not fast.
 */
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define DEVICE static __device__ __forceinline__
#define KERNEL(max_threads) extern "C" __global__ __launch_bounds__(max_threads)
#define UNROLL _Pragma("unroll")
#define LDS(T, name, n) __shared__ T name[n]
#define LDS_DYNAMIC(T, name) extern __shared__ __align__(16) T name[]

template <class T, int n> struct __align__(sizeof(T) * n) dialect_vec {
	T v[n];
	__device__ T &operator[](int i) { return v[i]; }
	__device__ T operator[](int i) const { return v[i]; }
};
typedef dialect_vec<uint32_t, 2> u32x2;
typedef dialect_vec<uint32_t, 4> u32x4;
typedef dialect_vec<float, 8> f32x8;
typedef dialect_vec<uint16_t, 16> h16x16;

template <class T, class F> DEVICE T bits_cast(F x)
{
	static_assert(sizeof(T) == sizeof(F), "the same size");
	T out;
	memcpy(&out, &x, sizeof out);
	return out;
}

DEVICE uint32_t wave_uniform(uint32_t x) { return x; }
DEVICE uint32_t thread_index() { return threadIdx.x; }
DEVICE uint32_t group_index_x() { return blockIdx.x; }
DEVICE uint32_t group_index_y() { return blockIdx.y; }
DEVICE void group_barrier(int = 0) { __syncthreads(); }
DEVICE void device_fence() { __threadfence(); }

template <class T> struct dialect_native;
template <> struct dialect_native<uint32_t> { typedef unsigned type; };
template <> struct dialect_native<u32x2> { typedef uint2 type; };
template <> struct dialect_native<u32x4> { typedef uint4 type; };

template <class T> DEVICE T load_nt(const void *p)
{
	return bits_cast<T>(__ldcs((const typename dialect_native<T>::type *)p));
}

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

DEVICE uint32_t sub2_f16(uint32_t a, uint32_t b)
{
	return bits_cast<uint32_t>(__hsub2(bits_cast<__half2>(a), bits_cast<__half2>(b)));
}

DEVICE uint32_t fma2_f16(uint32_t a, uint32_t b, uint32_t c)
{
	return bits_cast<uint32_t>(__hfma2(bits_cast<__half2>(a), bits_cast<__half2>(b),
					   bits_cast<__half2>(c)));
}

DEVICE float fast_exp2(float x) { return exp2f(x); }
DEVICE float fast_rcp(float x) { return __frcp_rn(x); }
DEVICE float fast_rsqrt(float x) { return __frsqrt_rn(x); }

template <bool is_bf16> DEVICE f32x8 dialect_mma(h16x16 a, h16x16 b, f32x8 c)
{
	uint32_t half_wave = threadIdx.x / 16 % 2;
	for (int i = 0; i < 8; i++)
		for (int k = 0; k < 16; k++) {
			uint16_t x = (uint16_t)__shfl_sync(0xFFFFFFFFu, (uint32_t)a[k],
							   2 * i + half_wave);
			c[i] = is_bf16 ? fmaf(bf16_to_f32(x), bf16_to_f32(b[k]), c[i])
				       : fmaf(f16_to_f32(x), f16_to_f32(b[k]), c[i]);
		}
	return c;
}

DEVICE f32x8 mma_f16(h16x16 a, h16x16 b, f32x8 c, int = 0)
{
	return dialect_mma<false>(a, b, c);
}

DEVICE f32x8 mma_bf16(h16x16 a, h16x16 b, f32x8 c, int = 0)
{
	return dialect_mma<true>(a, b, c);
}

template <class T> DEVICE T atomic_add(T *p, T x)
{
	return atomicAdd(p, x);
}
