/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights on the device, in the checkpoint's formats. Rows are padded if their distance
 * would be a multiple of 2,048 bytes. Memory channels repeat with that distance, so
 * workgroups that start at the same column of different rows would all use the same
 * channels (others measured 142 GB/s instead of 195 on gfx1151).
 */
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_slots.h"
#include "base/alloc.h"
#include "kernels/weights/weight_view.h"

enum { BAD_PITCH = 2048, PAD = 128 };

_Static_assert((int)SCALE_F32 == DTYPE_F32 && (int)SCALE_F16 == DTYPE_F16 &&
	       (int)SCALE_BF16 == DTYPE_BF16, "kernels count them as the model does");

static bool has_kernels(enum quant q)
{
	return q <= QUANT_INT8 || q == QUANT_NVFP4 || q == QUANT_FP8 || q >= QUANT_MXFP4;
}

/* The elements of a transposed or interleaved weight in row order, malloc'ed; NULL when
 * out of memory. size: bytes of an element. */
static char *in_order(const struct weight *w, size_t size)
{
	size_t n = (size_t)w->n, k = (size_t)w->k;
	char *out = malloc(n * k * size);
	for (size_t i = 0; out && i < n; i++)
		for (size_t j = 0; j < k; j++)
			memcpy(out + (i * k + j) * size,
			       (const char *)w->q + (j * (size_t)w->k_step +
						     i * (size_t)w->row_step) * size,
			       size);
	return out;
}

enum status hip_weight_rows(const struct weight *host, struct weight *out,
			    struct hip_rows rows[HIP_WEIGHT_ARRAYS], void **memory)
{
	size_t n = (size_t)host->n, group = (size_t)host->group;
	size_t groups = DIV_UP((size_t)host->k, group);
	size_t row = weight_row_bytes(host);
	size_t pitch = row % BAD_PITCH == 0 ? row + PAD : row;
	size_t scales = groups * dtype_bytes(host->scale_type), zeros = groups * 4;
	size_t each = host->quant == QUANT_FP8 ? (size_t)host->group_n : 1;
	size_t per_word = host->scales ? 32 / (size_t)quant_bits(host->quant) : 1;
	size_t row_step = host->row_step && !host->k_step ? (size_t)host->row_step : 1;
	rows[0] = (struct hip_rows){.src = host->q, .row_bytes = row, .step = row * row_step,
				    .pitch = pitch, .n = n};
	rows[1] = (struct hip_rows){.src = host->scales, .row_bytes = scales,
				    .step = scales * (size_t)MAX(host->row_step, 1),
				    .pitch = scales, .n = DIV_UP(n, each)};
	rows[2] = (struct hip_rows){.src = host->scales ? host->zero_points : NULL,
				    .row_bytes = zeros, .step = zeros, .pitch = zeros,
				    .n = DIV_UP(n, per_word)};
	*out = *host;
	out->pitch = pitch == row ? 0 : (int32_t)pitch;
	out->row_step = out->k_step = 0;
	*memory = NULL;
	if (host->k_step) {
		rows[0].src = *memory = in_order(host, (size_t)quant_bits(host->quant) / 8);
		if (!*memory)
			return E_NOMEM;
	}
	return OK;
}

static enum status load_parts(struct hip *h, const struct weight *host, struct weight *out)
{
	struct hip_rows rows[HIP_WEIGHT_ARRAYS];
	void *ordered;
	enum status st = hip_weight_rows(host, out, rows, &ordered);
	const void **at[HIP_WEIGHT_ARRAYS] = {&out->q, &out->scales, &out->zero_points};
	for (int i = 0; i < HIP_WEIGHT_ARRAYS && st == OK; i++) {
		struct hip_rows *r = &rows[i];
		*at[i] = NULL;
		if (!r->src)
			continue;
		st = hip_arena_take(h, &h->weights, r->pitch * r->n, &r->dst);
		if (st == OK)
			st = hip_upload_rows(h, r);
		*at[i] = r->dst;
	}
	free(ordered);
	return st;
}

/* Refuses weights that no kernel reads, and says why. */
static enum status check(const struct weight *host, struct fail *fail)
{
	const char *name = host->name ? host->name : "a weight";
	if (!has_kernels(host->quant) && !hip_repacks(host))
		return fail_at(fail, E_UNSUPPORTED, host->name ? host->name : "",
			       "%s: the HIP backend has no kernels for weights in %s", name,
			       quant_name(host->quant));
	if (host->group_of)
		return fail_at(fail, E_UNSUPPORTED, host->name ? host->name : "",
			       "%s: the HIP backend has no kernels for groups of inputs "
			       "in another order (desc_act, actorder)", name);
	return OK;
}

enum status hip_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail)
{
	struct hip *h = hip_of(b);
	struct weight turned;
	enum status st = check(host, fail);
	if (st != OK)
		return st;
	if (host->is_expert && b->expert_bytes)
		return hip_slots_weight(h, host, out, fail);
	void *memory = hip_narrow(h, host, &turned);
	if (hip_repacks(host))
		st = hip_repack(h, host, &turned, &memory);
	if (memory)
		host = &turned;
	if (st == OK)
		st = load_parts(h, host, out);
	free(memory);
	if (st == OK)
		return OK;
	return fail_set(fail, st, "%.100s: %.200s: %s", h->base.device,
			host->name ? host->name : "a weight", h->failure);
}
