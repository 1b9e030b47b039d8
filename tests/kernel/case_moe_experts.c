/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/cases.h"

/* plain rounds h to what goes from one operation to the next. */
static bool is_h_f16;

static float act_of(float h)
{
	return is_h_f16 ? (float)(_Float16)h : h;
}

#include "tests/kernel/plain_begin.h"
#define moe_experts_ref moe_experts_plain
#define MOE_ACT act_of
#include "kernels/ops/moe_experts_ref.c"
#undef moe_experts_ref
#include "tests/kernel/plain_end.h"

#define INT4(group, is_asym) {QUANT_INT4, group, is_asym, DTYPE_BF16, 0}
enum { ROWS_OF_TILES = 530 };
static const struct experts_case cases[] = {
	{INT4(32, false), 1, 256, 128, 16, 4, false, 0, false},
	{INT4(32, true), 3, 96, 32, 8, 8, false, 0, false},
	{INT4(32, false), 2, 128, 64, 8, 2, GELU, 0, false},
	{{.quant = QUANT_BF16}, 40, 50, 22, 7, 2, GELU, 0, false},
	{INT4(32, false), 3, 128, 64, 8, 2, RELU, 96, false},
	{{.quant = QUANT_BF16}, 40, 50, 22, 7, 2, RELU, 0, false},
	{INT4(64, false), 150, 64, 64, 2, 1, false, 0, false}, /* more than a tile each */
	{INT4(32, false), 300, 64, 32, 2, 1, false, 0, false}, /* of the largest tile, too */
	{{.quant = QUANT_BF16}, 11, 50, 22, 7, 2, false, 0, false},
	{{.quant = QUANT_F16}, 5, 33, 9, 64, 3, false, 0, false},
	{INT4(32, false), 9, 64, 32, 8, 2, true, 0, false},
	{{.quant = QUANT_BF16}, 70, 50, 22, 7, 2, true, 0, false},
	{INT4(32, false), 1, 64, 32, 8, 2, false, 32, true},
	{INT4(32, false), 70, 64, 32, 8, 2, false, 96, true},
	{INT4(32, true), 2, 1056, 768, 3, 2, false, 768, true},  /* a step and a rest */
	{INT4(32, false), 12, 128, 64, 8, 2, false, 64, true},   /* few, beyond eight */
	{INT4(32, true), 16, 128, 32, 8, 2, false, 0, false},
	{INT4(32, false), 17, 128, 32, 8, 2, false, 0, false},
	{INT4(128, false), 2, 512, 256, 4, 3, true, 256, false},
	{INT4(0, true), 1, 40, 72, 5, 5, false, 0, false},       /* one group a row */
	{INT4(0, true), 40, 96, 64, 3, 2, false, 0, false},
	{INT4(0, true), 2, 1152, 384, 5, 5, true, 0, false},
	{INT4(64, false), 8, 384, 1280, 9, 8, false, 1280, true}, /* more slots than waves */
	{{.quant = QUANT_BF16}, 41, 72, 40, 5, 2, false, 40, true},
	{{.quant = QUANT_F16}, 20, 64, 152, 9, 4, true, 0, false},
	{{.quant = QUANT_BF16}, 5, 50, 22, 7, 2, false, 30, false},
	/* formats apart, whole steps of their kernels and rests; blocks of rows */
	{{.quant = QUANT_BF16}, 2, 1040, 784, 6, 3, true, 784, true},
	/* several tiles each */
	{{.quant = QUANT_BF16}, 50, 600, ROWS_OF_TILES, 4, 2, true, 0, false},
	{{.quant = QUANT_F16}, 1, 512, 96, 6, 3, false, 48, true},
	{{QUANT_FP8, 128, false, DTYPE_F32, 0}, 2, 1536, 256, 3, 2, false, 256, true},
	{{QUANT_FP8, 0, false, DTYPE_BF16, 0}, 3, 272, 48, 3, 2, false, 0, false},
	{{QUANT_MXFP4, 32, false, DTYPE_F32, 0}, 1, 2880, 96, 3, 2, true, 0, false},
	{{QUANT_NVFP4, 16, false, DTYPE_F32, 0}, 4, 48, 80, 3, 2, false, 0, false},
	{{QUANT_INT8, 32, true, DTYPE_BF16, 0}, 2, 1056, 288, 3, 2, false, 288, true},
};

/* Long rows, and each activation: for the GPU alone. */
static const struct experts_case turns[] = {
	{INT4(32, false), 2, 2048, 128, 3, 2, false, 128, true},
	{INT4(32, false), 2, 128, 768, 4, 2, true, 0, false},
	{INT4(32, false), 1, 128, 768, 4, 2, GELU, 0, false},
	{INT4(32, false), 1, 128, 768, 4, 2, RELU, 768, false},
	{INT4(32, false), 1, 128, 768, 4, 2, CLIPPED, 768, false},
};

/* With adapters: a token and few, some that share experts, and tiles; biases, and a shared expert
 * that is a slot; rows of no whole fours. */
static const struct experts_case adapted[] = {
	{INT4(32, false), 1, 256, 128, 16, 4, false, 0, false},
	{INT4(32, true), 12, 128, 64, 8, 2, false, 64, true},
	{INT4(32, false), 150, 64, 64, 4, 2, false, 0, false},
	{{.quant = QUANT_BF16}, 11, 50, 22, 7, 2, false, 0, false},
	{{.quant = QUANT_BF16}, 70, 50, 22, 7, 2, true, 0, false},
	{{.quant = QUANT_BF16}, 40, 50, 22, 7, 2, RELU, 0, false},
	{{.quant = QUANT_Q4_K}, 5, 256, 256, 12, 9, false, 0, false},
};
static const int32_t adapted_ranks[] = {16, 19, 3, 9, 4, 2, 8};

struct input {
	struct experts ex;
	float *x, *weight, *y;
	int32_t *id;
	struct weight shared[4]; /* gate, up, down, router */
	struct moe_lora lora;    /* its part NULL: no adapters */
	struct lora_part *parts_on; /* (adapters, E, MOE_LORA_PARTS) the same on the device */
};

enum { ADAPTERS = 2 };

/* Of x. Weights of any bits are large: h is to be what f16 can say. */
static float scale_of(const struct experts_case *s)
{
	return s->kind.quant > QUANT_INT4 ? 1.f / 256 : 1;
}

/* Of n numbers, in a type of 16 bits or in float32, and a copy on the device. */
static const void *put_matrix(struct kernel_test *kt, size_t n, float scale, enum lora_type type,
			      const void **on)
{
	float *x = kernel_zeros(kt, n);
	uint16_t *h = arena_alloc(&kt->arena, n * sizeof *h);
	for (size_t i = 0; i < n; i++) {
		x[i] = scale * kernel_noise(kt);
		h[i] = blocks_to_f16(x[i]);
		if (type == LORA_BF16)
			memcpy(&h[i], (const char *)&x[i] + 2, sizeof h[i]);
	}
	*on = type == LORA_F32 ? (const void *)UPLOAD(kt, x, n) : UPLOAD(kt, h, n);
	return type == LORA_F32 ? (const void *)x : h;
}

/* Adapters of both types, whose experts differ in rank; some are left as they are. */
static void make_lora(struct kernel_test *kt, const struct experts_case *s, struct input *in)
{
	size_t n = (size_t)(ADAPTERS * s->e * MOE_LORA_PARTS), t = (size_t)s->t;
	struct lora_part *part = arena_alloc(&kt->arena, n * sizeof *part);
	struct lora_part *on = arena_alloc(&kt->arena, n * sizeof *on);
	int32_t *adapter = kernel_ints(kt, t);
	float *scale = kernel_zeros(kt, t);
	for (size_t i = 0; i < n; i++) {
		size_t e = i / MOE_LORA_PARTS, which = i % MOE_LORA_PARTS;
		bool is_down = which == MOE_LORA_DOWN;
		int32_t r = MAX(kt->lora - (int32_t)(e % 3) * 2, 1);
		size_t k = (size_t)(is_down ? s->f : s->d), rows = (size_t)(is_down ? s->d : s->f);
		bool is_left = (e + which) % 5 == 4;
		enum lora_type type = e < (size_t)s->e ? LORA_BF16 : which ? LORA_F16 : LORA_F32;
		part[i] = on[i] = (struct lora_part){.rank = is_left ? 0 : r, .scale = 0.5f,
						     .type = (int32_t)type};
		if (is_left)
			continue;
		/* x is small where weights are large (scale_of). */
		float size = is_down ? 1 : 1 / scale_of(s);
		part[i].a = put_matrix(kt, (size_t)r * k, size / sqrtf((float)k), type, &on[i].a);
		part[i].b = put_matrix(kt, (size_t)r * rows, 1 / sqrtf((float)r), type, &on[i].b);
	}
	for (size_t i = 0; i < t; i++) {
		/* Of many tokens several neighbours have the same. */
		adapter[i] = t == 1 ? 0 : (int32_t)((t > 32 ? i / 7 : i) % 3) - 1;
		scale[i] = 0.25f + (float)(i % 4);
	}
	in->parts_on = UPLOAD(kt, on, n);
	in->lora = (struct moe_lora){.part = part, .adapter = adapter, .scale = scale,
				     .rank = kt->lora};
}

static struct weight_kind other_of(const struct kernel_test *kt, const struct experts_case *s)
{
	return kt->other ? (struct weight_kind){.quant = kt->other, .group = 32} : s->kind;
}

static struct input make(struct kernel_test *kt, const struct experts_case *s)
{
	size_t t = (size_t)s->t, nu = t * (size_t)s->u;
	size_t size = (size_t)s->e * sizeof(struct weight);
	struct weight *w[3];
	for (int i = 0; i < 3; i++) {
		w[i] = arena_alloc(&kt->arena, size);
		for (int32_t e = 0; e < s->e; e++)
			w[i][e] = i < 2 ? kernel_weight(kt, i ? other_of(kt, s) : s->kind,
							s->f, s->d)
					: kernel_weight(kt, e % 2 ? other_of(kt, s) : s->kind,
							s->d, s->f);
	}
	struct input in = {.ex = {.n = s->e, .gate = w[0], .up = w[1], .down = w[2]},
			   .x = kernel_rows(kt, t, (size_t)s->d, scale_of(s)),
			   .y = kernel_rows(kt, 1, t * (size_t)s->d, 1),
			   .weight = kernel_zeros(kt, nu), .id = kernel_ints(kt, nu)};
	if (s->act == GELU)
		in.ex.act.kind = ACT_GELU_TANH;
	if (s->act == RELU) {
		in.ex.act.kind = ACT_RELU;
		in.ex.gate = in.ex.up; /* a layer without a gate */
	}
	if (s->act == CLIPPED)
		in.ex.act = (struct activation){.kind = ACT_CLIPPED, .limit = 7,
						.gate_limit = 5};
	if (s->act == CLAMPED) {
		size_t rows = (size_t)s->e;
		in.ex.act = (struct activation){
			.kind = ACT_CLAMPED, .alpha = 1.702f, .limit = 7};
		in.ex.gate_bias = kernel_rows(kt, rows, (size_t)s->f, 1);
		in.ex.up_bias = kernel_rows(kt, rows, (size_t)s->f, 1);
		in.ex.down_bias = kernel_rows(kt, rows, (size_t)s->d, 1);
	}
	if (s->shared) {
		struct weight_kind plain = {.quant = QUANT_BF16};
		in.shared[0] = kernel_weight(kt, s->kind, s->shared, s->d);
		in.shared[1] = kernel_weight(kt, other_of(kt, s), s->shared, s->d);
		in.shared[2] = kernel_weight(kt, s->kind, s->d, s->shared);
		in.shared[3] = kernel_weight(kt, s->shared_router == SAME_ROUTER ?
					     s->kind : plain, 1, s->d);
	}
	for (size_t i = 0; i < t; i++) {
		/* Different ids, most tokens at the first expert they can have. */
		uint32_t first = i % 3 ? 0 : kernel_random(kt) % (uint32_t)s->e;
		for (int32_t u = 0; u < s->u; u++) {
			in.id[i * (size_t)s->u + (size_t)u] =
				(int32_t)((first + (uint32_t)(s->u - 1 - u)) %
					  (uint32_t)s->e);
			in.weight[i * (size_t)s->u + (size_t)u] =
				(float)(kernel_random(kt) % 1000) / 1000;
		}
	}
	if (kt->lora)
		make_lora(kt, s, &in);
	return in;
}

/* Tokens [t0, t0 + n_tok) on the device. */
static const struct weight *shared_of(struct kernel_test *kt, const struct input *in,
				      int i)
{
	struct weight *w = arena_alloc(&kt->arena, sizeof *w);
	*w = kernel_upload_weight(kt, &in->shared[i]);
	return w;
}

static void upload_extras(struct kernel_test *kt, const struct experts_case *s,
			  const struct input *in, struct moe_experts_args *a,
			  struct experts *ex)
{
	size_t t = (size_t)a->n_tok, e = (size_t)s->e, f = (size_t)s->f;
	ex->act = in->ex.act;
	if (s->act == CLAMPED) {
		ex->gate_bias = UPLOAD(kt, in->ex.gate_bias, e * f);
		ex->up_bias = UPLOAD(kt, in->ex.up_bias, e * f);
		ex->down_bias = UPLOAD(kt, in->ex.down_bias, e * (size_t)s->d);
	}
	if (s->shared) {
		size_t n = t * 2 * (size_t)s->shared;
		ex->shared_gate = shared_of(kt, in, 0);
		ex->shared_up = shared_of(kt, in, 1);
		ex->shared_down = shared_of(kt, in, 2);
		a->shared_h = UPLOAD(kt, kernel_zeros(kt, n), n);
	}
	if (s->shared_router) {
		ex->shared_router = shared_of(kt, in, 3);
		a->shared_scale = UPLOAD(kt, kernel_zeros(kt, t), t);
	}
}

/* A product is added to tokens. They are normalised and routed, and then go to experts: by three
 * operations, by two, or by two of which the product knows what comes next. */
enum way { APART, ROUTED, KNOWN };
struct routing {
	enum way way;
	enum routing_rule rule;
	struct weight router;   /* (E, D), host */
	struct weight before;   /* (D, K), host */
	const float *x, *norm, *bias, *to_add;
};

/* Of some counts of experts: the router is f16, and it has the other arrays, too. */
static bool has_options(const struct experts_case *s)
{
	return s->e % 3 == 2;
}

static void run_routed(struct kernel_test *kt, const struct experts_case *s,
		       const struct routing *r, struct moe_experts_args *a)
{
	size_t t = (size_t)a->n_tok, d = (size_t)s->d, e = (size_t)s->e;
	struct weight rows = r->router;
	rows.keeps_rows = true;
	struct weight router = kernel_upload_weight(kt, &rows);
	struct rms_norm_args norm = {.n_tok = a->n_tok, .dim = s->d, .eps = 1e-6f,
				     .x = UPLOAD(kt, r->x, t * d),
				     .weight = UPLOAD(kt, r->norm, d),
				     .y = (void *)(uintptr_t)a->x};
	struct weight before = kernel_upload_weight(kt, &r->before);
	int32_t n_groups = s->e % 4 ? 1 : 4;
	struct moe_router_args route = {
		.n_tok = a->n_tok, .n_used = s->u, .norm_topk = true, .x = a->x,
		.router = &router, .logits = UPLOAD(kt, kernel_zeros(kt, t * e), t * e),
		.id = (int32_t *)(uintptr_t)a->id, .weight = (float *)(uintptr_t)a->weight,
		.is_sigmoid = r->rule == SIGMOID, .is_shifted = r->rule == SHIFTED,
		.n_groups = n_groups,
		.n_groups_used = (n_groups + 1) / 2,
		.scale = 2.5f, .bias = UPLOAD(kt, r->bias, e)};
	if (has_options(s))
		route.logit_bias = route.expert_scale = route.bias;
	route.norm = &norm;
	const struct linear_args add = {
		.n_tok = a->n_tok, .n_out = 1,
		.x = kernel_act_upload(kt, r->to_add, t * (size_t)before.k),
		.out = {{.w = &before, .y = (float *)(uintptr_t)norm.x, .adds = true}},
		.next = r->way == KNOWN ? &route : NULL};
	kernel_ran(kt, kt->b->ops->linear(kt->b, &add), "linear");
	a->router = &route;
	if (r->way == APART) {
		kernel_ran(kt, kt->b->ops->moe_router(kt->b, &route), "moe_router");
		a->router = NULL;
	}
	kernel_ran(kt, kt->b->ops->moe_experts(kt->b, a), "moe_experts, routed");
}

static float *on_device(struct kernel_test *kt, const struct experts_case *s,
			const struct input *in, int32_t t0, int32_t n_tok,
			const struct routing *routing)
{
	size_t t = (size_t)n_tok, nu = t * (size_t)s->u, d = (size_t)s->d;
	size_t at = (size_t)t0 * (size_t)s->u;
	struct weight *w[3];
	const struct weight *host[3] = {in->ex.gate, in->ex.up, in->ex.down};
	for (int i = 0; i < 3; i++) {
		w[i] = arena_alloc(&kt->arena, (size_t)s->e * sizeof *w[i]);
		for (int32_t e = 0; e < s->e; e++)
			w[i][e] = kernel_upload_weight(kt, &host[i][e]);
	}
	struct experts ex = {.n = s->e, .gate = w[0], .up = w[1], .down = w[2]};
	size_t n_work = moe_experts_work(n_tok, s->u, s->e), nh = nu * (size_t)s->f;
	struct moe_experts_args a = {
		.n_tok = n_tok, .n_used = s->u,
		.x = kernel_act_upload(kt, in->x + (size_t)t0 * d, t * d),
		.id = UPLOAD(kt, in->id + at, nu),
		.weight = UPLOAD(kt, in->weight + at, nu), .experts = &ex,
		.h = UPLOAD(kt, kernel_zeros(kt, nh), nh),
		.work = UPLOAD(kt, kernel_ints(kt, n_work), n_work),
		.y = UPLOAD(kt, in->y + (size_t)t0 * d, t * d)};
	upload_extras(kt, s, in, &a, &ex);
	size_t n_low = 2 * nu * (size_t)kt->lora, n_high = 2 * nh;
	struct moe_lora lora = {.part = in->parts_on, .rank = kt->lora};
	if (in->lora.part) {
		lora.adapter = UPLOAD(kt, in->lora.adapter + t0, t);
		lora.scale = UPLOAD(kt, in->lora.scale + t0, t);
		lora.low = UPLOAD(kt, kernel_zeros(kt, n_low), n_low);
		lora.high = UPLOAD(kt, kernel_zeros(kt, n_high), n_high);
		a.lora = &lora;
	}
	kernel_ran(kt, kt->b->ops->load_experts(kt->b, &ex, NULL), "load_experts");
	if (routing)
		run_routed(kt, s, routing, &a);
	else
		kernel_ran(kt, kt->b->ops->moe_experts(kt->b, &a), "moe_experts");
	return kernel_download(kt, a.y, t * d);
}

/* More columns than 512 are rounded to 8 bits, fewer to 14 (two of 8). */
static bool is_wide(const struct experts_case *s)
{
	return s->d > 512 || s->f > 512;
}

/* Inputs of 14 bits are wrong by 2^-14 of the largest of 32 at most; those of 8 bits by
 * 2^-8, which h has; x has been rounded for the reference. */
static void compare_rounded(struct kernel_test *kt, const float *got,
			    const float *ref, size_t n, double limit, const char *what)
{
	double error = kernel_mean_square(got, ref, 1, n);
	kernel_ok(error <= limit, "%s: %s: mean square error %.1e of %.0e", kt->name, what,
		  error, limit);
}

/* x as it is multiplied by wide experts that go the fast way: both their products are of a
 * kind that rounds. The limits of the clamped activation are steep beside numbers as large
 * as random codes of 8 bits give; past them what rounding x does is no fault of the loops. */
static const float *rounded(struct kernel_test *kt, const struct experts_case *s,
			    const struct input *in)
{
	const struct weight *down = &in->ex.down[0];
	const float *h = kernel_zeros(kt, (size_t)down->k);
	if (!is_wide(s) || kernel_linear_round(kt, down, h, 1) == h)
		return in->x;
	return kernel_linear_round(kt, &in->ex.gate[0], in->x, (size_t)s->t);
}

/* Tokens without an adapter have the bits that they have without any. */
static void compare_bare(struct kernel_test *kt, const struct experts_case *s, struct input *in,
			 const float *got, const char *what)
{
	size_t d = (size_t)s->d;
	const struct lora_part *part = in->lora.part;
	int wrong = 0;
	in->lora.part = NULL;
	const float *bare = on_device(kt, s, in, 0, s->t, NULL);
	in->lora.part = part;
	for (size_t t = 0; t < (size_t)s->t; t++)
		if (in->lora.adapter[t] < 0)
			kernel_same(kt, bare + t * d, got + t * d, d, &wrong);
	kernel_ok(wrong == 0, "%s: %s: tokens without an adapter have the bits of a layer without "
		  "any", kt->name, what);
}

/* a->y and plain, which hold what is added to. */
static void ask(struct kernel_test *kt, const char *what, struct moe_experts_args *a,
		float *plain, size_t n)
{
	uint64_t key = kernel_key(kt, what, a->x, n);
	float *ref = a->y;
	if (kernel_recall(key, ref, plain, n))
		return;
	moe_experts_ref(a);
	a->y = plain;
	moe_experts_plain(a);
	kernel_keep(key, ref, plain, n);
}

/* got, but ref where an output may be beyond 65504 MOE_OUT_PART and is large in got, too: some
 * scales of random bits are as large as halves can be. large_case says what tiles make of it. */
static const float *without_largest(struct kernel_test *kt, const float *got, const float *ref,
				    const float *y, size_t n)
{
	float *out = arena_alloc(&kt->arena, n * sizeof *out);
	for (size_t i = 0; i < n; i++) {
		float is = got[i] - y[i], wanted = ref[i] - y[i];
		bool is_large = is / wanted > 1.f / 32 && is / wanted < 2;
		out[i] = fabsf(wanted) > 0x1p16f && is_large ? ref[i] : got[i];
	}
	return out;
}

void kernel_experts_case(struct kernel_test *kt, const struct experts_case *s)
{
	if (!kernel_wants(s->kind.quant))
		return;
	struct input in = make(kt, s);
	size_t d = (size_t)s->d, n = (size_t)s->t * d;
	float *ref = kernel_zeros(kt, n), *plain = kernel_zeros(kt, n);
	kernel_act_round(kt, in.x, n, 10 * scale_of(s));
	struct moe_experts_args a = {.n_tok = s->t, .n_used = s->u,
				     .x = rounded(kt, s, &in), .id = in.id,
				     .weight = in.weight, .experts = &in.ex, .y = ref,
				     .lora = in.lora.part ? &in.lora : NULL};
	if (s->shared) {
		in.ex.shared_gate = &in.shared[0];
		in.ex.shared_up = &in.shared[1];
		in.ex.shared_down = &in.shared[2];
		in.ex.shared_router = s->shared_router ? &in.shared[3] : NULL;
	}
	memcpy(ref, in.y, n * sizeof *ref);
	memcpy(plain, in.y, n * sizeof *ref);
	is_h_f16 = kt->b->act_type == DTYPE_F16;
	static const char *const acts[] = {[0] = "", [CLAMPED] = " clamped", [GELU] = " gelu",
					   [RELU] = " relu", [CLIPPED] = " clipped"};
	char what[140];
	snprintf(what, sizeof what, "moe_experts T=%d D=%d F=%d E=%d U=%d%s S=%d%s R=%d %s", s->t,
		 s->d, s->f, s->e, s->u, acts[s->act], s->shared,
		 s->shared_router ? " routed" : "", kt->lora, kernel_kind_name(s->kind));
	ask(kt, what, &a, plain, n);
	float *got = on_device(kt, s, &in, 0, s->t, NULL);
	kt->n_cut = s->d + s->f; /* of gate and up, and of down */
	if (s->kind.quant == QUANT_BF16)
		kt->n_cut *= 2; /* tiles split each number in two */
	double limit = fmax(1e-11, 4 * kernel_mean_square(plain, ref, 1, n));
	if (is_h_f16) { /* a quarter more: tiles round the outputs of experts, too */
		limit = 1.25 * 0x1p-20;
		for (size_t i = 0; i < n; i++)
			kt->slack = fmax(kt->slack, 0x1p-11 * fabs((double)ref[i] - in.y[i]));
	}
	if (kt->is_fast)
		/* It rounds what it has between the products, too. Adapters make that uneven:
		 * numbers of a 32nd of the largest beside them are wrong by 2^-9. */
		compare_rounded(kt, got, ref, n,
				is_wide(s) ? 2e-4 : in.lora.part ? 0x1p-18 : 1e-7, what);
	else
		/* h in f16 is off by up to 2^-11 of itself, and sums may be far less. Floats
		 * alone are off by more than 1e-11 where numbers are large beside limits. */
		kernel_compare(kt, is_h_f16 ? without_largest(kt, got, ref, in.y, n) : got, ref,
			       plain, (size_t)s->t, d, limit, what);
	if (in.lora.part)
		compare_bare(kt, s, &in, got, what);
	kt->slack = 0;
	if (kt->is_once)
		return;
	int wrong = 0;
	for (int32_t t = 0; t < s->t; t += 1 + s->t / 4) {
		int32_t first, company = kernel_company(kt, t, s->t, &first);
		kernel_same(kt, on_device(kt, s, &in, first, company, NULL) +
					(size_t)(t - first) * d,
			    got + (size_t)t * d, d, &wrong);
	}
	kernel_ok(wrong == 0, "%s: %s: tokens alone have the same bits", kt->name, what);
}

void kernel_mixed_case(struct kernel_test *kt, const struct experts_case *s, enum quant other)
{
	kt->other = other;
	kernel_experts_case(kt, s);
	kt->other = 0;
}

void kernel_adapted_case(struct kernel_test *kt, const struct experts_case *s, int32_t rank)
{
	kt->lora = rank;
	kernel_experts_case(kt, s);
	kt->lora = 0;
}

/* Every third expert gets the router's row of the one before: their logits are equal. */
static void make_ties(const struct weight *router)
{
	size_t row = (size_t)router->k * 2;
	char *q = (char *)(uintptr_t)router->q;
	for (int32_t e = 1; e < router->n; e += 3)
		memcpy(q + (size_t)e * row, q + (size_t)(e - 1) * row, row);
}

/* Fewer operations have the bits of all, and the first token has its own alone. */
void kernel_routed_case(struct kernel_test *kt, const struct experts_case *s,
			enum routing_rule rule)
{
	if (!kernel_wants(s->kind.quant))
		return;
	struct input in = make(kt, s);
	size_t n = (size_t)s->t * (size_t)s->d;
	struct weight_kind plain = {.quant = has_options(s) ? QUANT_F16 : QUANT_BF16};
	struct routing r = {.rule = rule,
			    .router = kernel_weight(kt, plain, s->e, s->d),
			    .x = kernel_rows(kt, (size_t)s->t, (size_t)s->d, 1),
			    .norm = kernel_rows(kt, 1, (size_t)s->d, 1),
			    .bias = kernel_rows(kt, 1, (size_t)s->e, 0.05f)};
	int wrong = 0;
	int32_t block = quant_block(s->kind.quant);
	int32_t k = s->kind.quant == QUANT_INT4 ? 1152 : block > 64 ? 2 * block : 64;
	r.before = kernel_weight(kt, s->kind, s->d, k);
	r.to_add = kernel_rows(kt, (size_t)s->t, (size_t)k, 0.1f);
	make_ties(&r.router);
	float *apart = on_device(kt, s, &in, 0, s->t, &r);
	for (r.way = ROUTED; r.way <= KNOWN; r.way++)
		kernel_same(kt, on_device(kt, s, &in, 0, s->t, &r), apart, n, &wrong);
	/* Also: what a kernel has left must not disturb the next. */
	r.way = KNOWN;
	kernel_same(kt, on_device(kt, s, &in, 0, 1, &r), apart, (size_t)s->d, &wrong);
	kernel_ok(wrong == 0, "%s: moe_experts T=%d E=%d U=%d %s routed by %s: the bits of "
		  "one after the other", kt->name, s->t, s->e, s->u,
		  kernel_kind_name(s->kind), rule == SIGMOID ? "sigmoids"
		  : rule == SHIFTED ? "a softmax and a bias" : "a softmax");
}

/* A format after INT4 in the kernels' shapes: few tokens with biases, many with a shared
 * expert like the others, few with one of another width. */
static void packed_cases(struct kernel_test *kt, enum quant q)
{
	bool is_fp8 = q == QUANT_FP8;
	for (int i = 0; i < 3; i++) {
		if (!kernel_takes(kt))
			continue;
		struct weight_kind kind = {q, i == 2 ? 16 : 32, i == 1,
					   is_fp8 ? DTYPE_F32 : DTYPE_F16, 0};
		struct experts_case s = {kind, i == 1 ? 37 : 3, i == 1 ? 96 : 544,
					 i == 1 ? 64 : 288, 4, 2, i == 0,
					 i == 0 ? 0 : i == 1 ? 64 : 96, i == 1};
		if (quant_block(q) > 32) {
			s.d = i ? 256 : 1024;
			s.f = s.shared ? 256 : 512;
			s.shared = s.shared == 96 ? 512 : s.shared ? 256 : 0;
		}
		kernel_experts_case(kt, &s);
		kernel_test_reset(kt);
	}
}

/* Outputs of experts beyond f16's range, and so large that no half can say them. */
static void large_case(struct kernel_test *kt)
{
	const struct experts_case s = {INT4(32, false), 40, 64, 32, 4, 2, CLAMPED, 0, false};
	size_t n = (size_t)s.t * (size_t)s.d, n_bias = (size_t)s.e * (size_t)s.d;
	struct input in = make(kt, &s);
	float *ref = kernel_zeros(kt, n), *bias = (float *)(uintptr_t)in.ex.down_bias;
	double largest = 0, error = 0;
	int n_infinite = 0;
	kernel_act_round(kt, in.x, n, 10);
	for (size_t i = 0; i < n_bias; i++)
		bias[i] = (float)(kernel_random(kt) % 1000) * 1600 - 800000;
	moe_experts_ref(&(struct moe_experts_args){
		.n_tok = s.t, .n_used = s.u, .x = in.x, .id = in.id, .weight = in.weight,
		.experts = &in.ex, .y = ref});
	float *got = on_device(kt, &s, &in, 0, s.t, NULL);
	for (size_t i = 0; i < n; i++) {
		largest = fmax(largest, fabs((double)ref[i]));
		error = fmax(error, fabs((double)got[i] - in.y[i] - ref[i]));
	}
	kernel_ok(largest > 131072 && error <= largest * 0x1p-11,
		  "%s: moe_experts: outputs up to %.0f: largest error %.1e of it", kt->name,
		  largest, error / largest);
	for (size_t i = 0; i < n_bias; i++)
		bias[i] *= 1000;
	got = on_device(kt, &s, &in, 0, s.t, NULL);
	for (size_t i = 0; i < n; i++)
		n_infinite += !isfinite(got[i]);
	kernel_ok(n_infinite == 0, "%s: moe_experts: larger ones stay finite", kt->name);
}

void case_moe_experts(struct kernel_test *kt)
{
	static const struct experts_case routed[] = {
		{INT4(32, false), 1, 256, 128, 16, 4, false, 0, false},
		{INT4(32, true), 3, 128, 256, 300, 8, false, 0, false},
		{INT4(64, false), 2, 640, 128, 530, 9, false, 0, false},
		{{.quant = QUANT_BF16}, 11, 56, 24, 7, 2, false, 0, false},
		/* rows of no whole eights, and longer than a workgroup holds */
		{{.quant = QUANT_BF16}, 2, 50, 24, 7, 2, false, 0, false},
		{{.quant = QUANT_BF16}, 3, 4181, 9, 12, 3, false, 0, false},
		{{.quant = QUANT_BF16}, 1, 8448, 16, 6, 2, false, 0, false},
		{INT4(32, false), 2, 128, 128, 41, 8, false, 0, false},
		{INT4(32, false), 1, 128, 128, 128, 8, false, 0, false},
		{INT4(32, false), 3, 128, 128, 130, 8, false, 128, true},
		{INT4(32, false), 1, 2048, 128, 6, 2, false, 128, BF16_ROUTER},
		/* rows and blocks before the router: moe_route_rows.hip */
		{{.quant = QUANT_Q4_K}, 1, 256, 256, 16, 4, false, 0, false},
		{{.quant = QUANT_Q5_K}, 1, 512, 256, 130, 8, false, 0, false},
		{{.quant = QUANT_Q6_K}, 1, 768, 256, 41, 8, false, 0, false},
		{{.quant = QUANT_IQ4_XS}, 1, 256, 256, 9, 3, false, 0, false},
		{{QUANT_INT8, 32, false, DTYPE_F16, 0}, 1, 2080, 64, 12, 3, false, 0, false},
		{{QUANT_MXFP4, 32, false, DTYPE_F32, 0}, 1, 96, 64, 300, 8, false, 0, false},
		{{QUANT_NVFP4, 16, false, DTYPE_F32, 0}, 1, 64, 32, 17, 2, false, 0, false},
		{{QUANT_FP8, 32, false, DTYPE_F32, 0}, 1, 128, 64, 6, 2, false, 0, false},
		{{.quant = QUANT_BF16}, 1, 272, 24, 41, 8, false, 0, false},
	};
	static const struct experts_case shifted[] = {
		{INT4(32, true), 3, 128, 256, 300, 8, false, 0, false},
		{{.quant = QUANT_BF16}, 11, 56, 24, 7, 2, false, 0, false},
		{INT4(32, false), 2, 128, 128, 41, 8, false, 0, false},
		{INT4(32, false), 3, 128, 128, 130, 8, false, 128, true},
	};
	for (size_t i = 0; i < 2 * ARRAY_LEN(routed); i++) {
		if (!kernel_takes(kt))
			continue;
		kernel_routed_case(kt, &routed[i / 2], i % 2 ? SIGMOID : SOFTMAX);
		kernel_test_reset(kt);
	}
	for (size_t i = 0; i < ARRAY_LEN(shifted); i++) {
		if (!kernel_takes(kt))
			continue;
		kernel_routed_case(kt, &shifted[i], SHIFTED);
		kernel_test_reset(kt);
	}
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!kernel_takes(kt))
			continue;
		struct experts_case c = cases[i];
		/* Rows of no whole eights: the GPU has one kernel for any length, without tiles. */
		if (kt->is_partial && c.f == ROWS_OF_TILES) {
			c.d = 150;
			c.f = 134;
		}
		kernel_experts_case(kt, &c);
		kernel_test_reset(kt);
	}
	for (size_t i = 0; i < ARRAY_LEN(adapted); i++) {
		kernel_adapted_case(kt, &adapted[i], adapted_ranks[i]);
		kernel_test_reset(kt);
	}
	if (kernel_wants(QUANT_INT4))
		large_case(kt);
	kernel_test_reset(kt);
	/* As mixtures in GGUF have them: each format of blocks beside the one before it. */
	enum quant before = QUANT_Q4_0;
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		bool has_shared = q == QUANT_Q6_K;
		const struct experts_case mixed = {
			{.quant = before}, has_shared ? 9 : 2, 256, 256, 3, 2, false,
			has_shared ? 256 : 0, has_shared ? BF16_ROUTER : NO_ROUTER};
		if (quant_block(q) == 0 || q == before)
			continue;
		if (kernel_takes(kt))
			kernel_mixed_case(kt, &mixed, q);
		kernel_test_reset(kt);
		before = q;
	}
	for (size_t i = 0; kt->is_partial && i < ARRAY_LEN(turns); i++) {
		if (!kernel_takes(kt))
			continue;
		kernel_experts_case(kt, &turns[i]);
		kernel_test_reset(kt);
	}
	for (enum quant q = QUANT_INT4 + 1; q < QUANT_COUNT; q++) {
		struct experts_case s = {{q, 16, false, DTYPE_F16, 0}, 9, 64, 32, 4, 2,
				  false, 0, false};
		if (quant_block(q))
			s.d = s.f = quant_block(q);
		if (kernel_takes(kt))
			kernel_experts_case(kt, &s);
		kernel_test_reset(kt);
		packed_cases(kt, q);
	}
}
