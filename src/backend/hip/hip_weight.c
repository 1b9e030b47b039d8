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
#include "kernels/linear/linear_rows.h"
#include "kernels/weights/weight_view.h"

enum { BAD_PITCH = 2048, PAD = 128 };

_Static_assert((int)SCALE_F32 == DTYPE_F32 && (int)SCALE_F16 == DTYPE_F16 &&
	       (int)SCALE_BF16 == DTYPE_BF16, "kernels count them as the model does");

/* --- the plan --------------------------------------------------------------------------- */

enum quant hip_quant(enum quant q)
{
	switch (q) {
	case QUANT_AWQ4:
	case QUANT_GPTQ4:
	case QUANT_Q4_0:
	case QUANT_Q1_0:
	case QUANT_Q2_0:
		return QUANT_INT4;
	case QUANT_GPTQ8:
	case QUANT_Q8_0:
		return QUANT_INT8;
	case QUANT_MXFP4_BLOCK:
		return QUANT_MXFP4;
	case QUANT_NVFP4_BLOCK:
		return QUANT_NVFP4;
	case QUANT_TQ1_0:
		return QUANT_TQ2_0;
	default:
		return q;
	}
}

static bool fits_units(const struct weight *w)
{
	bool in_powers = w->group >= w->k || (w->group >= 16 && hip_is_power_of_two(w->group));
	switch (w->quant) {
	case QUANT_F32:
	case QUANT_INT4:
		return false;
	case QUANT_F16:
	case QUANT_BF16:
		return w->k % 16 == 0;
	case QUANT_INT8:
	case QUANT_FP8:
		return w->k % 16 == 0 && in_powers;
	case QUANT_NVFP4:
		return w->k % 32 == 0 && w->group == 16;
	case QUANT_MXFP4:
		return w->k % 32 == 0 && w->group == 32;
	default:
		return true;
	}
}

/* True if LDS has room for one token in linear_rows or linear_blocks. */
static bool has_room(const struct weight *w)
{
	if (!quant_block(w->quant))
		return w->k <= LINEAR_ROWS_SLICE(1);
	return LINEAR_BLOCKS_LDS_BYTES(1, w->k) + HIP_UNIT_TABLE_BYTES(w->quant) <=
	       LINEAR_ROWS_LDS;
}

static uint8_t fits(const struct weight *w)
{
	bool is_half = w->quant == QUANT_F16 || w->quant == QUANT_BF16, is_eights = w->k % 8 == 0;
	bool is_aligned = quant_block(w->quant) || hip_pitch(w) % 16 == 0;
	bool is_int4 = w->quant == QUANT_INT4 && w->scale_type != DTYPE_F32 &&
		       (w->group == w->k || hip_is_power_of_two(w->group));
	bool in_units = is_aligned && fits_units(w), in_rows = is_aligned && is_half && is_eights;
	bool in_pairs = w->k % 32 == 0 && (w->group >= 32 || w->quant == QUANT_NVFP4);
	bool in_tiles = is_half ? in_rows : in_pairs && (in_units || (is_int4 && is_aligned));
	return (uint8_t)((is_int4 ? HIP_FITS_INT4 : 0) | (in_units ? HIP_FITS_UNITS : 0) |
			 ((in_units || in_rows) && has_room(w) ? HIP_FITS_ROWS : 0) |
			 (in_tiles ? HIP_FITS_TILE : 0));
}

/* What the plan's format has in another way than w. */
static void set_format(const struct weight *w, enum quant quant, struct weight *to)
{
	bool is_e2m1 = quant == QUANT_NVFP4 || quant == QUANT_MXFP4;
	to->quant = quant;
	to->group_of = NULL;
	to->row_step = to->k_step = to->zero_step = 0;
	if (!quant_block(w->quant) || quant_block(quant))
		return;
	to->group = quant == QUANT_NVFP4 ? 16 : quant_block(w->quant);
	to->scale_type = !is_e2m1 ? DTYPE_F16
				  : quant == QUANT_NVFP4 ? DTYPE_F8_E4M3 : DTYPE_F8_E8M0;
	to->global_scale = quant == QUANT_NVFP4 ? blocks_factor(w) : 0;
}

static struct weight_plan plan_as(const struct weight *w, enum quant quant)
{
	struct weight_plan p = {.from = w, .to = *w};
	struct weight *to = &p.to;
	p.convert = hip_repack(w, quant);
	if (p.convert)
		set_format(w, quant, to);
	size_t n = (size_t)w->n, groups = DIV_UP((size_t)w->k, (size_t)MAX(to->group, 1));
	size_t row = weight_row_bytes(to), each = to->quant == QUANT_FP8 ? (size_t)w->group_n : 1;
	size_t per_word = 32 / (size_t)quant_bits(to->quant);
	size_t scales = groups * dtype_bytes(to->scale_type), step = (size_t)MAX(to->row_step, 1);
	to->pitch = row % BAD_PITCH == 0 ? (int32_t)(row + PAD) : 0;
	to->row_step = 0;
	to->fits = fits(to);
	p.array[0] = (struct hip_rows){.src = w->q, .row_bytes = row, .step = row * step,
				       .pitch = hip_pitch(to), .n = n};
	if (w->scales || (quant_block(w->quant) && !quant_block(to->quant)))
		p.array[1] = (struct hip_rows){.src = w->scales, .row_bytes = scales,
					       .step = scales * step, .pitch = scales,
					       .n = DIV_UP(n, each)};
	if (w->scales && w->zero_points)
		p.array[2] = (struct hip_rows){.src = w->zero_points, .row_bytes = groups * 4,
					       .step = groups * 4, .pitch = groups * 4,
					       .n = DIV_UP(n, per_word)};
	return p;
}

struct weight_plan hip_weight_plan(const struct weight *w)
{
	return plan_as(w, hip_quant(w->quant));
}

/* Stores a float32 matrix in 16 bits, if its numbers are such. A layer's experts must have one
 * format, so none of them is converted alone. */
static bool make_narrow(struct hip *h, struct weight_plan *p)
{
	static const enum quant narrower[] = {QUANT_BF16, QUANT_F16};
	const struct weight *w = p->from;
	bool can = w->quant == QUANT_F32 && !w->row_step && !w->k_step && !w->is_expert;
	for (size_t i = 0; can && i < ARRAY_LEN(narrower); i++) {
		struct weight_plan small = plan_as(w, narrower[i]);
		if (hip_weight_convert(h, &small) == OK && !atomic_load(&small.is_rounded)) {
			*p = small;
			return true;
		}
		free(small.memory);
	}
	return false;
}

enum status hip_weight_make(struct hip *h, struct weight_plan *p)
{
	enum status st = make_narrow(h, p) || !p->convert ? OK : hip_weight_convert(h, p);
	p->to.q = p->array[0].src;
	p->to.scales = p->array[1].src;
	p->to.zero_points = p->array[2].src;
	return st;
}

/* --- loading ---------------------------------------------------------------------------- */

/* Puts a copy of an order, or of factors, on the device, into h->orders[0]. Weights that read one
 * input often share them: they get one address, and one pass over the input serves them. o_proj is
 * loaded between q_proj and k_proj, so two are kept. */
static enum status put_order(struct hip *h, const void *order, int32_t k)
{
	size_t n_bytes = (size_t)k * sizeof(int32_t);
	struct hip_order *last = &h->orders[1];
	for (size_t i = 0; i < ARRAY_LEN(h->orders); i++) {
		struct hip_order found = h->orders[i];
		if (found.k == k && memcmp(found.host, order, n_bytes) == 0) {
			h->orders[i] = h->orders[0];
			h->orders[0] = found;
			return OK;
		}
	}
	void *on;
	enum status st = hip_arena_take(h, &h->weights, n_bytes, &on);
	if (st != OK)
		return st;
	free(last->host);
	*last = h->orders[0];
	h->orders[0] = (struct hip_order){.host = xmalloc(n_bytes), .on = on, .k = k};
	memcpy(h->orders[0].host, order, n_bytes);
	return hip_upload(&h->base, on, order, n_bytes);
}

/* Sorts w's columns by group, so that each group is a run of neighbours, as kernels read them. The
 * inputs are sorted alike before each product (hip_linear_parts.c). */
static enum status take_order(struct hip *h, const struct weight *w, struct weight_plan *p,
			      struct fail *fail)
{
	int32_t *order = xmalloc((size_t)w->k * sizeof *order);
	enum status st;
	if (weight_order(w, order))
		st = put_order(h, order, w->k);
	else
		st = fail_at(fail, E_UNSUPPORTED, w->name, "%s: the HIP backend reads no groups of "
			     "inputs of different sizes (g_idx): set backend to cpu", w->name);
	p->order = h->orders[0].host;
	p->to.order = h->orders[0].on;
	free(order);
	return st;
}

/* Puts the factors of w's inputs on the device. The inputs are multiplied by them before each
 * product (hip_linear_parts.c). */
static enum status take_in_scale(struct hip *h, const struct weight *w, struct weight_plan *p)
{
	enum status st = put_order(h, w->in_scale, w->k);
	p->to.in_scale = h->orders[0].on;
	return st;
}

static enum status upload(struct hip *h, struct weight_plan *p, struct weight *out)
{
	const void **at[HIP_WEIGHT_ARRAYS] = {&out->q, &out->scales, &out->zero_points};
	enum status st = hip_weight_make(h, p);
	*out = p->to;
	for (int i = 0; i < HIP_WEIGHT_ARRAYS && st == OK; i++) {
		struct hip_rows *r = &p->array[i];
		if (!r->src)
			continue;
		st = hip_arena_take(h, &h->weights, r->pitch * r->n, &r->dst);
		if (st == OK)
			st = hip_upload_rows(h, r);
		*at[i] = r->dst;
	}
	free(p->memory);
	return st;
}

enum status hip_load_weight(struct backend *b, const struct weight *host,
			    struct weight *out, struct fail *fail)
{
	struct hip *h = hip_of(b);
	const char *name = host->name ? host->name : "a weight";
	if (host->group_of && (host->is_expert || host->keeps_rows || host->is_table))
		return fail_at(fail, E_UNSUPPORTED, name, "%s: in experts, routers and kv_b_proj "
			       "the HIP backend reads no groups of inputs in another order "
			       "(desc_act, actorder): set backend to cpu", name);
	if (host->in_scale && (host->is_expert || host->keeps_rows || host->is_table))
		return fail_at(fail, E_UNSUPPORTED, name, "%s: in experts, routers and kv_b_proj "
			       "the HIP backend reads no factors of inputs (pre_quant_scale): set "
			       "backend to cpu", name);
	if (host->is_expert && b->expert_bytes)
		return hip_slots_weight(h, host, out, fail);
	struct weight_plan p = hip_weight_plan(host);
	enum status st = host->group_of ? take_order(h, host, &p, fail) : OK;
	if (st == E_UNSUPPORTED)
		return st;
	if (st == OK && host->in_scale)
		st = take_in_scale(h, host, &p);
	st = st == OK ? upload(h, &p, out) : st;
	return st == OK ? OK : fail_set(fail, st, "%.100s: %.200s: %s", h->base.device, name,
					h->failure);
}
