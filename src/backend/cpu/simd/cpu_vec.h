/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector types and operations for the instruction set being compiled for: the few
 * operations that GCC's vector types do not have. So one source serves four instruction
 * sets. ISA(name) appends the instruction set's name. ISA_SHARED(name) does too, but the build
 * with products of bf16 pairs takes plain AVX-512's functions, where they make no such products.
 */
#pragma once
#include "backend/cpu/cpu_isa.h"

#include <string.h>

#include "base/vec4.h"

#if defined(__AVX512VNNI__)
#define CPU_AVX512 1
#if defined(__AVX512BF16__)
#define CPU_BF16_PAIRS 1
#define ISA(name) name##_avx512_bf16
#define ISA_SHARED(name) name##_avx512
#define ISA_NAME "avx512_bf16"
#else
#define CPU_BF16_PAIRS 0
#define ISA(name) name##_avx512
#define ISA_NAME "avx512"
#endif
#define VL 16
#include <immintrin.h>
#elif defined(__AVX2__)
#define CPU_AVX2 1
#define ISA(name) name##_avx2
#define ISA_NAME "avx2"
#define VL 8
#include <immintrin.h>
#else
#define ISA(name) name##_portable
#define ISA_NAME "portable"
#define VL 4
#endif

#ifndef ISA_SHARED
#define ISA_SHARED(name) ISA(name)
#endif

#define VINLINE static inline __attribute__((always_inline))

/* Before a loop: unroll it n times. A loop with UBSan's checks in it stays a loop: unrolled, it
 * has a thousand exits, and clang needs half a minute for a file. */
#define CPU_UNROLL(n) CPU_PRAGMA(GCC unroll n)
#ifdef __has_feature
#if __has_feature(undefined_behavior_sanitizer)
#undef CPU_UNROLL
#define CPU_UNROLL(n) CPU_PRAGMA(GCC unroll 1)
#endif
#endif
#define CPU_PRAGMA(text) _Pragma(#text)

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef int16_t vh __attribute__((vector_size(4 * VL)));
typedef uint16_t vhalf __attribute__((vector_size(2 * VL)));

VINLINE vf vf_load(const float *p)
{
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}

VINLINE void vf_store(float *p, vf v)
{
	memcpy(p, &v, sizeof v);
}

VINLINE vi vi_load(const void *p)
{
	vi v;
	memcpy(&v, p, sizeof v);
	return v;
}

VINLINE void vi_store(void *p, vi v)
{
	memcpy(p, &v, sizeof v);
}

/* Load the first n lanes, or all if there are no more; the others are zero. */
VINLINE vi vi_load_some(const int32_t *p, int n)
{
	if (n >= VL)
		return vi_load(p);
#if CPU_AVX512
	return (vi)_mm512_maskz_loadu_epi32((__mmask16)((1u << n) - 1), p);
#elif CPU_AVX2
	vi mask = (vi){0, 1, 2, 3, 4, 5, 6, 7} < n;
	return (vi)_mm256_maskload_epi32(p, (__m256i)mask);
#else
	return (vi){p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, 0};
#endif
}

VINLINE vhalf vhalf_load(const uint16_t *p)
{
	vhalf v;
	memcpy(&v, p, sizeof v);
	return v;
}

VINLINE vf vf_all(float f)
{
	return f - (vf){0};
}

VINLINE vi vi_all(int32_t i)
{
	return i - (vi){0};
}

/* a * b + c, rounded once if the instruction set has fused multiply-add. */
VINLINE vf vf_fma(vf a, vf b, vf c)
{
#if CPU_AVX512
	return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif CPU_AVX2
	return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
	return a * b + c;
#endif
}

VINLINE vf vf_select(vi mask, vf a, vf b)
{
	return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* Extend 16-bit integers to 32 bits with zeros. */
VINLINE vu vu_of_half(vhalf h)
{
#if CPU_AVX512
	return (vu)_mm512_cvtepu16_epi32((__m256i)h);
#elif CPU_AVX2
	return (vu)_mm256_cvtepu16_epi32((__m128i)h);
#else
	return (vu){h[0], h[1], h[2], h[3]};
#endif
}

/* Load VL bytes, extended to 32 bits with zeros. */
VINLINE vi vi_of_bytes(const uint8_t *p)
{
#if CPU_AVX512
	return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
#elif CPU_AVX2
	return (vi)_mm256_cvtepu8_epi32(_mm_loadu_si64(p));
#else
	return (vi){p[0], p[1], p[2], p[3]};
#endif
}

VINLINE vf vf_of_bf16(vhalf h)
{
	return (vf)(vu_of_half(h) << 16);
}

/* Convert IEEE binary16 to float, including subnormals, infinities and NaN: see
 * widen_half in cpu_tile.c. */
VINLINE vf vf_of_f16(vhalf h)
{
#if CPU_AVX512
	return (vf)_mm512_cvtph_ps((__m256i)h);
#elif CPU_AVX2
	return (vf)_mm256_cvtph_ps((__m128i)h);
#else
	vu bits = vu_of_half(h);
	vu magnitude = (bits & 0x7FFF) << 13;
	vu is_special = (vu)(magnitude >= (0x7C00u << 13));
	vf f = (vf)magnitude * vf_all(0x1p112f);
	return (vf)((vu)f | (is_special & 0x7F800000u) | (bits & 0x8000) << 16);
#endif
}

/* Like vec4_exp. */
VINLINE vf vf_exp(vf x)
{
	const vf magic = vf_all(0x1.8p23f);
	x = vf_select(x > vf_all(88), vf_all(88), x);
	x = vf_select(x < vf_all(-87), vf_all(-87), x);
	vf t = vf_fma(x, vf_all(0x1.715476p0f), magic);
	vf n = t - magic;
	vf y = vf_fma(n, vf_all(-0x1.0bfbe8p-15f), vf_fma(n, vf_all(-0x1.62ep-1f), x));
	vf p = vf_all(1.0f / 5040);
	p = vf_fma(p, y, vf_all(1.0f / 720));
	p = vf_fma(p, y, vf_all(1.0f / 120));
	p = vf_fma(p, y, vf_all(1.0f / 24));
	p = vf_fma(p, y, vf_all(1.0f / 6));
	p = vf_fma(p, y, vf_all(0.5f));
	p = vf_fma(p, y, vf_all(1));
	p = vf_fma(p, y, vf_all(1));
	vi exponent = ((vi)t - (vi)magic + 127) << 23;
	return p * (vf)exponent;
}

/* Like silu_mul4 with up = 1. */
VINLINE vf vf_silu(vf g)
{
	g = vf_select(g < vf_all(-87), vf_all(-87), g);
	return g / (vf_all(1) + vf_exp(-g));
}

/* Like gelu_mul4 with up = 1. */
VINLINE vf vf_gelu(vf g)
{
	g = vf_select(g < vf_all(-10), vf_all(-10), g);
	vf z = vf_all(1.595769122f) * (g + vf_all(0.044715f) * g * g * g);
	return g / (vf_all(1) + vf_exp(-z));
}

/* Add halves of the vector until four lanes are left. */
VINLINE vec4 vf_fold(vf v)
{
#if CPU_AVX512
	__m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)v),
				    _mm512_extractf32x8_ps((__m512)v, 1));
	return (vec4)_mm_add_ps(_mm256_castps256_ps128(half),
				_mm256_extractf128_ps(half, 1));
#elif CPU_AVX2
	return (vec4)_mm_add_ps(_mm256_castps256_ps128((__m256)v),
				_mm256_extractf128_ps((__m256)v, 1));
#else
	return v;
#endif
}

/* The sum of a vector: halves are added until one lane is left. */
VINLINE float vf_sum(vf v)
{
	vec4 f = vf_fold(v);
	return (f[0] + f[2]) + (f[1] + f[3]);
}

/* The largest lane; no lane may be NaN. */
VINLINE float vf_largest(vf v)
{
#if CPU_AVX512
	return _mm512_reduce_max_ps((__m512)v);
#elif CPU_AVX2
	__m128 m = _mm_max_ps(_mm256_castps256_ps128((__m256)v),
			      _mm256_extractf128_ps((__m256)v, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
#else
	float most = v[0];
	for (int i = 1; i < VL; i++)
		most = v[i] > most ? v[i] : most;
	return most;
#endif
}

/* The sums of four vectors: halves are added, then (lane 0 + 2) + (lane 1 + 3). */
VINLINE vec4 vf_sums(const vf *v)
{
	return vec4_sums(vf_fold(v[0]), vf_fold(v[1]), vf_fold(v[2]), vf_fold(v[3]));
}
