/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/fiber_backend.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kernels/linear_int4.h"
#include "kernels/qk_norm_rope_kv_launch.h"
#include "kernels/weight_view.h"
#include "tests/hip-on-cpu/fiber.h"
#include "tests/hip-on-cpu/kernels.h"

_Static_assert((int)WEIGHT_F32 == QUANT_F32 && (int)WEIGHT_F16 == QUANT_F16 &&
	       (int)WEIGHT_BF16 == QUANT_BF16 && (int)WEIGHT_INT4 == QUANT_INT4 &&
	       (int)SCALE_F32 == DTYPE_F32 && (int)SCALE_F16 == DTYPE_F16 &&
	       (int)SCALE_BF16 == DTYPE_BF16, "kernels count them as the model does");

static const struct linear_int4_axes axes[] = {
#define AXES(name, ...) {#name, __VA_ARGS__},
#include "kernels/linear_int4.def"
#undef AXES
};
_Static_assert(ARRAY_LEN(axes) == FIBER_BACKEND_AXES, "a row each");

struct fiber_backend {
	struct backend b;
	const struct linear_int4_axes *axes;
	bool is_reversed;
	void **weights; /* copies that load_weight made */
	size_t n_weights;
};

static struct fiber_backend *of(struct backend *b)
{
	return (struct fiber_backend *)b;
}

const char *fiber_backend_axes_name(int i_axes)
{
	return axes[i_axes].name;
}

/* --- launching ------------------------------------------------------------------ */

struct grid {
	int32_t x, y, n_threads, lds_bytes;
};

struct call {
	kernels_entry run;
	void **args;
};

static void enter(void *arg)
{
	const struct call *c = arg;
	c->run(c->args);
}

static void launch(struct backend *b, const char *name, struct grid g, void **args)
{
	struct call c = {kernels_find(name), args};
	if (!c.run) {
		printf("Bail out! no kernel %s\n", name);
		abort();
	}
	fiber_run(&(struct fiber_launch){
		.grid_x = (uint32_t)g.x, .grid_y = (uint32_t)g.y,
		.n_threads = (uint32_t)g.n_threads, .lds_bytes = (size_t)g.lds_bytes,
		.is_reversed = of(b)->is_reversed, .entry = enter, .arg = &c});
}

/* The addresses of arguments; they must be variables of the kernel's very types. */
#define ARGS(...) ((void *[]){__VA_ARGS__})

static int32_t over(int32_t n, int32_t each)
{
	return (n + each - 1) / each;
}

static struct weight_view view(const struct weight *w)
{
	return (struct weight_view){w->q, w->scales, w->zero_points, w->n, w->k, w->group,
				    (int32_t)w->quant, (int32_t)w->scale_type};
}

static const char *named(const char *op, const struct weight *w)
{
	static char name[80];
	snprintf(name, sizeof name, "%s_%s_kernel", op, quant_name(w->quant));
	return name;
}

/* --- operations ----------------------------------------------------------------- */

static enum status embed_rows(struct backend *b, const struct embed_rows_args *a)
{
	struct embed_rows_args v = *a;
	struct weight_view table = view(a->table);
	launch(b, named("embed_rows", a->table),
	       (struct grid){over(table.k, 256), a->n_tok, 256, 0},
	       ARGS(&table, &v.token, &v.x));
	return OK;
}

static enum status gather_rows(struct backend *b, const struct gather_rows_args *a)
{
	struct gather_rows_args v = *a;
	launch(b, "gather_rows_kernel",
	       (struct grid){over(v.dim, 256), v.n_rows, 256, 0},
	       ARGS(&v.dim, &v.x, &v.row, &v.y));
	return OK;
}

static enum status rope_table(struct backend *b, const struct rope_table_args *a)
{
	struct rope_table_args v = *a;
	launch(b, "rope_table_kernel", (struct grid){v.n_tok, 1, 64, 0},
	       ARGS(&v.n_freq, &v.position, &v.inv_freq, &v.table));
	return OK;
}

static enum status rms_norm(struct backend *b, const struct rms_norm_args *a)
{
	struct rms_norm_args v = *a;
	launch(b, "rms_norm_kernel", (struct grid){v.n_tok, 1, 512, 0},
	       ARGS(&v.dim, &v.eps, &v.x, &v.add, &v.weight, &v.y));
	return OK;
}

static enum status qk_norm_rope_kv(struct backend *b,
				   const struct qk_norm_rope_kv_args *a)
{
	struct qk_norm_rope_kv_launch l = {
		.q = a->q, .k = a->k, .v = a->v, .q_norm = a->q_norm,
		.k_norm = a->k_norm, .rope = a->rope, .slot = a->slot,
		.k_pages = a->kv.k, .v_pages = a->kv.v, .n_heads = a->n_heads,
		.n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim,
		.n_freq = a->n_freq, .page_size = a->kv.page_size, .eps = a->eps,
		.q_from = a->q_from, .q_pitch = a->q_pitch};
	launch(b, "qk_norm_rope_kv_kernel",
	       (struct grid){over(a->n_heads + 2 * a->n_kv_heads, QK_NORM_ROPE_KV_WAVES),
			     a->n_tok, QK_NORM_ROPE_KV_WAVES * 32, 0},
	       ARGS(&l));
	return OK;
}

static enum status kv_copy(struct backend *b, const struct kv_copy_args *a)
{
	struct kv_pages kv = a->kv;
	uint64_t n = (uint64_t)a->n_kv_heads * (uint64_t)kv.page_size *
		     (uint64_t)a->head_dim * dtype_bytes(kv.type);
	uint64_t dst = (uint64_t)a->dst * n, src = (uint64_t)a->src * n;
	launch(b, "kv_copy_kernel",
	       (struct grid){over((int32_t)over((int32_t)n, 16), 256), kv.v ? 2 : 1, 256, 0},
	       ARGS(&kv.k, &kv.v, &dst, &src, &n));
	return OK;
}

static enum status silu_mul(struct backend *b, const struct silu_mul_args *a)
{
	struct silu_mul_args v = *a;
	uint64_t n = (uint64_t)v.n_tok * (uint64_t)v.dim;
	launch(b, "silu_mul_kernel",
	       (struct grid){over((int32_t)n, 256 * 8), 1, 256, 0},
	       ARGS(&n, &v.gate, &v.up, &v.y));
	return OK;
}

static enum status moe_router(struct backend *b, const struct moe_router_args *a)
{
	struct moe_router_args v = *a;
	struct weight_view router = view(a->router);
	uint32_t norm = a->norm_topk;
	uint32_t *arrived = xcalloc((size_t)a->n_tok, sizeof *arrived);
	launch(b, named("moe_router", a->router),
	       (struct grid){over(router.n, 4), v.n_tok, 128, router.n * 4},
	       ARGS(&router, &v.n_used, &norm, &v.x, &v.logits, &v.id, &v.weight,
		    &arrived));
	bool is_clean = true;
	for (int32_t t = 0; t < a->n_tok; t++)
		is_clean &= arrived[t] == 0; /* as the next launch needs it */
	free(arrived);
	return is_clean ? OK : E_INTERNAL;
}

static void linear_any(struct backend *b, const struct linear_args *a,
		       const struct linear_out *out)
{
	struct linear_out o = *out;
	struct weight_view w = view(o.w);
	const void *x = a->x;
	uint32_t store = o.adds ? LINEAR_ADD_F32 : o.is_f32 ? LINEAR_TO_F32
							      : LINEAR_TO_F16;
	launch(b, named("linear_any", o.w),
	       (struct grid){over(w.n, 4), a->n_tok, 128, 0},
	       ARGS(&w, &x, &o.bias, &o.y, &store));
}

static bool is_power_of_two(int32_t n)
{
	return (n & (n - 1)) == 0;
}

static bool takes_int4(const struct linear_int4_axes *x, const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	for (int i = 0; i < a->n_out; i++) {
		const struct weight *w = a->out[i].w;
		if (w->quant != QUANT_INT4 || w->scale_type == DTYPE_F32 ||
		    w->group != first->group || !w->zero_points != !first->zero_points)
			return false;
	}
	return first->k % x->chunk == 0 && first->group % x->chunk == 0 &&
	       (is_power_of_two(first->group) || first->group == first->k) &&
	       LINEAR_INT4_LDS_BYTES(1, first->k, x->thrds, x->chunk) <= LINEAR_INT4_LDS;
}

static struct linear_int4_args int4_args(const struct linear_int4_axes *x,
					 const struct linear_args *a)
{
	const struct weight *first = a->out[0].w;
	struct linear_int4_args r = {.x = a->x, .k = first->k,
				     .n_groups = first->k / first->group,
				     .group_shift = 31};
	if (first->group != first->k)
		r.group_shift = __builtin_ctz((unsigned)first->group);
	int32_t rows = LINEAR_INT4_ROWS(x->thrds, x->ytile, x->waves);
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++) {
		struct linear_int4_part *p = &r.part[i];
		p->first_group = i < a->n_out ? r.grid : INT32_MAX;
		if (i >= a->n_out)
			continue;
		const struct linear_out *o = &a->out[i];
		*p = (struct linear_int4_part){
			.q = o->w->q, .scales = o->w->scales,
			.zero_points = o->w->zero_points, .bias = o->bias, .y = o->y,
			.n = o->w->n, .pitch = o->w->k / 8, .first_group = r.grid,
			.store = o->adds ? LINEAR_ADD_F32
					 : o->is_f32 ? LINEAR_TO_F32 : LINEAR_TO_F16,
			.is_bf16 = o->w->scale_type == DTYPE_BF16};
		/* Two thirds of the workgroups, so that some go on to further rows. */
		r.grid += MAX(1, over(p->n, rows) * 2 / 3);
	}
	return r;
}

static void linear_int4(struct backend *b, const struct linear_args *a)
{
	const struct linear_int4_axes *x = of(b)->axes;
	struct linear_int4_args r = int4_args(x, a);
	const char *zero = a->out[0].w->zero_points ? "_zero" : "";
	for (int32_t t = 0; t < a->n_tok;) {
		int32_t m = MIN(a->n_tok - t, LINEAR_INT4_MAX_TOK);
		while (LINEAR_INT4_LDS_BYTES(m, r.k, x->thrds, x->chunk) > LINEAR_INT4_LDS)
			m--;
		char name[80];
		snprintf(name, sizeof name, "linear_int4_%s_m%d%s_kernel", x->name, m, zero);
		launch(b, name,
		       (struct grid){r.grid, 1, 32 * x->waves,
				     LINEAR_INT4_LDS_BYTES(m, r.k, x->thrds, x->chunk)},
		       ARGS(&r));
		t += m;
		r.x += m * r.k;
		for (int i = 0; i < a->n_out; i++) {
			struct linear_int4_part *p = &r.part[i];
			size_t size = p->store == LINEAR_TO_F16 ? 2 : 4;
			p->y = (char *)p->y + (size_t)(m * p->n) * size;
		}
	}
}

static enum status linear(struct backend *b, const struct linear_args *a)
{
	if (takes_int4(of(b)->axes, a)) {
		linear_int4(b, a);
		return OK;
	}
	for (int i = 0; i < a->n_out; i++)
		linear_any(b, a, &a->out[i]);
	return OK;
}

/* --- memory --------------------------------------------------------------------- */

static enum status mem_alloc(struct backend *b, size_t n_bytes, void **out)
{
	/* Of the very size, so that ASan sees the end, and at an address like hipMalloc's. */
	if (posix_memalign(out, 256, n_bytes ? n_bytes : 1) != 0)
		return E_NOMEM;
	memset(*out, 0, n_bytes);
	return OK;
}

static void mem_free(struct backend *b, void *p)
{
	free(p);
}

static enum status mem_copy(struct backend *b, void *to, const void *from, size_t n_bytes)
{
	memcpy(to, from, n_bytes);
	return OK;
}

static const void *keep(struct backend *b, const void *host, size_t n_bytes)
{
	struct fiber_backend *f = of(b);
	void *copy;
	if (!host)
		return NULL;
	if (mem_alloc(b, n_bytes, &copy) != OK)
		abort();
	memcpy(copy, host, n_bytes);
	f->weights = xrealloc(f->weights, (f->n_weights + 1) * sizeof *f->weights);
	f->weights[f->n_weights++] = copy;
	return copy;
}

static enum status load_weight(struct backend *b, const struct weight *host,
			       struct weight *out, struct fail *fail)
{
	size_t n = (size_t)host->n, groups = (size_t)(host->k / host->group);
	*out = *host;
	out->q = keep(b, host->q, n * (size_t)host->k * (size_t)quant_bits(host->quant) / 8);
	if (host->quant != QUANT_INT4)
		return OK;
	out->scales = keep(b, host->scales, n * groups * dtype_bytes(host->scale_type));
	out->zero_points = keep(b, host->zero_points, (n + 7) / 8 * groups * 4);
	return OK;
}

static enum status done(struct backend *b, struct fail *fail)
{
	return OK;
}

static void destroy(struct backend *b)
{
	struct fiber_backend *f = of(b);
	for (size_t i = 0; i < f->n_weights; i++)
		free(f->weights[i]);
	free(f->weights);
	free(f);
}

static const struct backend_ops ops = {
	.embed_rows = embed_rows, .gather_rows = gather_rows, .rope_table = rope_table,
	.rms_norm = rms_norm, .silu_mul = silu_mul, .moe_router = moe_router,
	.linear = linear, .qk_norm_rope_kv = qk_norm_rope_kv, .kv_copy = kv_copy,
	.alloc = mem_alloc, .free = mem_free, .upload = mem_copy,
	.download = mem_copy, .load_weight = load_weight, .sync = done,
	.destroy = destroy,
};

void fiber_backend_create(int i_axes, bool is_reversed, struct backend **out)
{
	struct fiber_backend *f = xcalloc(1, sizeof *f);
	f->b.ops = &ops;
	f->b.name = "fibers";
	f->b.act_type = DTYPE_F16;
	f->b.kv_type = DTYPE_F16;
	f->axes = &axes[i_axes];
	f->is_reversed = is_reversed;
	*out = &f->b;
}
