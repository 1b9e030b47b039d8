/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/kv_bytes.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define MAX_BLOCK 1024

static void hadamard_block(float *x, int32_t n)
{
	float in[MAX_BLOCK];
	assert(n <= MAX_BLOCK);
	memcpy(in, x, (size_t)n * sizeof *x);
	for (int32_t i = 0; i < n; i++) {
		double sum = 0;
		for (int32_t j = 0; j < n; j++) {
			bool is_odd = __builtin_popcount((unsigned)(i & j)) % 2;
			sum += is_odd ? -(double)in[j] : (double)in[j];
		}
		x[i] = (float)(sum / sqrt(n));
	}
}

void kv_bytes_hadamard_ref(float *x, int32_t n)
{
	int32_t block = kv_bytes_block(n);
	for (int32_t i = 0; i < n; i += block)
		hadamard_block(x + i, block);
}

void kv_bytes_ref(const float *x, int32_t n, uint8_t *bytes, uint16_t *scale)
{
	double most = 0;
	for (int32_t i = 0; i < n && !isnan(most); i++)
		most = isnan(x[i]) ? (double)NAN : fmax(most, fabs((double)x[i]));
	*scale = kv_bytes_scale(most);
	double step = (double)blocks_f16(*scale);
	for (int32_t i = 0; i < n; i++) {
		double q = step > 0 ? rint((double)x[i] / step) : 0;
		q = fmin(fmax(q, -KV_BYTES_MOST), KV_BYTES_MOST);
		bytes[i] = (uint8_t)(KV_BYTES_ZERO + (int)q);
	}
}
