/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of four floats, in GCC's vector extensions. The baselines of x86-64 and AArch64
 * have an instruction for each operation. Thread: any.
 */
#pragma once
#include <stdint.h>
#include <string.h>

typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t vec4i __attribute__((vector_size(16)));

#define VEC4_INLINE static inline __attribute__((always_inline))

VEC4_INLINE vec4 vec4_load(const float *p)
{
	vec4 v;
	memcpy(&v, p, sizeof v);
	return v;
}

VEC4_INLINE void vec4_store(float *p, vec4 v)
{
	memcpy(p, &v, sizeof v);
}

VEC4_INLINE vec4 vec4_all(float f)
{
	return (vec4){f, f, f, f};
}

/* For each lane: a if the mask's bits are all ones, b if they are 0. */
VEC4_INLINE vec4 vec4_select(vec4i mask, vec4 a, vec4 b)
{
	return (vec4)((mask & (vec4i)a) | (~mask & (vec4i)b));
}

/* Lanes of the result: the sums of a's, b's, c's and d's lanes, each as (0 + 2) + (1 +
 * 3). */
VEC4_INLINE vec4 vec4_sums(vec4 a, vec4 b, vec4 c, vec4 d)
{
	/* lanes: a0+a2 b0+b2 a1+a3 b1+b3 */
	vec4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) +
		  __builtin_shufflevector(a, b, 2, 6, 3, 7);
	vec4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) +
		  __builtin_shufflevector(c, d, 2, 6, 3, 7);
	return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
	       __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* e^x with a relative error below 2e-7. x is clamped to [-87, 88], so that the result is
 * a normal float. Smaller values add nothing to a softmax, whose largest term is 1. NaN
 * stays NaN.
 *
 * Method: x = n ln 2 + r with |r| <= ln 2 / 2, so e^x = 2^n e^r. The terms of e^r after
 * r^7/7! are below 6e-9. ln 2 is split in two so that n times the first part is exact. */
VEC4_INLINE vec4 vec4_exp(vec4 x)
{
	const vec4 round = vec4_all(0x1.8p23f); /* adding this rounds to an integer */
	x = vec4_select(x > vec4_all(88), vec4_all(88), x);
	x = vec4_select(x < vec4_all(-87), vec4_all(-87), x);
	vec4 t = x * vec4_all(0x1.715476p0f) + round; /* 1 / ln 2 */
	vec4 n = t - round;
	vec4 r = (x - n * vec4_all(0x1.62ep-1f)) - n * vec4_all(0x1.0bfbe8p-15f);
	vec4 p = vec4_all(1.0f / 5040);
	p = p * r + vec4_all(1.0f / 720);
	p = p * r + vec4_all(1.0f / 120);
	p = p * r + vec4_all(1.0f / 24);
	p = p * r + vec4_all(1.0f / 6);
	p = p * r + vec4_all(0.5f);
	p = p * r + vec4_all(1);
	p = p * r + vec4_all(1);
	vec4i exponent = ((vec4i)t - (vec4i)round + 127) << 23;
	return p * (vec4)exponent;
}
