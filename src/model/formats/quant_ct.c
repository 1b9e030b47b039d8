/* SPDX-License-Identifier: Apache-2.0
 *
 * compressed-tensors "pack-quantized", with four bits (p = 8 integers to a word) or eight
 * (p = 4). A layer X with N outputs and K inputs, in groups of G inputs, has:
 *
 *   X.weight_packed      I32 (N, K/p)          p integers of a row a word
 *   X.weight_scale       float (N, K/G)
 *   X.weight_zero_point  I32 (ceil(N/p), K/G)  p rows a word; asymmetric only
 *   X.weight_shape       I64 (2)               N, K
 *   X.weight_g_idx       I32 (K)               group of each input; absent: k / G
 *   X.pre_quant_scale    F32 (K)               ModelOpt: factor of each input; may be absent
 *
 * Integers and zero points are stored with 8 added (128 for eight bits): the signed value
 * v of -8..7 is nibble v+8. The weight is (nibble - zero) * scale, with zero = 8 in a
 * symmetric format.
 */
#include <stdio.h>

#include "model/formats/quant.h"

#include "base/alloc.h"

/* Inputs per scale. */
static int32_t group_of(const struct quant_want *w)
{
	const struct tensor *t = quant_find(w, "weight_scale");
	if (w->choice.group)
		return w->choice.group;
	if (w->choice.stored != STORED_PAIRS || !t || t->n_dims != 2 || t->dim[1] < 1 ||
	    t->dim[1] > w->k)
		return w->k;
	return w->k / (int32_t)t->dim[1];
}

/* The factors of the inputs, which quant_made_codes.c has checked but for their number. */
static enum status find_in_scale(const struct quant_want *w, const float **out, struct fail *fail)
{
	const struct tensor *t = w->choice.stored == STORED_PAIRS
					 ? quant_find(w, "pre_quant_scale") : NULL;
	*out = t ? t->data : NULL;
	if (t && w->part && w->part->n_experts)
		return fail_at(fail, E_UNSUPPORTED, t->name, "%s: tensor %s: experts in one tensor "
			       "with factors of their inputs are not supported", t->file, t->name);
	if (!t || (t->dtype == DTYPE_F32 && t->n_bytes == (size_t)w->k * sizeof(float)))
		return OK;
	return fail_set(fail, E_FORMAT, "%s: tensor %s is not a factor for each of %d inputs",
			t->file, t->name, w->k);
}

static enum status check_groups(const struct quant_want *w, int32_t group,
				struct fail *fail)
{
	if (w->k % 8 || group % 8 || w->k % group)
		return fail_set(fail, E_UNSUPPORTED, "%s: %d inputs in groups of %d: "
				"both must be multiples of 8, and divide", w->name,
				w->k, group);
	return OK;
}

/* weight_shape repeats N and K, which the model's config gives. If it exists, it must agree. */
static enum status check_shape(const struct quant_want *w, struct fail *fail)
{
	char name[256];
	snprintf(name, sizeof name, "%s.weight_shape", w->name);
	const struct tensor *t = tensors_find(w->tensors, name);
	if (!t)
		return OK;
	const int64_t *dim = t->data;
	if (t->dtype != DTYPE_I64 || t->n_bytes != 16)
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not two I64",
				t->file, name);
	if (dim[0] != w->n || dim[1] != w->k)
		return fail_set(fail, E_FORMAT, "%s: tensor %s says (%lld, %lld), the "
				"model needs (%d, %d)", t->file, name,
				(long long)dim[0], (long long)dim[1], w->n, w->k);
	return OK;
}

enum status quant_ct_open(const struct quant_want *w, struct weight *out,
			  struct fail *fail)
{
	static const enum dtype words[] = {DTYPE_I32, DTYPE_COUNT};
	int32_t group = group_of(w);
	int32_t per_word = 32 / quant_bits(w->choice.quant);
	const struct tensor *q, *scale, *zero = NULL;
	const int32_t *groups = NULL;
	const float *in_scale = NULL;
	enum status st = check_groups(w, group, fail);
	if (st == OK)
		st = check_shape(w, fail);
	if (st == OK)
		st = quant_tensor(w, "weight_packed", w->n, w->k / per_word, words,
				  &q, fail);
	if (st == OK)
		st = quant_tensor(w, "weight_scale", w->n, w->k / group,
				  quant_floats, &scale, fail);
	if (st == OK && w->choice.is_asymmetric)
		st = quant_tensor(w, "weight_zero_point",
				  DIV_UP(w->n, per_word), w->k / group,
				  words, &zero, fail);
	if (st == OK && w->choice.stored != STORED_PAIRS)
		st = quant_groups(w, "weight_g_idx", group, &groups, fail);
	if (st == OK)
		st = find_in_scale(w, &in_scale, fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = w->choice.quant, .n = w->n, .k = w->k,
			       .group = group, .q = q->data,
			       .scales = scale->data, .scale_type = scale->dtype,
			       .zero_points = zero ? zero->data : NULL,
			       .group_of = groups, .in_scale = in_scale,
			       .name = q->name};
	return OK;
}

/* out (n) = scale * (integers [at, at + n) of q - zero). bits: 4 or 8. There is no division for
 * each integer: it would take longer than all else. */
static void decode_run(const uint32_t *q, int bits, size_t at, size_t n, int zero, float scale,
		       float *out)
{
	size_t shift = bits == 4 ? 3 : 2, in_word = ((size_t)1 << shift) - 1;
	uint32_t mask = (1u << bits) - 1;
	for (size_t i = at; i < at + n; i++)
		*out++ = (float)((int)(q[i >> shift] >> (i & in_word) * (size_t)bits & mask) -
				 zero) * scale;
}

void quant_ct_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
		     float *out)
{
	size_t n_groups = (size_t)(w->k / w->group);
	int bits = quant_bits(w->quant);
	size_t per_word = 32 / (size_t)bits;
	const uint32_t *q = w->q, *zeros = w->zero_points;
	for (int32_t k = k0, end; k < k1; k = end) {
		size_t g = (size_t)(w->group_of ? w->group_of[k] : k / w->group);
		end = w->group_of ? k + 1 : (int32_t)(g + 1) * w->group;
		end = end < k1 ? end : k1;
		float scale = blocks_float(w->scales, w->scale_type,
					   (size_t)row * n_groups + g);
		int zero = 1 << (bits - 1);
		if (zeros)
			zero = blocks_integer(&zeros[(size_t)row / per_word * n_groups + g],
					      bits, (size_t)row % per_word);
		size_t at = (size_t)row * (size_t)w->k + (size_t)k;
		decode_run(q, bits, at, (size_t)(end - k), zero, scale, out);
		out += end - k;
	}
}
