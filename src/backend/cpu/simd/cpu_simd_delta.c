/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated delta nets. Two rows of a head's state go through all tokens, in registers if
 * they fit (K = 64 and 128 in AVX-512). The convolution takes 16 channels at a time.
 *
 * TRIED     (two Zen 4 cores, 512 tokens) blocks of 8, 16 or 32 tokens for 32 rows, to
 *           keep keys in the first-level cache: 5 to 30 % slower, and half as fast for
 *           eight sequences of one token, because state rows are then copied.
 */
#include "backend/cpu/simd/cpu_simd.h"

#include "base/alloc.h"

enum { VECTORS = CPU_DELTA_MAX / VL, ROWS = CPU_ROWS, AHEAD = 8 /* tokens to prefetch */ };

/* Load the first `left` elements at p, then zeros. */
VINLINE vf load_row(const float *p, size_t left)
{
	float some[VL] = {0};
	if (left >= VL)
		return vf_load(p);
	memcpy(some, p, (left < VL ? left : VL) * sizeof *some);
	return vf_load(some);
}

VINLINE void store_row(float *p, vf v, size_t left)
{
	memcpy(p, &v, (left < VL ? left : VL) * sizeof *p);
}

/* With x = e^g S: y = (x + beta (v - x k) k^T) q = x q + beta (v - x k) (k q). In this
 * form both products use the old state, so their sums are computed together. */
VINLINE void rows(const struct cpu_delta *d, int n, bool by_channel, const float *from, float *to)
{
	const size_t dim = (size_t)d->dim, padded = CPU_PADDED(dim);
	const size_t pitch = CPU_DELTA_KEY(dim);
	vf s[2][VECTORS];
CPU_UNROLL(8)
	for (int i = 0; i < n; i++) {
		size_t at = (size_t)i * VL;
		s[0][i] = from ? load_row(from + at, dim - at) : vf_all(0);
		s[1][i] = from ? load_row(from + dim + at, dim - at) : vf_all(0);
	}
	for (int32_t t = 0; t < d->n_tok; t++) {
		const float *q = d->keys + (size_t)t * pitch, *k = q + padded;
		const float *v = d->v + (size_t)t * d->v_row;
		float *y = d->y + (size_t)t * d->y_row;
		float keep = d->gates[t][0], beta = d->gates[t][1];
		vf sums[4] = {{0}};
CPU_UNROLL(8)
		for (int i = 0; i < n && by_channel; i++) {
			vf kept = vf_load(d->keeps + (size_t)t * padded + i * VL);
			s[0][i] *= kept;
			s[1][i] *= kept;
		}
CPU_UNROLL(8)
		for (int i = 0; i < n; i++) {
			vf ki = vf_load(k + i * VL), qi = vf_load(q + i * VL);
			sums[0] = vf_fma(s[0][i], ki, sums[0]);
			sums[1] = vf_fma(s[1][i], ki, sums[1]);
			sums[2] = vf_fma(s[0][i], qi, sums[2]);
			sums[3] = vf_fma(s[1][i], qi, sums[3]);
		}
		vec4 x = vf_sums(sums) * vec4_all(keep);
		float change0 = (v[0] - x[0]) * beta, change1 = (v[1] - x[1]) * beta;
		if (d->is_space) {
			change0 = v[0] * beta;
			change1 = v[1] * beta;
			x[2] += d->skip * v[0];
			x[3] += d->skip * v[1];
		}
		y[0] = x[2] + change0 * k[padded];
		y[1] = x[3] + change1 * k[padded];
CPU_UNROLL(8)
		for (int i = 0; i < n; i++) {
			vf ki = vf_load(k + i * VL);
			s[0][i] = vf_fma(vf_all(change0), ki, s[0][i] * vf_all(keep));
			s[1][i] = vf_fma(vf_all(change1), ki, s[1][i] * vf_all(keep));
		}
	}
CPU_UNROLL(8)
	for (int i = 0; i < n; i++) {
		size_t at = (size_t)i * VL;
		store_row(to + at, s[0][i], dim - at);
		store_row(to + dim + at, s[1][i], dim - at);
	}
}

void ISA(cpu_delta)(const struct cpu_delta *d, const float *from, float *to)
{
	int n = DIV_UP(d->dim, VL);
	if (d->keeps && n == 8) {
		rows(d, 8, true, from, to);
		return;
	}
	if (d->keeps) {
		rows(d, n, true, from, to);
		return;
	}
	switch (n) {
	case 4: rows(d, 4, false, from, to); return;
	case 8: rows(d, 8, false, from, to); return;
	default: rows(d, n, false, from, to);
	}
}

VINLINE void conv(const struct cpu_conv *c, int width, int at, float (*window)[ROWS])
{
	vf w[CPU_CONV_MAX], x[CPU_CONV_MAX], bias = vf_load(c->bias + at);
CPU_UNROLL(4)
	for (int i = 0; i < width; i++)
		w[i] = vf_load(c->weight[i] + at);
CPU_UNROLL(4)
	for (int i = 0; i + 1 < width; i++)
		x[i] = vf_load(window[i] + at);
	for (int32_t t = 0; t < c->n_tok; t++) {
		/* Prefetch: each token's data is in another cache line. */
		size_t next = (size_t)(t + AHEAD < c->n_tok ? t + AHEAD : t);
		__builtin_prefetch(c->x + next * c->x_row + at, 0, 3);
		__builtin_prefetch(c->y + next * c->y_row + at, 1, 3);
		x[width - 1] = vf_load(c->x + (size_t)t * c->x_row + at);
		vf sum = bias;
CPU_UNROLL(4)
		for (int i = 0; i < width; i++)
			sum = vf_fma(w[i], x[i], sum);
		vf_store(c->y + (size_t)t * c->y_row + at, vf_silu(sum));
CPU_UNROLL(4)
		for (int i = 0; i + 1 < width; i++)
			x[i] = x[i + 1];
	}
CPU_UNROLL(4)
	for (int i = 0; i + 1 < width; i++)
		vf_store(window[i] + at, x[i]);
}

void ISA(cpu_conv)(const struct cpu_conv *c, float (*window)[ROWS])
{
	for (int at = 0; at < ROWS; at += VL) {
		if (c->width == 4)
			conv(c, 4, at, window);
		else
			conv(c, c->width, at, window);
	}
}

void ISA(cpu_sigmoid_mul)(const float *gate, size_t n, float *y)
{
	for (size_t i = 0; i < n; i += VL) {
		vf g = load_row(gate + i, n - i), v = load_row(y + i, n - i);
		store_row(y + i, v / (vf_all(1) + vf_exp(-g)), n - i);
	}
}
