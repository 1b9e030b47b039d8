/* SPDX-License-Identifier: Apache-2.0
 *
 * MXFP4 (OCP Microscaling Formats, 2023): e2m1 numbers in groups of 32 with one e8m0
 * scale each. There are three spellings. In compressed-tensors a layer X with N outputs and K
 * inputs has (in ModelOpt weight_packed is called X.weight):
 *
 *   X.weight_packed  U8 (N, K/2)   two a byte, the even element in the low nibble
 *   X.weight_scale   U8 (N, K/32)  also F8_E8M0
 *
 * In gpt-oss a tensor holds all E experts:
 *
 *   X_blocks         U8 (E, N, K/32, 16)
 *   X_scales         U8 (E, N, K/32)
 *
 * DeepSeek-V4 has FP4 experts among layers in FP8 ("expert_dtype": "fp4"):
 *
 *   X.weight         I8 (N, K/2)        also U8 and F4
 *   X.scale          F8_E8M0 (N, K/32)  also X.weight_scale_inv
 */
#include "base/alloc.h"
#include "model/formats/quant.h"

enum { GROUP = 32 };

enum status quant_mxfp4_open(const struct quant_want *w, struct weight *out,
			     struct fail *fail)
{
	static const enum dtype bytes[] = {DTYPE_U8, DTYPE_I8, DTYPE_F4, DTYPE_COUNT};
	static const enum dtype scales[] = {DTYPE_U8, DTYPE_F8_E8M0, DTYPE_COUNT};
	static const char *const others[] = {"scale", "weight_scale_inv"};
	const char *numbers = "weight_packed", *scale_name = "weight_scale";
	const struct tensor *q, *scale;
	if (w->k % GROUP)
		return fail_set(fail, E_UNSUPPORTED, "%s: %d inputs are not a multiple "
				"of %d", w->name, w->k, GROUP);
	if (w->part && quant_find(w, "weight_blocks")) {
		numbers = "weight_blocks";
		scale_name = "weight_scales";
	} else if (!quant_find(w, numbers)) {
		numbers = "weight";
	}
	for (size_t i = 0; i < ARRAY_LEN(others) && !quant_find(w, scale_name); i++)
		if (quant_find(w, others[i]))
			scale_name = others[i];
	enum status st = quant_tensor(w, numbers, w->n, w->k / 2, bytes, &q, fail);
	if (st == OK)
		st = quant_tensor(w, scale_name, w->n, w->k / GROUP, scales, &scale,
				  fail);
	if (st != OK)
		return st;
	*out = (struct weight){.quant = QUANT_MXFP4, .n = w->n, .k = w->k,
			       .group = GROUP, .q = q->data, .scales = scale->data,
			       .scale_type = DTYPE_F8_E8M0, .name = q->name,
			       .row_step = w->part ? w->part->step : 0};
	return OK;
}

void quant_mxfp4_decode(const struct weight *w, int32_t row, int32_t k0, int32_t k1,
			float *out)
{
	size_t at = (size_t)row * (size_t)(w->row_step ? w->row_step : 1) * (size_t)w->k;
	const uint8_t *q = (const uint8_t *)w->q + at / 2;
	const uint8_t *scales = (const uint8_t *)w->scales + at / GROUP;
	for (int32_t k = k0, end; k < k1; k = end) {
		float scale = blocks_e8m0(scales[k / GROUP]);
		end = (k / GROUP + 1) * GROUP;
		end = end < k1 ? end : k1;
		for (int32_t i = k; i < end; i++)
			*out++ = blocks_e2m1(q[i / 2] >> i % 2 * 4 & 15) * scale;
	}
}
