/* SPDX-License-Identifier: Apache-2.0
 *
 * GPTQ, with four bits (p = 8 integers to a word) or eight (p = 4). A layer X with N
 * outputs and K inputs, in groups of G inputs, has:
 *
 *   X.qweight  I32 (K/p, N)    p inputs a word
 *   X.qzeros   I32 (K/G, N/p)  p outputs a word
 *   X.scales   F16 (K/G, N)
 *   X.g_idx    I32 (K)         group of each input; may be absent: k / G
 *
 * The weight is (integer - zero) * scale. The older format stores zero - 1 without
 * borrow: a stored 15 means zero 0, as in GPTQ's own kernels. With "desc_act" the inputs
 * of a group are scattered, and g_idx gives the group of each input.
 */
#include "model/formats/quant.h"

enum status quant_gptq_open(const struct quant_want *w, struct weight *out,
			    struct fail *fail)
{
	static const enum dtype words[] = {DTYPE_I32, DTYPE_COUNT};
	int32_t group = w->choice.group ? w->choice.group : w->k;
	int32_t p = 32 / quant_bits(w->choice.quant);
	const struct tensor *q, *scale, *zero;
	const int32_t *group_of;
	if (w->n % p || w->k % p || w->k % group)
		return fail_set(fail, E_UNSUPPORTED, "%s: %d outputs and %d inputs must "
				"be multiples of %d, inputs also of the group of %d",
				w->name, w->n, w->k, p, group);
	enum status st = quant_tensor(w, "qweight", w->k / p, w->n, words, &q, fail);
	if (st == OK)
		st = quant_tensor(w, "qzeros", w->k / group, w->n / p, words, &zero,
				  fail);
	if (st == OK)
		st = quant_tensor(w, "scales", w->k / group, w->n, quant_floats,
				  &scale, fail);
	if (st == OK)
		st = quant_groups(w, "g_idx", group, &group_of, fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = w->choice.quant, .n = w->n, .k = w->k,
			       .group = group, .q = q->data, .scales = scale->data,
			       .scale_type = scale->dtype, .zero_points = zero->data,
			       .zero_step = w->choice.zero_step, .group_of = group_of,
			       .name = q->name};
	return OK;
}

void quant_gptq_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		       float *out)
{
	int bits = quant_bits(w->quant), mask = (1 << bits) - 1;
	size_t p = 32 / (size_t)bits, n = (size_t)w->n;
	const uint32_t *q = (const uint32_t *)w->q + row;
	int32_t last = -1;
	int zero = 0;
	float scale = 0;
	for (int32_t k = k0; k < k1; k++) {
		int32_t g = w->group_of ? w->group_of[k] : k / w->group;
		if (g != last) {
			const uint32_t *zeros = (const uint32_t *)w->zero_points +
						(size_t)g * (n / p);
			zero = blocks_integer(zeros, bits, (size_t)row);
			zero = (zero + w->zero_step) & mask;
			scale = blocks_float(w->scales, w->scale_type,
					     (size_t)g * n + (size_t)row);
			last = g;
		}
		uint32_t word = q[(size_t)k / p * n];
		int v = (int)(word >> (size_t)k % p * (size_t)bits) & mask;
		*out++ = (float)(v - zero) * scale;
	}
}
