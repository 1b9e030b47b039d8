/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cpu/cpu_kv.h"

#include "base/alloc.h"

/* Magnitudes compare like their bits, and those of a NaN are above all others. */
static float largest(const float *x, int n)
{
	uint32_t most = 0;
	for (int i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, x + i, sizeof bits);
		bits &= 0x7FFFFFFF;
		most = bits > most ? bits : most;
	}
	float out;
	memcpy(&out, &most, sizeof out);
	return out;
}

static void store(const float *x, int n, uint8_t *bytes, uint16_t *scale)
{
	*scale = kv_bytes_scale((double)largest(x, n));
	float step = blocks_f16(*scale);
	for (int i = 0; i < n; i++) {
		float q = step > 0 ? rintf(x[i] / step) : 0;
		q = MIN(MAX(q, -KV_BYTES_MOST), KV_BYTES_MOST);
		bytes[i] = (uint8_t)(KV_BYTES_ZERO + (int)q);
	}
}

void cpu_kv_hadamard(float *x, int n)
{
	int block = kv_bytes_block(n);
	float factor = (float)(1 / sqrt(block));
	for (int half = 1; half < block; half *= 2)
		for (int i = 0; i < n; i += 2 * half)
			for (int e = i; e < i + half; e++) {
				float u = x[e], v = x[e + half];
				x[e] = u + v;
				x[e + half] = u - v;
			}
	for (int i = 0; i < n; i++)
		x[i] *= factor;
}

void cpu_kv_store_bytes(const struct kv_pages *kv, const struct cpu_kv_row *row)
{
	size_t at = kv_pages_row(kv, row->n_kv_heads, row->slot, row->g);
	size_t first = at * (size_t)row->dim;
	store(row->k, row->dim, (uint8_t *)kv->k + first, kv->k_scale + at);
	store(row->v, row->dim, (uint8_t *)kv->v + first, kv->v_scale + at);
}
