/* SPDX-License-Identifier: Apache-2.0
 *
 * NVFP4: e2m1 numbers in groups of 16 with one e4m3 scale each, and one float32 scale for
 * the whole tensor. A layer X with N outputs and K inputs has, in two spellings:
 *
 *   compressed-tensors           ModelOpt
 *   X.weight_packed              X.weight          U8 (N, K/2)
 *   X.weight_scale               X.weight_scale    F8_E4M3 (N, K/16)
 *   X.weight_global_scale        X.weight_scale_2  float, one
 *     divides                      multiplies
 *
 * AMD Quark has ModelOpt's names.
 *
 * Scales for rounding the layer's inputs (input_scale, input_global_scale) are ignored:
 * inputs are not rounded.
 */
#include <math.h>

#include "model/formats/quant.h"

enum { GROUP = 16 };

static enum status open_global(const struct quant_want *w, const char *suffix,
			       bool divides, double *out, struct fail *fail)
{
	const struct tensor *t;
	enum status st = quant_tensor_typed(w, suffix, quant_floats, &t, fail);
	if (st != OK)
		return st;
	if (t->n_bytes != dtype_bytes(t->dtype))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is not one number",
				t->file, t->name);
	float f = blocks_float(t->data, t->dtype, 0);
	if (!(f > 0) || !isfinite(f))
		return fail_set(fail, E_FORMAT, "%s: tensor %s is %g, not above 0",
				t->file, t->name, (double)f);
	*out = divides ? 1 / (double)f : (double)f;
	return OK;
}

enum status quant_nvfp4_open(const struct quant_want *w, struct weight *out,
			     struct fail *fail)
{
	static const enum dtype bytes[] = {DTYPE_U8, DTYPE_COUNT};
	static const enum dtype scales[] = {DTYPE_F8_E4M3, DTYPE_COUNT};
	bool is_ct = quant_has(w->tensors, w->name, "weight_packed") ||
		     quant_has(w->tensors, w->name, "weight_global_scale");
	const struct tensor *q, *scale;
	double global = 0;
	if (w->k % GROUP)
		return fail_set(fail, E_UNSUPPORTED, "%s: %d inputs are not a multiple "
				"of 16", w->name, w->k);
	enum status st = quant_tensor(w, is_ct ? "weight_packed" : "weight", w->n,
				      w->k / 2, bytes, &q, fail);
	if (st == OK)
		st = quant_tensor(w, "weight_scale", w->n, w->k / GROUP, scales, &scale,
				  fail);
	if (st == OK)
		st = open_global(w, is_ct ? "weight_global_scale" : "weight_scale_2",
				 is_ct, &global, fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = QUANT_NVFP4, .n = w->n, .k = w->k,
			       .group = GROUP, .q = q->data, .scales = scale->data,
			       .scale_type = DTYPE_F8_E4M3, .global_scale = global,
			       .name = q->name};
	return OK;
}

void quant_nvfp4_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			float *out)
{
	size_t at = (size_t)row * (size_t)w->k;
	const uint8_t *q = (const uint8_t *)w->q + at / 2;
	const uint8_t *scales = (const uint8_t *)w->scales + at / GROUP;
	for (int32_t k = k0, end; k < k1; k = end) {
		float scale = (float)((double)blocks_e4m3(scales[k / GROUP]) *
				      w->global_scale);
		end = (k / GROUP + 1) * GROUP;
		end = end < k1 ? end : k1;
		for (int32_t i = k; i < end; i++)
			*out++ = blocks_e2m1(q[i / 2] >> i % 2 * 4 & 15) * scale;
	}
}
