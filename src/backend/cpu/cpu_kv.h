/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a KV cache in 8 bits (kernels/ops/kv_bytes.h). Thread: any.
 */
#pragma once
#include "kernels/ops/kv_pages.h"

/* The row of head g for the token in `slot`: k and v have dim floats each. */
struct cpu_kv_row {
	int32_t n_kv_heads, slot, g, dim;
	const float *k, *v;
};

/* Hadamard transform of a row (n) of keys or queries, for a cache of type I8
 * (kernels/ops/kv_bytes.h). */
void cpu_kv_hadamard(float *x, int n);
/* Store a row of keys and one of values in a cache of type I8. */
void cpu_kv_store_bytes(const struct kv_pages *kv, const struct cpu_kv_row *row);

/* n rows of bytes as floats: out (n, dim). scales: (n). */
static inline void cpu_kv_widen(const uint8_t *bytes, const uint16_t *scales, int n, int dim,
				float *out)
{
	for (int i = 0; i < n; i++) {
		const uint8_t *row = bytes + (size_t)i * (size_t)dim;
		float scale = blocks_f16(scales[i]), *to = out + (size_t)i * (size_t)dim;
		for (int d = 0; d < dim; d++)
			to[d] = (float)(row[d] - KV_BYTES_ZERO) * scale;
	}
}
