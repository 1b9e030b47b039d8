/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/kernel_case.h"

#include <stdlib.h>

#include "backend/hip/hip_weight.h"
#include "base/alloc.h"
#include "lab/case_weight.h"
#include "lab/expert_routing.h"

enum { MAX_COPIES = 64, PAGE = 16, MAX_TOK = 8192, PRIME = 10007,
       SMALL = 1 << 18 /* bytes; smaller data (ids, tables) is uploaded even if is_null */ };

/* Shapes from config.json of the models on Hugging Face: the weights that a decode step
 * reads. */
#define LINEAR(model_, part_, quant_, k_, adds_, ...) \
	{.model = model_, .part = part_, .op = CASE_LINEAR, .quant = QUANT_##quant_, \
	 .k = k_, .adds = adds_, .n = {__VA_ARGS__}}
/* Gate and up of a dense layer's feed-forward, with the norm before. */
#define FFN_UP(model_, k_, f_) \
	{.model = model_, .part = "ffn-up", .op = CASE_FFN_UP, .quant = QUANT_INT4, \
	 .k = k_, .n = {f_, f_}}
#define TOP(model_, n_vocab_) \
	{.model = model_, .part = "top", .op = CASE_TOP, .quant = QUANT_F32, \
	 .n = {n_vocab_}}
#define EXPERTS(model_, k_, experts_, used_, f_) \
	{.model = model_, .part = "router", .op = CASE_ROUTER, .quant = QUANT_BF16, \
	 .k = k_, .experts = experts_, .used = used_}, \
	{.model = model_, .part = "experts", .op = CASE_EXPERTS, .quant = QUANT_INT4, \
	 .k = k_, .experts = experts_, .used = used_, .f = f_}
#define ATTENTION(model_, k_, heads_, kv_heads_) \
	{.model = model_, .part = "attention", .op = CASE_ATTENTION, .quant = QUANT_F16, \
	 .k = k_, .heads = heads_, .kv_heads = kv_heads_}
#define NORM(model_, k_) \
	{.model = model_, .part = "norm", .op = CASE_NORM, .quant = QUANT_F32, .k = k_}
static const struct case_shape shapes[] = {
	LINEAR("qwen3-30b-a3b", "qkv", INT4, 2048, false, 4096, 512, 512),
	LINEAR("qwen3-30b-a3b", "o", INT4, 4096, true, 2048),
	EXPERTS("qwen3-30b-a3b", 2048, 128, 8, 768),
	ATTENTION("qwen3-30b-a3b", 128, 32, 4),
	NORM("qwen3-30b-a3b", 2048),
	LINEAR("qwen3-30b-a3b", "head", BF16, 2048, false, 151936),
	LINEAR("qwen3-30b-a3b", "head-int8", INT8, 2048, false, 151936),
	LINEAR("qwen3-30b-a3b", "head-int4", INT4, 2048, false, 151936),
	TOP("qwen3-30b-a3b", 151936),
	LINEAR("qwen3.5-35b-a3b", "linear-qkvz", INT4, 2048, false, 8192, 4096),
	LINEAR("qwen3.5-35b-a3b", "linear-out", INT4, 4096, true, 2048),
	LINEAR("qwen3.5-35b-a3b", "qkv", INT4, 2048, false, 8192, 512, 512),
	EXPERTS("qwen3.5-35b-a3b", 2048, 256, 8, 512),
	ATTENTION("qwen3.5-35b-a3b", 256, 16, 2),
	NORM("qwen3.5-35b-a3b", 2048),
	LINEAR("qwen3.5-35b-a3b", "head", BF16, 2048, false, 248320),
	TOP("qwen3.5-35b-a3b", 248320),
	LINEAR("qwen3-4b", "qkv", INT4, 2560, false, 4096, 1024, 1024),
	LINEAR("qwen3-4b", "o", INT4, 4096, true, 2560),
	LINEAR("qwen3-4b", "gate-up", INT4, 2560, false, 9728, 9728),
	FFN_UP("qwen3-4b", 2560, 9728),
	LINEAR("qwen3-4b", "down", INT4, 9728, true, 2560),
	ATTENTION("qwen3-4b", 128, 32, 8),
	NORM("qwen3-4b", 2560),
	LINEAR("qwen3-4b", "head", BF16, 2560, false, 151936),
	TOP("qwen3-4b", 151936),
	LINEAR("qwen3-8b", "qkv", INT4, 4096, false, 4096, 1024, 1024),
	LINEAR("qwen3-8b", "o", INT4, 4096, true, 4096),
	LINEAR("qwen3-8b", "gate-up", INT4, 4096, false, 12288, 12288),
	FFN_UP("qwen3-8b", 4096, 12288),
	LINEAR("qwen3-8b", "down", INT4, 12288, true, 4096),
	ATTENTION("qwen3-8b", 128, 32, 8),
	NORM("qwen3-8b", 4096),
	LINEAR("qwen3-8b", "head", BF16, 4096, false, 151936),
	LINEAR("qwen3-8b", "head-int8", INT8, 4096, false, 151936),
	LINEAR("qwen3-8b", "head-int4", INT4, 4096, false, 151936),
	TOP("qwen3-8b", 151936),
	EXPERTS(CASE_TINY, 512, 8, 2, 256),
	LINEAR(CASE_TINY, "head-int8", INT8, 512, false, 1000),
	TOP(CASE_TINY, 3000),
	LINEAR(CASE_TINY, "gate-up", INT4, 512, false, 256, 256),
	FFN_UP(CASE_TINY, 512, 256),
};

const struct case_shape *case_shape_at(size_t i)
{
	return i < ARRAY_LEN(shapes) ? &shapes[i] : NULL;
}

bool case_shape_takes_formats(const struct case_shape *s)
{
	return s->quant == QUANT_INT4;
}

bool case_args_parse(const struct option_set *set, const struct case_args *a, int argc,
		     char **argv, int *out_exit)
{
	if (!options_parse(set, argc, argv, out_exit))
		return false;
	if ((a->group & (a->group - 1)) == 0)
		return true;
	*out_exit = options_fault(set, "--group: 32, 64 or 128");
	return false;
}

/* True if the name is in a list of names separated by commas. */
static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *p = list; *p;) {
		size_t n = strcspn(p, ",");
		if (n == len && memcmp(p, name, n) == 0)
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

bool case_args_want(const struct case_args *a, const struct case_shape *s)
{
	if (a->part && !is_listed(a->part, s->part))
		return false;
	return a->model ? is_listed(a->model, s->model) : strcmp(s->model, CASE_TINY) != 0;
}

struct case_copy {
	struct weight w[LINEAR_MAX_OUT];
	struct experts experts;
	void *k_pages, *v_pages;
	int32_t *id; /* device (T, U) */
};

struct kernel_case {
	struct backend *b;
	struct case_shape shape;
	struct case_opts o;
	int n_weights; /* weights in shape.n */
	struct case_copy copy[MAX_COPIES];
	int n_copies;
	struct weight *expert_weights; /* (copies, 3, E) */
	void *blocks[512];
	size_t n_blocks;
	uint64_t random;
	double bytes, flops;
	/* The following are on the device. */
	void *x, *y[LINEAR_MAX_OUT], *h;
	float *stream, *norm, *logits, *expert_weight, *inv_t;
	struct logits_top *top; /* memory shared with the host */
	int32_t *work, *id, *seq_of, *position, *first_tok, *page_table;
};

/* A random number from 0 to 1. */
static float random_float(struct kernel_case *c)
{
	return (float)(case_weight_bits(&c->random) >> 40) * 0x1p-24f;
}

/* --- memory -------------------------------------------------------------------- */

static enum status alloc_device(struct kernel_case *c, size_t n_bytes, void *out)
{
	void *p;
	if (c->n_blocks == ARRAY_LEN(c->blocks))
		return E_NOMEM;
	enum status st = c->b->ops->alloc(c->b, n_bytes, &p);
	if (st == OK) {
		c->blocks[c->n_blocks++] = p;
		memcpy(out, &p, sizeof p);
	}
	return st;
}

static enum status upload(struct kernel_case *c, const void *host, size_t n_bytes,
			     void *out)
{
	enum status st = alloc_device(c, n_bytes, out);
	void *p;
	memcpy(&p, out, sizeof p);
	if (st == OK && (!c->o.is_null || n_bytes <= SMALL))
		st = c->b->ops->upload(c->b, p, host, n_bytes);
	return st;
}

/* A random f16 with a magnitude of 0.5 to 1, so that every sum is finite. */
static uint16_t small_half(struct kernel_case *c)
{
	return (uint16_t)(0x3800 | (case_weight_bits(&c->random) >> 20 & 0x83FF));
}

static enum status upload_halves(struct kernel_case *c, size_t n, void *out)
{
	uint16_t *host = calloc(n, sizeof *host);
	if (!host)
		return E_NOMEM;
	for (size_t i = 0; i < n && !c->o.is_null; i++)
		host[i] = small_half(c);
	enum status st = upload(c, host, n * sizeof *host, out);
	free(host);
	return st;
}

static enum status upload_floats(struct kernel_case *c, size_t n, void *out)
{
	float *host = calloc(n, sizeof *host);
	if (!host)
		return E_NOMEM;
	for (size_t i = 0; i < n; i++)
		host[i] = random_float(c);
	enum status st = upload(c, host, n * sizeof *host, out);
	free(host);
	return st;
}

/* --- weights ------------------------------------------------------------------- */

static struct case_weight_opts weight_opts(const struct kernel_case *c)
{
	return (struct case_weight_opts){.group = c->o.group,
					 .is_asymmetric = c->o.is_asymmetric};
}

/* Make a weight of the case's format. One that loading converts to another format has
 * contents even if nothing is executed, since only loading tells the other format. */
static enum status host_make(struct kernel_case *c, int32_t n, int32_t k,
			     struct case_weight *h, struct fail *fail)
{
	struct case_weight_opts o = weight_opts(c);
	o.is_null = c->o.is_null && hip_quant(c->shape.quant) == c->shape.quant;
	return case_weight_make(&c->random, c->shape.quant, n, k, &o, h, fail);
}

static double weight_cost(const struct kernel_case *c, int32_t n, int32_t k)
{
	struct case_weight_opts o = weight_opts(c);
	return (double)case_weight_bytes(c->shape.quant, n, k, &o);
}

static enum status load_case_weight(struct kernel_case *c, const struct case_weight *host,
				    struct weight *out, struct fail *fail)
{
	struct weight w = host->w;
	w.keeps_rows = c->shape.op == CASE_ROUTER;
	*out = hip_weight_plan(&w).to;
	return host->q ? c->b->ops->load_weight(c->b, &w, out, fail) : OK;
}

/* Make weight i_weight (n, k) of every copy; all have the same contents. */
static enum status make_copies(struct kernel_case *c, int i_weight, int32_t n, int32_t k,
			       struct fail *fail)
{
	struct case_weight h;
	enum status st = host_make(c, n, k, &h, fail);
	for (int i = 0; i < c->n_copies && st == OK; i++)
		st = load_case_weight(c, &h, &c->copy[i].w[i_weight], fail);
	case_weight_deinit(&h);
	return st;
}

static int copies_for(const struct kernel_case *c, double bytes)
{
	if (c->o.is_null)
		return 1;
	double n = ceil((double)c->o.cold_bytes / bytes);
	return n < 2 ? 2 : n > MAX_COPIES ? MAX_COPIES : (int)n;
}

/* --- linear, router ------------------------------------------------------------ */

static enum status make_linear(struct kernel_case *c, struct fail *fail)
{
	const struct case_shape *s = &c->shape;
	size_t t = (size_t)c->o.n_tok;
	enum status st = OK;
	while (c->n_weights < LINEAR_MAX_OUT && s->n[c->n_weights]) {
		int32_t n = s->n[c->n_weights++];
		c->bytes += weight_cost(c, n, s->k);
		c->flops += 2.0 * n * s->k * (double)t;
	}
	c->n_copies = copies_for(c, c->bytes);
	for (int i = 0; i < c->n_weights && st == OK; i++) {
		st = make_copies(c, i, s->n[i], s->k, fail);
		if (st == OK)
			st = alloc_device(c, t * (size_t)s->n[i] * sizeof(float), &c->y[i]);
	}
	return st;
}

static enum status make_router(struct kernel_case *c, struct fail *fail)
{
	const struct case_shape *s = &c->shape;
	size_t t = (size_t)c->o.n_tok;
	c->bytes = weight_cost(c, s->experts, s->k);
	c->flops = 2.0 * s->experts * s->k * (double)t;
	c->n_copies = copies_for(c, c->bytes);
	enum status st = make_copies(c, 0, s->experts, s->k, fail);
	if (st == OK)
		st = alloc_device(c, t * (size_t)s->experts * sizeof(float), &c->logits);
	if (st == OK)
		st = alloc_device(c, t * (size_t)s->used * sizeof(int32_t), &c->id);
	if (st == OK)
		st = alloc_device(c, t * (size_t)s->used * sizeof(float), &c->expert_weight);
	return st;
}

/* --- experts ------------------------------------------------------------------- */

/* The expert that x, 0 to 1, falls to. */
static int32_t expert_at(const double *chance, int32_t n, double n_used, double x)
{
	int32_t e = 0;
	for (x = x * n_used - chance[0]; x >= 0 && e + 1 < n; e++)
		x -= chance[e + 1];
	return e;
}

/* Choose experts for the tokens as routers do (expert_routing.h), differently for each copy. Ids
 * are scattered, so that often used experts do not lie side by side. */
static enum status choose_experts(struct kernel_case *c)
{
	const struct case_shape *s = &c->shape;
	size_t n = (size_t)c->o.n_tok * (size_t)s->used;
	int32_t *host = xcalloc(n, sizeof *host);
	double *chance = xcalloc((size_t)s->experts, sizeof *chance);
	enum status st = OK;
	expert_routing_chances(s->experts, s->used, chance);
	for (int i = 0; i < c->n_copies && st == OK; i++) {
		for (size_t t = 0; t < n; t += (size_t)s->used)
			for (int32_t u = 0; u < s->used;) {
				uint64_t r = case_weight_bits(&c->random) >> 33;
				double x = (double)r / (1u << 31);
				int64_t place = expert_at(chance, s->experts, s->used, x);
				int32_t e = (int32_t)(place * PRIME % s->experts), v = 0;
				host[t + (size_t)u] = e;
				while (host[t + (size_t)v] != e)
					v++;
				u += v == u; /* skip the ids already chosen */
			}
		st = upload(c, host, n * sizeof *host, &c->copy[i].id);
	}
	free(chance);
	free(host);
	return st;
}

static enum status load_layer(struct kernel_case *c, struct fail *fail)
{
	const struct case_shape *s = &c->shape;
	int32_t e_count = s->experts;
	struct weight *w = c->expert_weights = xcalloc((size_t)e_count * 3, sizeof *w);
	enum status st = OK;
	for (int part = 0; part < 3 && st == OK; part++) {
		struct case_weight h;
		int32_t n = part < 2 ? s->f : s->k, k = part < 2 ? s->k : s->f;
		struct weight *first = &w[part * e_count];
		st = host_make(c, n, k, &h, fail);
		for (int32_t e = 0; e < e_count && st == OK; e++)
			if (c->o.is_null && e > 0) /* one address will do for all */
				first[e] = first[0];
			else
				st = load_case_weight(c, &h, &first[e], fail);
		case_weight_deinit(&h);
	}
	c->copy[0].experts = (struct experts){.n = e_count, .gate = w, .up = w + e_count,
					      .down = w + 2 * e_count};
	if (st == OK)
		st = c->b->ops->load_experts(c->b, &c->copy[0].experts, fail);
	for (int i = 1; i < c->n_copies; i++)
		c->copy[i].experts = c->copy[0].experts;
	return st;
}

static enum status make_experts(struct kernel_case *c, struct fail *fail)
{
	const struct case_shape *s = &c->shape;
	size_t t = (size_t)c->o.n_tok, pairs = t * (size_t)s->used;
	double one = 2 * weight_cost(c, s->f, s->k);
	double read;
	expert_routing_blocks((double)t, s->used, s->experts, 1, &read);
	one += weight_cost(c, s->k, s->f);
	c->bytes = one * read;
	c->flops = 6.0 * s->f * s->k * (double)pairs;
	c->n_copies = copies_for(c, c->bytes);
	enum status st = load_layer(c, fail);
	if (st == OK)
		st = choose_experts(c);
	if (st == OK)
		st = upload_floats(c, pairs, &c->expert_weight);
	if (st == OK)
		st = alloc_device(c, pairs * (size_t)s->f * 4, &c->h);
	if (st == OK)
		st = alloc_device(c, moe_experts_work(c->o.n_tok, s->used, s->experts) * 4,
			  &c->work);
	return st;
}

/* --- attention ----------------------------------------------------------------- */

static enum status make_ids(struct kernel_case *c, int32_t n_pages)
{
	size_t t = (size_t)c->o.n_tok;
	int32_t *ids = xcalloc(t + (size_t)n_pages + 2, sizeof *ids);
	enum status st = upload(c, ids, t * sizeof *ids, &c->seq_of);
	for (size_t i = 0; i < t; i++)
		ids[i] = c->o.depth - c->o.n_tok + (int32_t)i;
	if (st == OK)
		st = upload(c, ids, t * sizeof *ids, &c->position);
	for (int32_t i = 0; i < n_pages; i++)
		ids[i] = n_pages - 1 - i;
	if (st == OK)
		st = upload(c, ids, (size_t)n_pages * sizeof *ids, &c->page_table);
	ids[0] = 0;
	ids[1] = c->o.n_tok;
	if (st == OK)
		st = upload(c, ids, 2 * sizeof *ids, &c->first_tok);
	free(ids);
	return st;
}

static enum status make_attention(struct kernel_case *c)
{
	const struct case_shape *s = &c->shape;
	int32_t n_pages = DIV_UP(c->o.depth, PAGE);
	size_t row = (size_t)s->heads * (size_t)s->k * (size_t)c->o.n_tok;
	size_t n = (size_t)n_pages * PAGE * (size_t)s->kv_heads * (size_t)s->k;
	c->bytes = 4.0 * (double)c->o.depth * s->kv_heads * s->k;
	c->flops = 4.0 * (double)c->o.n_tok * s->heads * s->k *
		   (c->o.depth - (c->o.n_tok - 1) / 2.0);
	c->n_copies = MIN(copies_for(c, c->bytes), 16);
	enum status st = make_ids(c, n_pages);
	for (int i = 0; i < c->n_copies && st == OK; i++) {
		st = upload_halves(c, n, &c->copy[i].k_pages);
		if (st == OK)
			st = upload_halves(c, n, &c->copy[i].v_pages);
	}
	if (st == OK)
		st = upload_halves(c, row, &c->x);
	if (st == OK)
		st = alloc_device(c, row * 4, &c->y[0]);
	return st;
}

/* --- logits_top ---------------------------------------------------------------- */

/* Make normally distributed logits, as sums of random numbers: as in a real row, only few
 * stand out. */
static enum status upload_logits(struct kernel_case *c, size_t n)
{
	enum { SUMS = 12 };
	float *host = calloc(n, sizeof *host);
	if (!host)
		return E_NOMEM;
	for (size_t i = 0; i < n * SUMS && !c->o.is_null; i++)
		host[i / SUMS] += random_float(c) - 0.5f;
	enum status st = upload(c, host, n * sizeof *host, &c->logits);
	free(host);
	return st;
}

/* Only one copy, because in a real step the head has just written the logits. The result
 * goes to host memory, as in the engine. */
static enum status make_top(struct kernel_case *c)
{
	size_t t = (size_t)c->o.n_tok, n = t * (size_t)c->shape.n[0];
	void *p;
	c->n_copies = 1;
	c->bytes = sizeof(float) * (double)n;
	c->flops = 8.0 * (double)n; /* find the largest; two sums of exponentials */
	enum status st = upload_logits(c, n);
	if (st == OK)
		st = upload_floats(c, t, &c->inv_t);
	if (st == OK)
		st = c->b->ops->alloc_shared(c->b, t * sizeof *c->top, &p);
	if (st == OK)
		c->top = p;
	return st;
}

/* --- creation ------------------------------------------------------------------ */

static enum status make_case(struct kernel_case *c, struct fail *fail)
{
	size_t n = (size_t)c->o.n_tok * (size_t)c->shape.k;
	enum status st = OK;
	if (c->shape.op == CASE_ATTENTION)
		return make_attention(c);
	if (c->shape.op == CASE_TOP)
		return make_top(c);
	st = upload_halves(c, n, &c->x);
	if (st == OK)
		st = upload_floats(c, n, &c->stream);
	if (st == OK && (c->shape.op == CASE_FFN_UP || c->shape.op == CASE_NORM))
		st = upload_floats(c, (size_t)c->shape.k, &c->norm);
	if (st != OK)
		return st;
	switch (c->shape.op) {
	case CASE_LINEAR:
	case CASE_FFN_UP:
		return make_linear(c, fail);
	case CASE_ROUTER:
		return make_router(c, fail);
	case CASE_EXPERTS:
		return make_experts(c, fail);
	default:
		c->n_copies = 1;
		c->bytes = 6.0 * (double)n;
		c->flops = 4.0 * (double)n;
		return alloc_device(c, n * 4, &c->y[0]);
	}
}

enum status kernel_case_create(struct backend *b, const struct case_shape *s,
			       const struct case_opts *o, struct kernel_case **out,
			       struct fail *fail)
{
	struct kernel_case *c = xcalloc(1, sizeof *c);
	*c = (struct kernel_case){.b = b, .shape = *s, .o = *o, .random = 1};
	enum status st = make_case(c, fail);
	if (st == OK)
		st = b->ops->sync(b, fail);
	if (st != OK) {
		kernel_case_destroy(c);
		return fail_default(fail, st);
	}
	*out = c;
	return OK;
}

void kernel_case_destroy(struct kernel_case *c)
{
	for (size_t i = 0; i < c->n_blocks; i++)
		c->b->ops->free(c->b, c->blocks[i]);
	c->b->ops->free_shared(c->b, c->top);
	free(c->expert_weights);
	free(c);
}

/* --- queueing ------------------------------------------------------------------ */

/* The norm of the residual stream, written to y. */
static struct rms_norm_args norm_args(const struct kernel_case *c, void *y)
{
	return (struct rms_norm_args){.n_tok = c->o.n_tok, .dim = c->shape.k, .eps = 1e-6f,
				      .x = c->stream, .weight = c->norm, .y = y};
}

static enum status queue_linear(struct kernel_case *c, const struct case_copy *w)
{
	struct linear_args a = {.n_tok = c->o.n_tok, .x = c->x, .n_out = c->n_weights};
	struct rms_norm_args norm = norm_args(c, c->x);
	const struct activation silu = {.kind = ACT_SILU};
	if (c->shape.op == CASE_FFN_UP) { /* as mlp_run (engine) requests it */
		a.norm = &norm;
		a.act = &silu;
	}
	for (int i = 0; i < c->n_weights; i++)
		a.out[i] = (struct linear_out){
			.w = &w->w[i], .y = c->y[i], .adds = c->shape.adds,
			.is_f32 = c->shape.n[i] > 100000};
	return c->b->ops->linear(c->b, &a);
}

static enum status queue_experts(struct kernel_case *c, const struct case_copy *w)
{
	struct moe_experts_args a = {
		.n_tok = c->o.n_tok, .n_used = c->shape.used, .x = c->x, .id = w->id,
		.weight = c->expert_weight, .experts = &w->experts, .h = c->h,
		.work = c->work, .y = c->stream};
	return c->b->ops->moe_experts(c->b, &a);
}

static enum status queue_router(struct kernel_case *c, const struct case_copy *w)
{
	struct moe_router_args a = {
		.n_tok = c->o.n_tok, .n_used = c->shape.used, .norm_topk = true,
		.x = c->x, .router = &w->w[0], .logits = c->logits, .id = c->id,
		.weight = c->expert_weight, .scale = 1};
	return c->b->ops->moe_router(c->b, &a);
}

static enum status queue_attention(struct kernel_case *c, const struct case_copy *w)
{
	const struct case_shape *s = &c->shape;
	int32_t n_pages = DIV_UP(c->o.depth, PAGE);
	struct attention_args a = {
		.n_tok = c->o.n_tok, .n_seq = 1, .n_heads = s->heads,
		.n_kv_heads = s->kv_heads, .head_dim = s->k,
		.max_pages_per_seq = n_pages, .n_ctx_max = n_pages * PAGE,
		.scale = 1 / sqrtf((float)s->k), .q = c->x,
		.kv = {.k = w->k_pages, .v = w->v_pages, .type = c->b->kv_type,
		       .page_size = PAGE},
		.seq_of = c->seq_of, .position = c->position, .first_tok = c->first_tok,
		.page_table = c->page_table, .y = c->y[0]};
	return c->b->ops->attention(c->b, &a);
}

static enum status queue_top(struct kernel_case *c)
{
	struct logits_top_args a = {.n_rows = c->o.n_tok, .n_vocab = c->shape.n[0],
				    .logits = c->logits, .inv_t = c->inv_t,
				    .out = c->top};
	return c->b->ops->logits_top(c->b, &a);
}

enum status kernel_case_queue(struct kernel_case *c, int i)
{
	const struct case_copy *w = &c->copy[i % c->n_copies];
	switch (c->shape.op) {
	case CASE_LINEAR:
	case CASE_FFN_UP:
		return queue_linear(c, w);
	case CASE_EXPERTS:
		return queue_experts(c, w);
	case CASE_ROUTER:
		return queue_router(c, w);
	case CASE_ATTENTION:
		return queue_attention(c, w);
	case CASE_TOP:
		return queue_top(c);
	default:
		break;
	}
	struct rms_norm_args a = norm_args(c, c->y[0]);
	return c->b->ops->rms_norm(c->b, &a);
}

int kernel_case_copies(const struct kernel_case *c)
{
	return c->n_copies;
}

double kernel_case_bytes(const struct kernel_case *c)
{
	return c->bytes;
}

double kernel_case_flops(const struct kernel_case *c)
{
	return c->flops;
}
