/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect (dialect.h) on the CPU. Each thread of a workgroup is a fiber
 * (fiber_threads.h), so that kernels can be tested without a GPU and under
 * sanitizers. Arithmetic equals the GPU's where that is exactly defined (halves round
 * once). Sums of dot2 and of matrix tiles may differ in the last place, and the fast
 * functions are exact.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/hip-on-cpu/fiber_threads.h"

#define DEVICE static inline __attribute__((unused))
#define KERNEL(max_threads) extern "C"
#define UNROLL
#define TABLE static const
#define ONE_BY_ONE
#define LDS(T, name, n) \
	static const char name##_key = 0; \
	T *name = (T *)fiber_lds(&name##_key, sizeof(T) * (n))
#define LDS_DYNAMIC(T, name) T *name = (T *)fiber_lds_dynamic()

/* GPU code may load memory as any type; may_alias allows this here too. */
template <class T, int n> struct __attribute__((may_alias, aligned(sizeof(T) * n))) dialect_vec {
	T v[n];
	T &operator[](int i) { return v[i]; }
	T operator[](int i) const { return v[i]; }
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

DEVICE uint32_t bit_count(uint32_t x) { return (uint32_t)__builtin_popcount(x); }
DEVICE uint32_t wave_uniform(uint32_t x) { return x; }
DEVICE uint32_t thread_index() { return fiber_thread(); }
DEVICE uint32_t group_index_x() { return fiber_group(0); }
DEVICE uint32_t group_index_y() { return fiber_group(1); }
DEVICE void group_barrier(int site = __builtin_LINE()) { fiber_barrier(site); }
DEVICE void schedule_barrier() {}
DEVICE const uint8_t *address_beside(const void *p, uint32_t *bytes)
{
	return (const uint8_t *)p + *bytes;
}
template <class T> DEVICE T load_global(const void *p) { return *(const T *)p; }
template <class T> DEVICE T load_uniform(const void *p) { return *(const T *)p; }

template <class T> DEVICE T load_nt(const void *p)
{
	return *(const T *)p;
}


/* Loads by two bytes, so that UBSan reports an odd address. */
DEVICE u32x4 load_nt_even(const void *p)
{
	typedef uint16_t __attribute__((may_alias)) two;
	u32x4 out;
	for (int i = 0; i < 4; i++)
		out[i] = ((const two *)p)[2 * i] |
			 (uint32_t)((const two *)p)[2 * i + 1] << 16;
	return out;
}
DEVICE u32x4 load_even(const void *p)
{
	return load_nt_even(p);
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

/* All steps of dialect.h's lanes_sum in one exchange, computed by each lane, because an
 * exchange between fibers is slow. A step gives lanes i and i ^ m the same sum, so one of
 * them is computed. */
template <int n> DEVICE float dialect_lanes_sum(float x, int site)
{
	const uint8_t *slots = fiber_exchange(&x, sizeof x, site);
	const uint8_t *first = slots + fiber_thread() % FIBER_WAVE / n * n * FIBER_SLOT;
	float sums[n];
	for (int i = 0; i < n; i++)
		memcpy(&sums[i], first + i * FIBER_SLOT, sizeof x);
	for (int m = n / 2; m; m /= 2)
		for (int i = 0; i < m; i++)
			sums[i] += sums[i + m];
	return sums[0];
}
#define DIALECT_LANES_SUM dialect_lanes_sum

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

#ifdef __F16C__ /* tests/hip-on-cpu is compiled for the machine that builds it */
typedef short dialect_halves __attribute__((vector_size(16)));

DEVICE float f16_to_f32(uint16_t h)
{
	return __builtin_ia32_vcvtph2ps(dialect_halves{(short)h})[0];
}

DEVICE uint16_t f32_to_f16(float x)
{
	float __attribute__((vector_size(16))) v = {x};
	return (uint16_t)__builtin_ia32_vcvtps2ph(v, 0)[0]; /* 0: to the nearest */
}
#else
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
	if (mag < 0x38800000u) /* below 2^-14, subnormal: the rounded integer is the bits */
		return (uint16_t)(sign | (uint32_t)lrintf(fabsf(x) * 0x1p24f));
	mag += 0xFFF + (mag >> 13 & 1);
	return (uint16_t)(sign | (mag - (112u << 23)) >> 13);
}
#endif

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

DEVICE uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) { return (x & mask) | bits; }

template <uint32_t sel> DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t out = 0;
	for (int i = 0; i < 4; i++)
		out |= (uint32_t)(both >> (sel >> i * 4 & 7) * 8 & 255) << i * 8;
	return out;
}

DEVICE uint32_t lookup_bytes(uint32_t at, uint32_t low, uint32_t high)
{
	uint64_t both = (uint64_t)high << 32 | low;
	uint32_t out = 0;
	for (int i = 0; i < 32; i += 8)
		out |= (uint32_t)(both >> (at >> i & 7) * 8 & 255) << i;
	return out;
}

DEVICE uint32_t sub2_f16(uint32_t a, uint32_t b)
{
	uint32_t out = 0;
	for (int s = 0; s < 32; s += 16)
		out |= (uint32_t)f32_to_f16(f16_to_f32((uint16_t)(a >> s)) -
					    f16_to_f32((uint16_t)(b >> s))) << s;
	return out;
}

/* The product of two halves is exact in float, and the sum is exact in double. */
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

DEVICE float fma_f32(float a, float b, float c) { return fmaf(a, b, c); }
DEVICE float max_f32(float a, float b) { return fmaxf(a, b); }
DEVICE float fast_exp2(float x) { return exp2f(x); }
DEVICE float fast_log2(float x) { return log2f(x); }
DEVICE float fast_rcp(float x) { return (float)(1 / (double)x); }
DEVICE float fast_rsqrt(float x) { return (float)(1 / sqrt((double)x)); }

DEVICE void wave_barrier(int site = __builtin_LINE())
{
	uint8_t nothing = 0;
	fiber_exchange(&nothing, 1, site);
}

DEVICE uint16_t f32_to_bf16(float x)
{
	uint32_t bits = bits_cast<uint32_t>(x);
	uint32_t up = bits + 0x7FFF + (bits >> 16 & 1);
	return (uint16_t)((x != x ? bits | 0x400000 : up) >> 16);
}

/* All fibers run in one thread and do not interrupt each other here. */
template <class T> DEVICE T atomic_add(T *p, T x)
{
	T old = *p;
	*p = old + x;
	return old;
}

DEVICE uint32_t group_arrive(uint32_t *p, uint32_t *lds, int site = __builtin_LINE())
{
	group_barrier(site);
	if (thread_index() == 0)
		*lds = atomic_add(p, 1u);
	group_barrier(site + 1000000);
	return *lds;
}

/* --- matrix tiles ----------------------------------------------------------------- */

/* Laid out as on gfx11, but in float: a row of A or a column of B fills one exchange
 * slot. */
struct dialect_line {
	float v[16];
};
#include "kernels/device/dialect_tiles.h"

enum { ROWS_APART = 2 * FIBER_SLOT / sizeof(float) };

DEVICE void tile_pin(tile_c *) {}
template <int format> DEVICE float dialect_to_f32(uint16_t h)
{
	return format == TILE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* Loads as u32x4, so that UBSan reports an address the GPU would refuse. */
template <int format>
DEVICE dialect_line dialect_tile_row(const uint16_t *low, const uint16_t *high)
{
	dialect_line out;
	const u32x4 line[2] = {*(const u32x4 *)low, *(const u32x4 *)high};
	for (int k = 0; k < 16; k++)
		out.v[k] = dialect_to_f32<format>(
			(uint16_t)(line[k / 8][k % 8 / 2] >> k % 2 * 16));
	return out;
}

template <int format>
DEVICE tile_b<format> tile_load_b_rows(const uint16_t *p, int32_t stride, int = 0)
{
	tile_b<format> b;
	for (int k = 0; k < 16; k++)
		b.line.v[k] = dialect_to_f32<format>(p[k * stride + tile_column(0)]);
	return b;
}

/* Four products of a row and a column side by side. Their four partial sums are added
 * at the end. */
typedef float dialect_f32x4 __attribute__((vector_size(16)));

DEVICE float dialect_tile_dot(const float *row, const dialect_f32x4 *column)
{
	dialect_f32x4 sum = {0};
	for (int k = 0; k < 4; k++) {
		dialect_f32x4 four;
		memcpy(&four, row + 4 * k, sizeof four);
		sum += four * column[k];
	}
	return sum[0] + sum[1] + (sum[2] + sum[3]);
}

template <int format>
DEVICE tile_c tile_mma(tile_a<format> a, tile_b<format> b, tile_c c, int site)
{
	const uint8_t *slots = fiber_exchange(&a, sizeof a, site);
	const float *first = (const float *)(slots + tile_row(0) * FIBER_SLOT);
	dialect_f32x4 column[4];
	memcpy(column, &b.line, sizeof column);
	for (int i = 0; i < TILE_C; i++)
		c.v[i] += dialect_tile_dot(first + i * ROWS_APART, column);
	return c;
}

/* Of 16 positions of its query a lane has the even ones, the lane 16 on the odd ones. */
DEVICE score_weight score_weight_of(const tile_c &c, int site = __builtin_LINE())
{
	score_weight out;
	const uint8_t *slots = fiber_exchange(&c, sizeof c, site);
	for (int k = 0; k < 16; k++) {
		float x;
		uint32_t lane = fiber_thread() % 16 + (uint32_t)k % 2 * 16;
		memcpy(&x, slots + lane * FIBER_SLOT + k / 2 * sizeof x, sizeof x);
		out.line.v[k] = f16_to_f32(f32_to_f16(x));
	}
	return out;
}
