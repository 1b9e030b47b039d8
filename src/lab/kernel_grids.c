/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/kernel_grids.h"

#include <stdio.h>

#include "base/alloc.h"

/* --- a runtime that does nothing ----------------------------------------------- */

static int fake_malloc(void **out, size_t bytes)
{
	static uintptr_t next = (uintptr_t)1 << 40;
	*out = (void *)next;
	next += (bytes + 4095) / 4096 * 4096;
	return HIP_SUCCESS;
}

static int fake_free(void *p)
{
	return HIP_SUCCESS;
}

static int fake_copy(void *dst, const void *src, size_t bytes, int kind, hip_stream s)
{
	return HIP_SUCCESS;
}

static int fake_set(void *dst, int value, size_t bytes, hip_stream s)
{
	return HIP_SUCCESS;
}

static int fake_launch(hip_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		       unsigned by, unsigned bz, unsigned lds, hip_stream s, void **args,
		       void **extra)
{
	return HIP_SUCCESS;
}

/* --- launches ------------------------------------------------------------------ */

struct listener {
	kernel_grids_on on;
	void *ctx;
	const struct case_shape *shape;
};

static void on_launch(void *ctx, const struct hip_launch_info *l, bool is_done)
{
	const struct listener *k = ctx;
	if (is_done)
		k->on(k->ctx, k->shape, l);
}

static enum status run(struct hip *h, int32_t n_tok, int32_t depth, struct listener *k,
		       struct fail *fail)
{
	struct case_opts o = {.group = 32, .n_tok = n_tok,
			      .depth = MAX(depth, n_tok), .is_null = true};
	struct case_args all = {0};
	enum status st = OK;
	for (size_t i = 0; (k->shape = case_shape_at(i)) && st == OK; i++) {
		struct kernel_case *c;
		if (!case_args_want(&all, k->shape))
			continue;
		h->on_launch = NULL;
		st = kernel_case_create(&h->base, k->shape, &o, &c, fail);
		if (st != OK)
			break;
		h->on_launch = on_launch;
		h->on_launch_ctx = k;
		if (kernel_case_queue(c, 0) == E_BACKEND)
			st = fail_set(fail, E_BACKEND, "%s", h->failure);
		kernel_case_destroy(c);
	}
	h->on_launch = NULL;
	return st;
}

enum status kernel_grids(const struct backend_opts *o, const struct chip *chip,
			 int32_t n_tok, int32_t depth, kernel_grids_on on, void *ctx,
			 struct fail *fail)
{
	struct backend *b;
	struct listener k = {on, ctx, NULL};
	enum status st = hip_create(o, &b, fail);
	if (st != OK)
		return st;
	struct hip *h = hip_of(b);
	struct hip_api real = h->api;
	h->api.hipMalloc = fake_malloc;
	h->api.hipFree = fake_free;
	h->api.hipMemcpyAsync = fake_copy;
	h->api.hipMemsetAsync = fake_set;
	h->api.hipModuleLaunchKernel = fake_launch;
	h->device.n_cu = chip->n_cu;
	snprintf(h->device.arch, sizeof h->device.arch, "%s", chip->arch);
	st = run(h, n_tok, depth, &k, fail);
	hip_arena_free(h, &h->weights); /* what was not there */
	h->api = real;
	backend_destroy(b);
	return st;
}
