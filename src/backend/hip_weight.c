/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights on the device, in the checkpoint's own words. Rows are padded where they
 * would lie a multiple of 2,048 bytes apart: the channels of memory repeat with that,
 * and workgroups that start at the same place of different rows would all wait for
 * the same ones (measured by others on gfx1151: 142 GB/s where 195 were had).
 */
#include "backend/hip.h"
#include "base/alloc.h"
#include "kernels/weight_view.h"

enum { BAD_PITCH = 2048, PAD = 128 };

_Static_assert((int)WEIGHT_F32 == QUANT_F32 && (int)WEIGHT_F16 == QUANT_F16 &&
	       (int)WEIGHT_BF16 == QUANT_BF16 && (int)WEIGHT_INT4 == QUANT_INT4 &&
	       (int)SCALE_F32 == DTYPE_F32 && (int)SCALE_F16 == DTYPE_F16 &&
	       (int)SCALE_BF16 == DTYPE_BF16, "kernels count them as the model does");

static bool has_kernels(enum quant q)
{
	return q == QUANT_F32 || q == QUANT_F16 || q == QUANT_BF16 || q == QUANT_INT4;
}

static enum status keep(struct hip *h, const void *host, size_t pitch, size_t row_bytes,
			size_t n_rows, const void **out)
{
	void *p;
	*out = NULL;
	if (!host)
		return OK;
	enum status st = hip_arena_take(h, &h->weights, pitch * n_rows, &p);
	if (st == OK)
		st = hip_upload_rows(h, p, pitch, host, row_bytes, n_rows);
	*out = p;
	return st;
}

static enum status load_parts(struct hip *h, const struct weight *host, struct weight *out)
{
	size_t n = (size_t)host->n, groups = (size_t)(host->k / host->group);
	size_t row = (size_t)host->k * (size_t)quant_bits(host->quant) / 8;
	size_t pitch = row % BAD_PITCH == 0 ? row + PAD : row;
	*out = *host;
	out->pitch = pitch == row ? 0 : (int32_t)pitch;
	enum status st = keep(h, host->q, pitch, row, n, &out->q);
	if (st != OK || host->quant != QUANT_INT4)
		return st;
	size_t scales = groups * dtype_bytes(host->scale_type);
	st = keep(h, host->scales, scales, scales, n, &out->scales);
	if (st == OK)
		st = keep(h, host->zero_points, groups * 4, groups * 4, (n + 7) / 8,
			  &out->zero_points);
	return st;
}

enum status hip_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail)
{
	struct hip *h = hip_of(b);
	if (!has_kernels(host->quant))
		return fail_at(fail, E_UNSUPPORTED, host->name ? host->name : "",
			       "%s: the HIP backend has no kernels for weights in %s",
			       host->name ? host->name : "a weight",
			       quant_name(host->quant));
	enum status st = load_parts(h, host, out);
	if (st == OK)
		return OK;
	return fail_set(fail, st, "%.100s: %.200s: %s", h->base.device,
			host->name ? host->name : "a weight", h->failure);
}

enum status hip_load_experts(struct backend *b, struct experts *out, struct fail *fail)
{
	out->device = NULL;
	return OK;
}
