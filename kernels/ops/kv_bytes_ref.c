/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/kv_bytes.h"

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
