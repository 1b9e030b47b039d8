/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect (dialect.h) on the CPU: each thread of a workgroup is a fiber
 * (kernels/fiber.h), so that what a kernel does can be tested, with sanitizers, where
 * there is no GPU. Arithmetic is that of the GPU where it is defined there (halves
 * round once); sums of dot2 and of the matrix tile may differ in the last place, and
 * the fast functions are exact.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/fiber.h"

#define DEVICE static inline __attribute__((unused))
#define KERNEL(max_threads) extern "C"
#define UNROLL
#define LDS(T, name, n) \
	static const char name##_key = 0; \
	T *name = (T *)fiber_lds(&name##_key, sizeof(T) * (n))
#define LDS_DYNAMIC(T, name) T *name = (T *)fiber_lds_dynamic()

/* GPUs need not know what a load is typed as: neither may the compiler here. */
template <class T, int n> struct __attribute__((may_alias, aligned(sizeof(T) * n))) dialect_vec {
	T v[n];
	T &operator[](int i) { return v[i]; }
	T operator[](int i) const { return v[i]; }
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
DEVICE uint32_t thread_index() { return fiber_thread(); }
DEVICE uint32_t group_index_x() { return fiber_group(0); }
DEVICE uint32_t group_index_y() { return fiber_group(1); }
DEVICE void group_barrier(int site = __builtin_LINE()) { fiber_barrier(site); }
DEVICE void device_fence() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }

template <class T> DEVICE T load_nt(const void *p)
{
	return *(const T *)p;
}

template <class T> DEVICE T dialect_shuffle(T x, uint32_t lane, int site)
{
	T out;
	const uint8_t *slots = fiber_exchange(&x, sizeof x, site);
	memcpy(&out, slots + lane % 32 * FIBER_SLOT, sizeof out);
	return out;
}

template <int M> DEVICE float wave_xor(float x, int site = __builtin_LINE())
{
	return dialect_shuffle(x, fiber_thread() ^ M, site);
}

DEVICE uint32_t wave_shuffle(uint32_t x, uint32_t lane, int site = __builtin_LINE())
{
	return dialect_shuffle(x, lane, site);
}

DEVICE float wave_shuffle(float x, uint32_t lane, int site = __builtin_LINE())
{
	return dialect_shuffle(x, lane, site);
}

DEVICE uint32_t wave_ballot(bool is_set, int site = __builtin_LINE())
{
	uint8_t mine = is_set;
	const uint8_t *slots = fiber_exchange(&mine, 1, site);
	uint32_t out = 0;
	for (int i = 0; i < 32; i++)
		out |= (uint32_t)(slots[i * FIBER_SLOT] == 1) << i;
	return out;
}

DEVICE float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7FFF;
	if (mag < 0x400) /* zero or subnormal */
		return bits_cast<float>(bits_cast<uint32_t>((float)mag * 0x1p-24f) | sign);
	if (mag < 0x7C00)
		return bits_cast<float>(sign | ((mag << 13) + (112u << 23)));
	return bits_cast<float>(sign | 0x7F800000u | mag << 13);
}

DEVICE uint16_t f32_to_f16(float x)
{
	uint32_t bits = bits_cast<uint32_t>(x), sign = bits >> 16 & 0x8000;
	uint32_t mag = bits & 0x7FFFFFFF;
	if (mag > 0x7F800000u)
		return (uint16_t)(sign | 0x7E00);
	if (mag >= 0x477FF000u) /* 65520 and above round to infinity */
		return (uint16_t)(sign | 0x7C00);
	if (mag < 0x38800000u) /* below 2^-14: the integer is the bits */
		return (uint16_t)(sign | (uint32_t)lrintf(fabsf(x) * 0x1p24f));
	mag += 0xFFF + (mag >> 13 & 1);
	return (uint16_t)(sign | (mag - (112u << 23)) >> 13);
}

DEVICE float bf16_to_f32(uint16_t h) { return bits_cast<float>((uint32_t)h << 16); }

DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
	float lo = f16_to_f32((uint16_t)a) * f16_to_f32((uint16_t)b);
	return f16_to_f32((uint16_t)(a >> 16)) * f16_to_f32((uint16_t)(b >> 16)) +
	       (lo + c);
}

DEVICE float dot2_bf16(uint32_t a, uint32_t b, float c)
{
	float lo = bf16_to_f32((uint16_t)a) * bf16_to_f32((uint16_t)b);
	return bf16_to_f32((uint16_t)(a >> 16)) * bf16_to_f32((uint16_t)(b >> 16)) +
	       (lo + c);
}

DEVICE uint32_t sub2_f16(uint32_t a, uint32_t b)
{
	uint32_t out = 0;
	for (int s = 0; s < 32; s += 16)
		out |= (uint32_t)f32_to_f16(f16_to_f32((uint16_t)(a >> s)) -
					    f16_to_f32((uint16_t)(b >> s))) << s;
	return out;
}

/* The product of two halves is exact in float, and so is, in double, the sum. */
DEVICE uint32_t fma2_f16(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t out = 0;
	for (int s = 0; s < 32; s += 16) {
		double product = (double)f16_to_f32((uint16_t)(a >> s)) *
				 f16_to_f32((uint16_t)(b >> s));
		double sum = product + f16_to_f32((uint16_t)(c >> s));
		out |= (uint32_t)f32_to_f16((float)sum) << s;
	}
	return out;
}

DEVICE float fast_exp2(float x) { return exp2f(x); }
DEVICE float fast_rcp(float x) { return (float)(1 / (double)x); }
DEVICE float fast_rsqrt(float x) { return (float)(1 / sqrt((double)x)); }

template <float (*to_f32)(uint16_t)>
DEVICE f32x8 dialect_mma(h16x16 a, h16x16 b, f32x8 c, int site)
{
	struct {
		h16x16 a, b;
	} mine = {a, b}, row, column;
	const uint8_t *slots = fiber_exchange(&mine, sizeof mine, site);
	uint32_t lane = fiber_thread() % 32;
	memcpy(&column, slots + lane % 16 * FIBER_SLOT, sizeof column);
	for (uint32_t i = 0; i < 8; i++) {
		/* Lanes 16 to 31 are taken from themselves: they must repeat. */
		uint32_t r = 2 * i + lane / 16;
		memcpy(&row, slots + (lane / 16 * 16 + r) * FIBER_SLOT, sizeof row);
		for (int k = 0; k < 16; k++)
			c[(int)i] += to_f32(row.a[k]) * to_f32(column.b[k]);
	}
	return c;
}

DEVICE f32x8 mma_f16(h16x16 a, h16x16 b, f32x8 c, int site = __builtin_LINE())
{
	return dialect_mma<f16_to_f32>(a, b, c, site);
}

DEVICE f32x8 mma_bf16(h16x16 a, h16x16 b, f32x8 c, int site = __builtin_LINE())
{
	return dialect_mma<bf16_to_f32>(a, b, c, site);
}

/* Fibers share a thread: nothing comes between. */
template <class T> DEVICE T atomic_add(T *p, T x)
{
	T old = *p;
	*p = old + x;
	return old;
}
