/* SPDX-License-Identifier: Apache-2.0
 *
 * Four floats at a time, in GCC's vector types: every target has them, the baseline
 * of x86-64 and of AArch64 in one instruction each.
 *
 * The order of a dot product is fixed by its length n alone: lane l sums elements
 * l, l+4, l+8 … in order, then (lane 0 + lane 2) + (lane 1 + lane 3), then the last
 * n % 4 elements are added one by one. All variants below keep to it.
 */
#pragma once
#include <stdint.h>
#include <string.h>

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));

#define CPU_INLINE static inline __attribute__((always_inline))

CPU_INLINE vf vf_load(const float *p)
{
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}

CPU_INLINE void vf_store(float *p, vf v)
{
	memcpy(p, &v, sizeof v);
}

CPU_INLINE vf vf_all(float f)
{
	return (vf){f, f, f, f};
}

/* Lane by lane: a where mask is all ones, b where it is 0. */
CPU_INLINE vf vf_select(vi mask, vf a, vf b)
{
	return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* Four vectors to the vector of their sums. */
CPU_INLINE vf vf_sums(vf a, vf b, vf c, vf d)
{
	/* ab = a0+a2 b0+b2 a1+a3 b1+b3 */
	vf ab = __builtin_shuffle(a, b, (vi){0, 4, 1, 5}) +
		__builtin_shuffle(a, b, (vi){2, 6, 3, 7});
	vf cd = __builtin_shuffle(c, d, (vi){0, 4, 1, 5}) +
		__builtin_shuffle(c, d, (vi){2, 6, 3, 7});
	return __builtin_shuffle(ab, cd, (vi){0, 1, 4, 5}) +
	       __builtin_shuffle(ab, cd, (vi){2, 3, 6, 7});
}

/* out[j] = the dots of four rows with x[j], j < n_x, where n_x is 1 or 2 and
 * constant: the accumulators stay in registers. */
CPU_INLINE void dot_rows(const float *const row[4], const float *const *x, int n_x,
			 int n, vf *out)
{
	vf acc[2][4] = {{{0}}};
	int i = 0;
	for (; i + 4 <= n; i += 4) {
		vf w0 = vf_load(row[0] + i), w1 = vf_load(row[1] + i);
		vf w2 = vf_load(row[2] + i), w3 = vf_load(row[3] + i);
#pragma GCC unroll 2
		for (int j = 0; j < n_x; j++) {
			vf v = vf_load(x[j] + i);
			acc[j][0] += w0 * v;
			acc[j][1] += w1 * v;
			acc[j][2] += w2 * v;
			acc[j][3] += w3 * v;
		}
	}
	for (int j = 0; j < n_x; j++) {
		out[j] = vf_sums(acc[j][0], acc[j][1], acc[j][2], acc[j][3]);
		for (int k = i; k < n; k++)
			out[j] += (vf){row[0][k], row[1][k], row[2][k], row[3][k]} *
				  vf_all(x[j][k]);
	}
}

/* Sum of squares, in the order of a dot. */
CPU_INLINE float squares_of(const float *x, int n)
{
	vf acc = {0};
	int i = 0;
	for (; i + 4 <= n; i += 4)
		acc += vf_load(x + i) * vf_load(x + i);
	float sum = vf_sums(acc, acc, acc, acc)[0];
	for (; i < n; i++)
		sum += x[i] * x[i];
	return sum;
}

/* e^x with a relative error below 2e-7. x is held to [-87, 88], where the result is
 * a normal float: what is below counts as nothing next to the 1 of a softmax's
 * largest term. NaN stays NaN.
 *
 * x = n ln 2 + r, |r| <= ln 2 / 2; e^x = 2^n e^r, and the terms of e^r after r^7/7!
 * are below 6e-9. ln 2 is split so that n times its first part is exact. */
CPU_INLINE vf vf_exp(vf x)
{
	const vf round = vf_all(0x1.8p23f); /* what is added to it becomes whole */
	x = vf_select(x > vf_all(88), vf_all(88), x);
	x = vf_select(x < vf_all(-87), vf_all(-87), x);
	vf t = x * vf_all(0x1.715476p0f) + round; /* 1 / ln 2 */
	vf n = t - round;
	vf r = (x - n * vf_all(0x1.62ep-1f)) - n * vf_all(0x1.0bfbe8p-15f);
	vf p = vf_all(1.0f / 5040);
	p = p * r + vf_all(1.0f / 720);
	p = p * r + vf_all(1.0f / 120);
	p = p * r + vf_all(1.0f / 24);
	p = p * r + vf_all(1.0f / 6);
	p = p * r + vf_all(0.5f);
	p = p * r + vf_all(1);
	p = p * r + vf_all(1);
	vi exponent = ((vi)t - (vi)round + 127) << 23;
	return p * (vf)exponent;
}

/* gate / (1 + e^-gate) * up. Below -87 the quotient is as good as zero, and vf_exp
 * would no longer outgrow gate. */
CPU_INLINE vf vf_silu_mul(vf gate, vf up)
{
	gate = vf_select(gate < vf_all(-87), vf_all(-87), gate);
	return gate / (vf_all(1) + vf_exp(-gate)) * up;
}

CPU_INLINE float silu_mul_one(float gate, float up)
{
	return vf_silu_mul(vf_all(gate), vf_all(up))[0];
}
