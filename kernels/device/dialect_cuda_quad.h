/* SPDX-License-Identifier: Apache-2.0
 *
 * Four lanes a row (quad.h) by NVIDIA's m16n8k16: a part of dialect_cuda.h.
 */
#pragma once

/* m16n8k16: lane 4g + q holds rows g and g + 8 at columns 2q and 2q + 1. */
#define DIALECT_QUAD
enum { QUAD_TOKENS = 2, QUAD_SCALES = 2 };

struct quad_acc {
	float v[2][QUAD_SCALES];
};
struct dialect_sums {
	float v[4];
};

DEVICE void quad_dot(quad_acc *acc, const uint32_t *w0, const uint32_t *w1, u32x4 x)
{
	dialect_sums c = {{acc->v[0][0], acc->v[0][1], acc->v[1][0], acc->v[1][1]}};
	dialect_tile lo = {{w0[0], w1[0], w0[1], w1[1]}};
	dialect_tile hi = {{w0[2], w1[2], w0[3], w1[3]}};
	DIALECT_MMA("f16", c, 0, lo, x.v[0], x.v[1]);
	DIALECT_MMA("f16", c, 0, hi, x.v[2], x.v[3]);
	*acc = {{{c.v[0], c.v[1]}, {c.v[2], c.v[3]}}};
}

DEVICE int32_t quad_scale_lane(int32_t i) { return (int32_t)(threadIdx.x % 2) * 2 + i; }

/* Column n of the operand is read from lanes 4n..4n+3. */
DEVICE bool quad_hands(int32_t *token)
{
	*token = (int32_t)(threadIdx.x % 32 / 16);
	return threadIdx.x / 4 % 4 == threadIdx.x % 4;
}

DEVICE float quad_row_sum(float x) { return x + wave_xor<1>(x); }

DEVICE bool quad_has(int32_t token) { return threadIdx.x % 4 == (uint32_t)token * 2; }

/* Columns are tokens: lanes 4t..4t+3 supply token t, and lane 4g + q gets the sums of
 * tokens 2q and 2q + 1. */
template <int M> struct quad_tokens {
	dialect_sums c;
};

template <int M>
DEVICE void quad_tokens_dot(quad_tokens<M> *s, const uint32_t *w0, const uint32_t *w1,
			    const u32x4 *x, int32_t pitch)
{
	int32_t t = (int32_t)(threadIdx.x % 32 / 4);
	u32x4 v = {};
	if (t < M)
		v = x[t * pitch];
	dialect_tile lo = {{w0[0], w1[0], w0[1], w1[1]}};
	dialect_tile hi = {{w0[2], w1[2], w0[3], w1[3]}};
	DIALECT_MMA("f16", s->c, 0, lo, v.v[0], v.v[1]);
	DIALECT_MMA("f16", s->c, 0, hi, v.v[2], v.v[3]);
}

template <int M, class F> DEVICE void quad_tokens_each(const quad_tokens<M> &s, F f)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		int32_t t = (int32_t)(threadIdx.x % 4) * 2 + i % 2;
		if (t < M)
			f(i / 2, t, s.c.v[i]);
	}
}
