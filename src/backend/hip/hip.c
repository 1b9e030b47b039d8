/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/hip/hip_graph.h"
#include "backend/hip/hip_slots.h"
#include "backend/hip/hip_tune.h"
#include "backend/hip/hip_profile.h"
#include "base/alloc.h"
#include "kernels/linear/linear_int4.h"
#include "kernels/moe/moe_launch.h"

/* --- errors ----------------------------------------------------------------------- */

enum status hip_check(struct hip *h, int error, const char *what)
{
	if (error == HIP_SUCCESS)
		return OK;
	/* Keep the first error: later ones are consequences. */
	if (!h->has_failed)
		snprintf(h->failure, sizeof h->failure, "%s: %s", what,
			 h->api.hipGetErrorName(error));
	if (error == HIP_ERROR_OUT_OF_MEMORY)
		return E_NOMEM;
	h->has_failed = true;
	return E_DEVICE;
}

enum status hip_refuse(struct hip *h, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = snprintf(h->base.refusal, sizeof h->base.refusal, "hip: ");
	vsnprintf(h->base.refusal + n, sizeof h->base.refusal - (size_t)n, fmt, ap);
	va_end(ap);
	h->step_is_broken = true;
	return E_UNSUPPORTED;
}

/* --- table of operations ------------------------------------------------------------ */

static void destroy_hip(struct backend *b)
{
	struct hip *h = hip_of(b);
	if (h->stream)
		h->api.hipStreamSynchronize(h->stream);
	hip_slots_destroy(h);
	hip_experts_destroy(h);
	if (h->api.library) {
		hip_graph_clear(h);
		hip_memory_destroy(h);
	}
	if (h->module)
		h->api.hipModuleUnload(h->module);
	buf_deinit(&h->image);
	if (h->stream)
		h->api.hipStreamDestroy(h->stream);
	for (size_t i = 0; i < h->n_functions; i++)
		free(h->function_names[i]);
	hip_profile_free(h);
	free(h->function_names);
	free(h->functions);
	strmap_deinit(&h->names);
	free(h->tune);
	free(h->ranges);
	for (size_t i = 0; i < ARRAY_LEN(h->orders); i++)
		free(h->orders[i].host);
	free(h->expert_dir);
	free(h->graph_notes);
	pool_destroy(h->pool);
	free(h);
}

static const struct backend_ops hip_ops = {
#define OP(name, contract) .name = hip_##name,
#include "backend/ops.def"
#undef OP
	.memory = hip_memory,
	.alloc = hip_alloc,
	.free = hip_free,
	.alloc_shared = hip_alloc_shared,
	.alloc_pinned = hip_alloc_pinned,
	.free_pinned = hip_free_pinned,
	.upload_pinned = hip_upload_pinned,
	.download_pinned = hip_download_pinned,
	.free_shared = hip_free_shared,
	.load_weight = hip_load_weight,
	.load_experts = hip_load_experts,
	.load_begin = hip_slots_begin,
	.load_end = hip_slots_end,
	.upload = hip_upload,
	.download = hip_download,
	.sync = hip_sync,
	.step_begin = hip_step_begin,
	.step_end = hip_step_end,
	.profile_device = hip_profile_device,
	.destroy = destroy_hip,
};

/* --- creation --------------------------------------------------------------------- */

static enum status load_module(struct hip *h, const struct backend_opts *o,
			       struct fail *fail)
{
	const void *image;
	enum status st = hip_device_image(&h->api, &h->device, o, &h->image, &image, fail);
	if (st == OK && hip_check(h, h->api.hipModuleLoadData(&h->module, image),
				  "loading the kernels") != OK)
		st = fail_set(fail, E_DEVICE, "%s (%s): %s", h->device.name,
			      h->device.arch, h->failure);
	hip_tune_note(h, st == OK ? buf_str(&h->image) : STR(""));
	return st;
}

static enum status open_all(struct hip *h, const struct backend_opts *o,
			    struct fail *fail)
{
	enum status st = hip_open_api(o, &h->api, fail);
	if (st == OK)
		st = hip_device_open(&h->api, o, &h->device, fail);
	if (st == OK) {
		hip_tune_open(h, o);
		hip_graph_notes_open(h, o->graph_notes);
	}
	if (st == OK)
		st = load_module(h, o, fail);
	if (st != OK)
		return st;
	snprintf(h->base.device, sizeof h->base.device, "%s (%s), %d compute units",
		 h->device.name, h->device.arch, h->device.n_cu);
	st = hip_check(h, h->api.hipStreamCreateWithFlags(&h->stream,
							  HIP_STREAM_NON_BLOCKING),
		       "a stream");
	if (st == OK)
		st = hip_memory_create(h);
	if (st == OK)
		return hip_sync(&h->base, fail);
	return fail_set(fail, st, "%.100s: %s", h->base.device, h->failure);
}

enum status hip_create(const struct backend_opts *o, struct backend **out,
		       struct fail *fail)
{
	struct hip *h = xcalloc(1, sizeof *h);
	h->base = (struct backend){.ops = &hip_ops, .name = "hip",
				   .act_type = DTYPE_F16, .kv_type = DTYPE_F16,
				   .widens_kv = true,
				   .is_far = true};
	h->checks = o->checks;
	h->no_graphs = o->no_graphs;
	h->expert_dir = o->expert_dir ? xstrdup(o->expert_dir) : NULL;
	h->int4_axes = -1;
	h->tile = h->moe_tile = -1;
	h->moe_tile_from = h->tile_from = HIP_FEW_TOK + 1;
	strmap_init(&h->names, 64);
	enum status st = open_all(h, o, fail);
	if (st != OK) {
		destroy_hip(&h->base);
		return st;
	}
	h->base.few_tok = MIN(h->tile_from, h->moe_tile_from) - 1;
	h->base.alone_ctx = HIP_ALONE_CTX;
	*out = &h->base;
	return OK;
}
