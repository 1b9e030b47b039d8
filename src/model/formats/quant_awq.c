/* SPDX-License-Identifier: Apache-2.0
 *
 * AutoAWQ "gemm". A layer X with N outputs and K inputs, in groups of G inputs, has:
 *
 *   X.qweight  I32 (K, N/8)    eight outputs a word, in the order 0 2 4 6 1 3 5 7
 *   X.qzeros   I32 (K/G, N/8)  in the same order
 *   X.scales   F16 (K/G, N)
 *
 * The weight is (nibble - zero) * scale. Nibble and zero are stored as 0..15.
 */
#include "model/formats/quant.h"

enum status quant_awq_open(const struct quant_want *w, struct weight *out,
			   struct fail *fail)
{
	static const enum dtype words[] = {DTYPE_I32, DTYPE_COUNT};
	int32_t group = w->choice.group ? w->choice.group : w->k;
	const struct tensor *q, *scale, *zero;
	if (w->n % 8 || w->k % group)
		return fail_set(fail, E_UNSUPPORTED, "%s: %d outputs must be a multiple "
				"of 8, and %d inputs one of the group of %d", w->name,
				w->n, w->k, group);
	enum status st = quant_tensor(w, "qweight", w->k, w->n / 8, words, &q, fail);
	if (st == OK)
		st = quant_tensor(w, "qzeros", w->k / group, w->n / 8, words, &zero,
				  fail);
	if (st == OK)
		st = quant_tensor(w, "scales", w->k / group, w->n, quant_floats,
				  &scale, fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = QUANT_AWQ4, .n = w->n, .k = w->k,
			       .group = group, .q = q->data, .scales = scale->data,
			       .scale_type = scale->dtype, .zero_points = zero->data,
			       .name = q->name};
	return OK;
}

void quant_awq_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		      float *out)
{
	size_t pitch = (size_t)w->n / 8, word = (size_t)row / 8;
	int shift = 4 * blocks_awq_order(row % 8);
	const uint32_t *q = (const uint32_t *)w->q + word;
	const uint32_t *zeros = (const uint32_t *)w->zero_points + word;
	for (int32_t k = k0, end; k < k1; k = end) {
		size_t g = (size_t)(k / w->group);
		end = (int32_t)(g + 1) * w->group;
		end = end < k1 ? end : k1;
		int zero = (int)(zeros[g * pitch] >> shift & 15);
		float scale = blocks_float(w->scales, w->scale_type,
					   g * (size_t)w->n + (size_t)row);
		for (int32_t i = k; i < end; i++) {
			int v = (int)(q[(size_t)i * pitch] >> shift & 15);
			*out++ = (float)(v - zero) * scale;
		}
	}
}
