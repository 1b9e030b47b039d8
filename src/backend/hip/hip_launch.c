/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/hip/hip_launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_profile.h"
#include "base/alloc.h"

enum { MAX_ARGS = 32 };

/* The kernel's function, or NULL; the runtime is asked once for each name. */
static hip_function hip_launch_find(struct hip *h, const char *kernel)
{
	uint32_t i;
	if (strmap_get(&h->names, str_of(kernel), &i))
		return h->functions[i];
	hip_function f = NULL;
	if (h->api.hipModuleGetFunction(&f, h->module, kernel) != HIP_SUCCESS)
		f = NULL;
	size_t n = h->n_functions + 1;
	h->functions = xrealloc(h->functions, n * sizeof(hip_function));
	h->function_names = xrealloc(h->function_names, n * sizeof(char *));
	h->functions[n - 1] = f;
	h->function_names[n - 1] = xstrdup(kernel);
	strmap_put(&h->names, str_of(h->function_names[n - 1]), (uint32_t)(n - 1));
	h->n_functions = n;
	return f;
}

struct hip_kernel hip_kernel(enum hip_kernel_kind kind, enum profile_stage stage,
			     const char *name, ...)
{
	struct hip_kernel k = {kind, stage, ""};
	va_list ap;
	va_start(ap, name);
	vsnprintf(k.name, sizeof k.name, name, ap);
	va_end(ap);
	return k;
}

enum status hip_launch(struct hip *h, struct hip_kernel kernel, struct hip_grid g,
		       const struct hip_arg *args, int n_args)
{
	void *at[MAX_ARGS];
	struct hip_launch_info info = {h, &kernel, g, args, n_args};
	if (h->has_failed)
		return E_DEVICE;
	hip_function f = hip_launch_find(h, kernel.name);
	if (!f)
		return hip_refuse(h, "there is no kernel %s", kernel.name);
	if (n_args > MAX_ARGS || g.lds_bytes > h->device.lds_bytes)
		return hip_refuse(h, "%s needs %d bytes of LDS", kernel.name, (int)g.lds_bytes);
	if (g.x <= 0 || g.y <= 0)
		return OK;
	if ((uint64_t)g.x * (uint64_t)g.n_threads > HIP_MAX_GRID_THREADS ||
	    g.y > HIP_MAX_GRID_Y)
		return hip_refuse(h, "%s: a grid of %d by %d workgroups is too large",
				  kernel.name, g.x, g.y);
	for (int i = 0; i < n_args; i++)
		at[i] = (void *)(uintptr_t)args[i].p;
	if (h->on_launch)
		h->on_launch(h->on_launch_ctx, &info, false);
	enum profile_stage before = profile_now(h->base.profile);
	if (h->base.profile)
		profile_enter(h->base.profile, hip_profile_stage(h, kernel.stage));
	int error = h->api.hipModuleLaunchKernel(
		f, (unsigned)g.x, (unsigned)g.y, 1, (unsigned)g.n_threads, 1, 1,
		(unsigned)g.lds_bytes, h->stream, at, NULL);
	if (error != HIP_SUCCESS && h->step) {
		/* Nothing runs while a step is captured: it will be launched anew. */
		h->step_error = h->step_error ? h->step_error : error;
		return OK;
	}
	if (error != HIP_SUCCESS)
		return hip_check(h, error, kernel.name);
	profile_enter(h->base.profile, before);
	h->has_copied = h->has_copied && h->step; /* a capture launches nothing */
	h->step_launches++;
	if (h->on_launch)
		h->on_launch(h->on_launch_ctx, &info, true);
	return OK;
}

size_t hip_pitch(const struct weight *w)
{
	if (w->pitch)
		return (size_t)w->pitch;
	return weight_row_bytes(w);
}

struct weight_view hip_view(const struct weight *w)
{
	return (struct weight_view){
		.q = w->q, .scales = w->scales, .zero_points = w->zero_points,
		.n = w->n, .k = w->k, .group = w->group,
		.format = (int32_t)w->quant, .scale_format = (int32_t)w->scale_type,
		.pitch = (int32_t)hip_pitch(w),
		.group_n = w->quant == QUANT_FP8 ? w->group_n : 1,
		.factor = w->quant == QUANT_NVFP4 ? (float)w->global_scale : 1};
}

int32_t hip_groups(const struct weight *w)
{
	return w->group < w->k ? DIV_UP(w->k, w->group) : 1;
}

int32_t hip_group_shift(const struct weight *w)
{
	bool is_one = quant_block(w->quant) || quant_bits(w->quant) > 8 || w->group >= w->k;
	return is_one ? 31 : __builtin_ctz((unsigned)w->group);
}

bool hip_can_fuse_norm(const struct rms_norm_args *n)
{
	return n && !n->add && !n->sum && !n->y_low && n->n_weights <= 1;
}

struct fused_norm hip_fused_norm(const struct rms_norm_args *n)
{
	return (struct fused_norm){.x = n->x, .weight = n->weight, .y = n->y, .eps = n->eps};
}

enum status hip_fuse_norm(struct hip *h, const struct rms_norm_args *n, bool able,
			  struct fused_norm *out)
{
	*out = (struct fused_norm){0};
	if (!n)
		return OK;
	if (!able || !hip_can_fuse_norm(n) || n->n_tok > FUSED_NORM_TOK)
		return hip_rms_norm(&h->base, n);
	*out = hip_fused_norm(n);
	return OK;
}
