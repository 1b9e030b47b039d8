/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/cases.h"

#include "kernels/ops/act_mul.h"
#include "tests/kernel/plain_begin.h"
#define linear_ref linear_plain
#include "kernels/ops/linear_ref.c"
#undef linear_ref
#include "tests/kernel/plain_end.h"

enum { MAX_OUT = MAX_LINEAR_OUT };

#define INT4(group, is_asym, scale) {QUANT_INT4, group, is_asym, scale, 0}
#define TURNS(group, is_asym, scale) {QUANT_INT4, group, is_asym, scale, KIND_TURNS}
#define FACTORS(group, scale) {QUANT_INT4, group, false, scale, KIND_FACTORS}
static const struct linear_case cases[] = {
	{INT4(32, false, DTYPE_BF16), 1, 256, {512, 128, 128}, false, false, false},
	{INT4(32, false, DTYPE_F16), 5, 256, {64, 7}, true, false, false},
	{INT4(32, true, DTYPE_F32), 3, 4096, {13}, false, true, false},
	{INT4(128, false, DTYPE_BF16), 67, 128, {9}, false, false, false},
	{INT4(64, true, DTYPE_BF16), 2, 1088, {6, 5}, true, true, false},
	{INT4(8, false, DTYPE_F16), 4, 72, {10}, false, false, false},
	{INT4(0, true, DTYPE_BF16), 130, 40, {5}, false, false, false},
	{{.quant = QUANT_BF16}, 1, 2048, {33}, false, false, false},
	{{.quant = QUANT_BF16}, 7, 1030, {11, 4, 3}, true, false, false},
	{{.quant = QUANT_BF16}, 14, 1538, {33, 16}, true, false, true},
	{{.quant = QUANT_BF16}, 5, 1031, {18}, false, true, false}, /* no whole pairs */
	{{.quant = QUANT_F16}, 6, 300, {14}, false, true, false},
	{{.quant = QUANT_F16}, 1, 7, {3}, false, false, false},
	{{.quant = QUANT_F32}, 65, 2050, {6}, true, true, false},
	{{.quant = QUANT_F32}, 3, 12288, {4}, false, false, false},
	{{QUANT_INT4, 32, false, DTYPE_F16, KIND_EXTREMES}, 5, 256, {18}, false, false, false},
	{{QUANT_INT4, 128, true, DTYPE_BF16, KIND_EXTREMES}, 1, 2048, {9}, false, false, false},
	/* more inputs than fit two tiles of the CPU, of one plane and of two */
	{INT4(32, true, DTYPE_BF16), 27, 1024, {35, 16}, true, true, false},
	{INT4(64, false, DTYPE_F16), 14, 512, {33}, false, false, false},
	{{.quant = QUANT_BF16}, 29, 1056, {37}, true, true, false},
	{{.quant = QUANT_BF16}, 110, 1046, {35, 16}, true, false, false},
	/* rests of K after whole strides, shapes of layers, one group a row */
	{INT4(32, true, DTYPE_F16), 5, 2080, {37, 1}, true, false, true},
	{INT4(32, false, DTYPE_BF16), 2, 768, {130, 64, 3}, false, true, false},
	{INT4(128, true, DTYPE_F16), 4, 12288, {5}, false, false, false},
	{INT4(0, false, DTYPE_F16), 3, 96, {21}, true, false, true},
	{INT4(32, false, DTYPE_F16), 1, 32, {9}, false, false, false},
	{{.quant = QUANT_BF16}, 3, 1024, {19}, true, false, true},
	{{.quant = QUANT_BF16, .more = KIND_EXTREMES}, 4, 512, {7}, false, false, false},
	{{.quant = QUANT_F16, .more = KIND_EXTREMES}, 4, 512, {7}, false, false, false},
	/* rows read in one run: steps, what is left of them, rows beyond the first */
	{{.quant = QUANT_F16}, 7, 1304, {67, 5}, true, true, false},
	{{.quant = QUANT_BF16}, 2, 2048, {130}, false, false, true},
	{{.quant = QUANT_INT8, .scale_type = DTYPE_F32}, 5, 2608, {67, 16}, false, false, false},
	{{.quant = QUANT_INT8, .scale_type = DTYPE_F16, .is_asymmetric = true}, 9, 512, {35},
	 true, false, true},
	{{QUANT_INT8, 128, false, DTYPE_BF16, 0}, 1, 1536, {70}, false, true, false},
	/* a scale a row, several rounds of workgroups */
	{{.quant = QUANT_INT8, .scale_type = DTYPE_F32}, 1, 256, {333, 16, 5}, true, false, false},
	{{.quant = QUANT_INT8, .scale_type = DTYPE_BF16}, 5, 512, {70}, false, true, false},
	{{.quant = QUANT_INT8, .scale_type = DTYPE_F16}, 10, 768, {50, 40}, true, false, true},
	{{QUANT_FP8, 128, false, DTYPE_F32, 0}, 3, 1536, {50}, false, false, false},
	{{QUANT_FP8, 48, false, DTYPE_F32, 0}, 3, 208, {45}, true, false, false},
	{{QUANT_NVFP4, 16, false, DTYPE_F32, 0}, 2, 3104, {50}, false, false, false},
	{{QUANT_MXFP4, 32, false, DTYPE_F32, 0}, 8, 1056, {50}, true, false, false},
	{{QUANT_MXFP4, 32, false, DTYPE_F32, 0}, 3, 32, {9}, false, false, false},
	{INT4(32, true, DTYPE_BF16), 8, 2080, {21, 9}, true, false, false},
	{INT4(32, false, DTYPE_F16), 7, 256, {50}, false, true, false},
	{INT4(128, false, DTYPE_F16), 6, 12288, {6}, false, false, true},
	/* beyond eight tokens, and K in slices with a rest */
	{INT4(32, true, DTYPE_F16), 9, 3104, {70, 9}, true, false, true},
	{INT4(32, false, DTYPE_BF16), 12, 1024, {67}, false, true, false},
	{INT4(128, false, DTYPE_F16), 16, 2304, {37}, false, false, true},
	{INT4(32, false, DTYPE_F16), 13, 256, {40}, true, false, false},
	{INT4(64, true, DTYPE_BF16), 3, 11328, {5}, false, false, false},
	{{QUANT_INT8, 128, true, DTYPE_F16, 0}, 16, 2304, {40}, true, false, true},
	{{.quant = QUANT_BF16}, 13, 1304, {35}, false, true, false},
	{{QUANT_NVFP4, 16, false, DTYPE_F32, 0}, 11, 3104, {34}, false, false, false},
	{{QUANT_FP8, 128, false, DTYPE_F32, 0}, 6, 4224, {18}, false, true, false},
	{{QUANT_FP8, 32, false, DTYPE_BF16, 0}, 2, 1056, {35}, false, false, false},
	/* many tokens: tiles, each with a rest of tokens, outputs and K; more groups of 32 than
	 * LDS has scales for */
	{INT4(32, false, DTYPE_BF16), 150, 160, {131, 64, 3}, true, false, false},
	{INT4(32, true, DTYPE_F16), 37, 672, {70, 33}, false, true, false},
	{INT4(64, true, DTYPE_F16), 19, 320, {65}, true, false, true},
	{INT4(128, false, DTYPE_BF16), 70, 256, {150}, false, false, true},
	{INT4(0, true, DTYPE_F16), 9, 96, {17}, false, true, false},
	{{QUANT_INT4, 32, false, DTYPE_BF16, KIND_EXTREMES}, 21, 768, {66}, false, false, false},
	{{.quant = QUANT_F16}, 140, 72, {131, 5}, true, false, true},
	/* K of a part of a tile: the first convolution of an audio tower */
	{{.quant = QUANT_F16}, 150, 16, {72}, true, false, true},
	{{.quant = QUANT_BF16}, 130, 104, {66, 9}, false, true, false},
	{{.quant = QUANT_BF16, .more = KIND_EXTREMES}, 12, 512, {7}, true, false, false},
	/* groups in another order: one token, some, and more than the inputs sorted at once */
	{TURNS(32, false, DTYPE_BF16), 1, 2080, {130, 64, 3}, true, false, true},
	{TURNS(64, true, DTYPE_F16), 3, 256, {37}, false, true, false},
	{TURNS(32, true, DTYPE_BF16), 35, 1056, {19, 9}, true, true, false},
	{TURNS(128, false, DTYPE_F16), 70, 256, {33}, false, false, true},
	/* factors of inputs: one token, a few and many */
	{FACTORS(32, DTYPE_BF16), 1, 2080, {130, 64, 3}, true, false, true},
	{FACTORS(128, DTYPE_F32), 3, 256, {37}, false, true, false},
	{FACTORS(8, DTYPE_F16), 5, 256, {64, 7}, true, false, false},
	{FACTORS(128, DTYPE_F16), 70, 256, {33}, false, false, true},
};

struct run {
	const struct linear_case *c;
	struct weight w[MAX_OUT];
	float *bias[MAX_OUT], *x, *before[MAX_OUT];
	int n_out;
};

static struct linear_args host_args(const struct run *r, float *const *y)
{
	struct linear_args a = {.n_tok = r->c->t, .x = r->x, .n_out = r->n_out};
	for (int i = 0; i < r->n_out; i++)
		a.out[i] = (struct linear_out){.w = &r->w[i], .y = y[i],
					       .is_f32 = !r->c->to_act,
					       .bias = r->bias[i], .adds = r->c->adds};
	return a;
}

/* Rows [t0, t0 + n_tok) on the device; out[i] is the host's copy. */
static void on_device(struct kernel_test *kt, const struct run *r, int t0, int n_tok,
		      float **out)
{
	size_t k = (size_t)r->c->k, t = (size_t)n_tok;
	bool to_act = r->c->to_act;
	struct weight w[MAX_OUT];
	struct linear_args a = {
		.n_tok = n_tok, .n_out = r->n_out,
		.x = kernel_act_upload(kt, r->x + (size_t)t0 * k, t * k)};
	for (int i = 0; i < r->n_out; i++) {
		size_t n = (size_t)r->w[i].n;
		const float *before = r->before[i] + (size_t)t0 * n;
		w[i] = kernel_upload_weight(kt, &r->w[i]);
		a.out[i] = (struct linear_out){
			.w = &w[i], .is_f32 = !to_act, .adds = r->c->adds,
			.bias = r->bias[i] ? UPLOAD(kt, r->bias[i], n) : NULL,
			.y = to_act ? kernel_act_upload(kt, before, t * n)
				    : UPLOAD(kt, before, t * n)};
	}
	kernel_ran(kt, kt->b->ops->linear(kt->b, &a), "linear");
	for (int i = 0; i < r->n_out; i++)
		out[i] = (to_act ? kernel_act_download : kernel_download)(
			kt, a.out[i].y, t * (size_t)r->w[i].n);
}

/* What r's outputs are to be. */
static void ask(struct kernel_test *kt, const struct run *r, float *const *ref,
		float *const *plain)
{
	const struct linear_case *c = r->c;
	struct linear_args a = host_args(r, ref), p = host_args(r, plain);
	a.x = p.x = kernel_linear_round(kt, &r->w[0], r->x, (size_t)c->t);
	uint64_t keys[MAX_OUT];
	bool is_known = true;
	for (int i = 0; i < r->n_out; i++) {
		char what[160];
		snprintf(what, sizeof what, "linear %d %d %d of %d, %d %d, %d %d %s", i, c->t,
			 c->k, r->n_out, c->n[i], c->has_bias, c->adds, c->to_act,
			 kernel_kind_name(c->kind));
		keys[i] = kernel_key(kt, what, a.x, (size_t)c->t * (size_t)c->k);
		is_known &= kernel_recall(keys[i], ref[i], plain[i],
					  (size_t)c->t * (size_t)c->n[i]);
	}
	if (is_known)
		return;
	for (int i = 0; i < r->n_out; i++) {
		size_t n_bytes = (size_t)c->t * (size_t)c->n[i] * sizeof(float);
		memcpy(ref[i], r->before[i], n_bytes);
		memcpy(plain[i], r->before[i], n_bytes);
	}
	linear_ref(&a);
	linear_plain(&p);
	for (int i = 0; i < r->n_out; i++)
		kernel_keep(keys[i], ref[i], plain[i], (size_t)c->t * (size_t)c->n[i]);
}

void kernel_linear_case(struct kernel_test *kt, const struct linear_case *c)
{
	if (!kernel_wants(c->kind.quant))
		return;
	size_t t = (size_t)c->t;
	struct run r = {.c = c, .x = kernel_rows(kt, t, (size_t)c->k, 1)};
	/* So that results are halves. Weights of random bits in blocks of 256 are large. */
	float most = quant_block(c->kind.quant) == 256 ? 20 : 200;
	kernel_act_round(kt, r.x, t * (size_t)c->k, c->to_act ? most : 6e4f);
	float *ref[MAX_OUT] = {NULL}, *plain[MAX_OUT] = {NULL}, *got[MAX_OUT];
	for (; r.n_out < MAX_OUT && c->n[r.n_out]; r.n_out++) {
		int i = r.n_out;
		size_t n = (size_t)c->n[i];
		r.w[i] = kernel_weight(kt, c->kind, c->n[i], c->k);
		r.bias[i] = c->has_bias ? kernel_rows(kt, 1, n, 1) : NULL;
		r.before[i] = kernel_rows(kt, 1, t * n, 1);
		ref[i] = kernel_zeros(kt, t * n);
		plain[i] = kernel_zeros(kt, t * n);
	}
	ask(kt, &r, ref, plain);
	/* Tiles split each number in two for weights in bf16. */
	kt->n_cut = c->kind.quant == QUANT_BF16 ? 2 * c->k : c->k;
	on_device(kt, &r, 0, c->t, got);
	/* Matrix units may round a sum towards zero, and more often. */
	bool in_tiles = kt->tile_from && c->t >= kt->tile_from;
	double limit = in_tiles ? 1e-10 : 1e-11;
	if (c->kind.quant == QUANT_BF16 && kt->has_bf16_pairs && c->k % 2 == 0)
		kt->slack = 0x1p-20; /* 128 pairs in one chain: an outlier may come first */
	char what[160];
	for (int i = 0; i < r.n_out; i++) {
		snprintf(what, sizeof what, "linear T=%d K=%d N=%d %s", c->t, c->k,
			 c->n[i], kernel_kind_name(c->kind));
		if (c->to_act)
			kernel_act_compare(kt, got[i], ref[i], plain[i], t,
					   (size_t)c->n[i], limit, what);
		else
			kernel_compare(kt, got[i], ref[i], plain[i], t, (size_t)c->n[i],
				       limit, what);
	}
	kt->slack = 0;
	if (kt->is_once)
		return;
	int wrong = 0;
	for (int row = 0; row < c->t; row += 1 + c->t / 4) {
		float *alone[MAX_OUT];
		int32_t first, n = kernel_company(kt, row, c->t, &first);
		on_device(kt, &r, first, n, alone);
		for (int i = 0; i < r.n_out; i++)
			kernel_same(kt, alone[i] + (row - first) * c->n[i],
				    got[i] + row * c->n[i],
				    (size_t)c->n[i], &wrong);
	}
	kernel_ok(wrong == 0, "%s: %s: rows alone have the same bits", kt->name, what);
}

/* Every format after INT4, in three variants each: see kernel_weight. The last one has
 * more inputs than fit two tiles of the CPU, and more columns than it unpacks at once. */
static void packed_cases(struct kernel_test *kt)
{
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		if (q <= QUANT_INT4)
			continue;
		static const int32_t tokens[] = {3, 65, 27}, k[] = {2080, 96, 1312};
		static const int32_t k_blocks[] = {2048, 256, 1280}; /* whole ones */
		static const int32_t fp8_group[] = {48, 32, 0};
		for (int i = 0; i < 3; i++) {
			if (!kernel_takes(kt))
				continue;
			struct linear_case c = {
				{q, q == QUANT_FP8 ? fp8_group[i] : 32, i == 1,
				 DTYPE_F16, i > 0 ? KIND_EXTREMES : 0},
				tokens[i], quant_block(q) ? k_blocks[i] : k[i],
				{40, 8}, false, i, false};
			if (q == QUANT_GPTQ4 || q == QUANT_GPTQ8 || q == QUANT_INT8)
				c.kind.more |= i == 2 ? KIND_BACK : i == 1 ? KIND_TURNS : 0;
			kernel_linear_case(kt, &c);
			kernel_test_reset(kt);
		}
	}
}

/* --- with a norm before and an activation behind --------------------------------------- */

static const struct activation silu = {.kind = ACT_SILU}, gelu = {.kind = ACT_GELU_TANH};

static const struct fused_case fused[] = {
	{INT4(32, false, DTYPE_BF16), 1, 2048, {130, 64, 3}, false, NULL},
	{INT4(32, false, DTYPE_F16), 2, 256, {70}, true, NULL},
	{INT4(64, true, DTYPE_BF16), 5, 1152, {37, 16}, true, NULL},
	{INT4(0, false, DTYPE_F16), 1, 384, {21, 9}, false, NULL},
	{INT4(32, true, DTYPE_BF16), 1, 4224, {45, 45}, false, &silu},
	{INT4(128, false, DTYPE_F16), 2, 256, {67, 67}, true, &silu},
	{INT4(32, false, DTYPE_BF16), 1, 1024, {37, 37}, true, &silu},
	{INT4(32, false, DTYPE_F16), 8, 640, {40, 40}, false, &silu},
	{INT4(8, false, DTYPE_F16), 3, 72, {10, 10}, false, &silu},
	{{.quant = QUANT_BF16}, 3, 1024, {19, 19}, false, &silu},
	{INT4(32, true, DTYPE_BF16), 40, 224, {45, 45}, true, &silu},
	{{.quant = QUANT_BF16}, 40, 72, {24, 24}, false, &silu},
	{INT4(32, false, DTYPE_BF16), 1, 1024, {37, 37}, true, &gelu},
	{{.quant = QUANT_BF16}, 3, 512, {40, 40}, false, &gelu},
	/* rows and blocks with a norm: K within a wave's step and beyond it, and beyond what the
	 * threads of a workgroup hold in registers */
	{{.quant = QUANT_BF16}, 1, 40, {19}, false, NULL},
	{{.quant = QUANT_F16}, 2, 16, {9}, false, NULL},
	{{QUANT_INT8, 32, false, DTYPE_F16, 0}, 1, 2080, {130, 64, 3}, true, NULL},
	{{QUANT_FP8, 128, false, DTYPE_F32, 0}, 2, 4224, {18}, false, NULL},
	{{QUANT_NVFP4, 16, false, DTYPE_F32, 0}, 2, 3104, {50}, false, NULL},
	{{QUANT_MXFP4, 32, false, DTYPE_F32, 0}, 1, 1056, {37, 37}, true, &silu},
	{{.quant = QUANT_Q4_K}, 1, 2048, {130, 64, 3}, false, NULL},
	{{.quant = QUANT_Q4_K}, 2, 4352, {37, 37}, true, &silu},
	{{.quant = QUANT_Q5_K}, 2, 512, {21}, true, NULL},
	{{.quant = QUANT_Q6_K}, 1, 8448, {70}, false, NULL},
	{{.quant = QUANT_IQ4_XS}, 1, 256, {9, 33}, true, NULL},
	{{.quant = QUANT_IQ3_XXS}, 2, 768, {40}, false, NULL},
	{{.quant = QUANT_Q5_1}, 1, 96, {17}, false, NULL},
	{{.quant = QUANT_Q6_K}, 3, 512, {17}, false, NULL},
	{TURNS(32, false, DTYPE_F16), 1, 512, {40, 40}, false, &silu},
	{TURNS(32, true, DTYPE_BF16), 37, 256, {40, 40}, true, &silu},
};

/* A device copy of what the case begins with. */
struct fused_run {
	struct linear_args a;
	struct rms_norm_args norm;
	struct weight w[MAX_OUT];
};

static void fused_begin(struct kernel_test *kt, const struct fused_case *c,
			const struct weight *w, float *const *data, struct fused_run *r)
{
	size_t t = (size_t)c->t, k = (size_t)c->k;
	*r = (struct fused_run){
		.norm = {.n_tok = c->t, .dim = c->k, .eps = 1e-6f,
			 .x = UPLOAD(kt, data[0], t * k), .weight = UPLOAD(kt, data[1], k),
			 .y = kernel_act_upload(kt, kernel_zeros(kt, t * k), t * k)},
		.a = {.n_tok = c->t, .act = c->act}};
	r->a.x = r->norm.y;
	for (int i = 0; i < MAX_OUT && c->n[i]; i++) {
		size_t n = (size_t)c->n[i];
		r->w[i] = kernel_upload_weight(kt, &w[i]);
		r->a.out[r->a.n_out++] = (struct linear_out){
			.w = &r->w[i], .bias = c->has_bias ? UPLOAD(kt, data[2], n) : NULL,
			.y = kernel_act_upload(kt, kernel_zeros(kt, t * n), t * n)};
	}
}

/* act(gate) up of what the products have left, as an operation of its own. */
static void fused_act(struct kernel_test *kt, const struct linear_args *a,
		      const struct activation *act)
{
	void *y = a->out[0].y;
	struct act_mul_args mul = {.n_tok = a->n_tok, .dim = a->out[0].w->n, .act = *act,
				   .gate = y, .up = a->out[1].y, .y = y};
	kernel_ran(kt, kt->b->ops->act_mul(kt->b, &mul), "act_mul");
}

/* Counts where one and apart, which may be without act, differ in what comes out of one. */
static void fused_same(struct kernel_test *kt, const struct linear_args *one,
		       const struct linear_args *apart, int *wrong)
{
	for (int i = 0; i < (one->act ? 1 : one->n_out); i++) {
		size_t n = (size_t)one->n_tok * (size_t)one->out[i].w->n;
		kernel_same(kt, kernel_act_download(kt, one->out[i].y, n),
			    kernel_act_download(kt, apart->out[i].y, n), n, wrong);
	}
}

/* One operation has the bits of the three, and writes what rms_norm writes. */
void kernel_fused_case(struct kernel_test *kt, const struct fused_case *c)
{
	size_t t = (size_t)c->t, k = (size_t)c->k;
	struct weight w[MAX_OUT];
	float *data[] = {kernel_rows(kt, t, k, 1), kernel_rows(kt, 1, k, 1),
			 kernel_rows(kt, 1, 256, 1)};
	for (int i = 0; i < MAX_OUT && c->n[i]; i++)
		w[i] = kernel_weight(kt, c->kind, c->n[i], c->k);
	struct fused_run one, apart;
	fused_begin(kt, c, w, data, &one);
	fused_begin(kt, c, w, data, &apart);
	one.a.norm = &one.norm;
	apart.a.act = NULL;
	kernel_ran(kt, kt->b->ops->linear(kt->b, &one.a), "linear with a norm");
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &apart.norm), "rms_norm");
	kernel_ran(kt, kt->b->ops->linear(kt->b, &apart.a), "linear");
	if (c->act)
		fused_act(kt, &apart.a, c->act);
	int wrong = 0;
	kernel_same(kt, kernel_act_download(kt, one.norm.y, t * k),
		    kernel_act_download(kt, apart.norm.y, t * k), t * k, &wrong);
	fused_same(kt, &one.a, &apart.a, &wrong);
	kernel_ok(wrong == 0, "%s: linear T=%d K=%d %s with a norm%s: the bits of one after "
		  "the other", kt->name, c->t, c->k, kernel_kind_name(c->kind),
		  !c->act ? "" : c->act->kind == ACT_SILU ? " and silu" : " and gelu");
}

/* --- weights of several formats ------------------------------------------------------ */

struct mixed_case {
	struct weight_kind kind[MAX_OUT];
	int32_t t, k, n[MAX_OUT];
	int first[MAX_OUT + 1]; /* parts [first[i], first[i + 1]) are alike */
	bool has_norm;
	const struct activation *act;
};

static const struct mixed_case mixed[] = {
	{{INT4(32, false, DTYPE_BF16), INT4(32, false, DTYPE_BF16), {.quant = QUANT_BF16}},
	 1, 2048, {130, 64, 4}, {0, 2, 3}, true, NULL},
	{{INT4(128, true, DTYPE_F16), {.quant = QUANT_BF16}, {.quant = QUANT_BF16}},
	 5, 512, {37, 8, 8}, {0, 1, 3}, true, NULL},
	{{INT4(32, false, DTYPE_BF16), {.quant = QUANT_BF16}, {.quant = QUANT_BF16}},
	 37, 256, {66, 4, 4}, {0, 1, 3}, false, NULL},
	{{INT4(32, false, DTYPE_F16), INT4(64, false, DTYPE_F16), INT4(64, true, DTYPE_F16)},
	 2, 512, {35, 18, 9}, {0, 1, 2, 3}, false, NULL},
	{{{QUANT_FP8, 128, false, DTYPE_F32, 0}, {.quant = QUANT_F16}},
	 3, 512, {40, 40}, {0, 1, 2}, true, &silu},
	/* pairs of blocks that have a kernel for one token and two, and one that has none */
	{{{.quant = QUANT_Q4_K}, {.quant = QUANT_Q4_K}, {.quant = QUANT_Q6_K}},
	 1, 2048, {130, 64, 33}, {0, 2, 3}, true, NULL},
	{{{.quant = QUANT_Q6_K}, {.quant = QUANT_Q4_K}},
	 2, 512, {35, 40}, {0, 1, 2}, false, NULL},
	{{{.quant = QUANT_Q4_K}, {.quant = QUANT_Q5_K}},
	 1, 256, {40, 40}, {0, 1, 2}, true, &silu},
	{{{.quant = QUANT_Q5_K}, {.quant = QUANT_Q6_K}},
	 2, 768, {9, 33}, {0, 1, 2}, true, NULL},
	{{{.quant = QUANT_IQ4_XS}, {.quant = QUANT_IQ4_XS}, {.quant = QUANT_Q5_K}},
	 1, 512, {64, 16, 17}, {0, 2, 3}, false, NULL},
	{{{.quant = QUANT_Q4_K}, {.quant = QUANT_Q6_K}},
	 3, 512, {40, 20}, {0, 1, 2}, true, NULL},
	{{{.quant = QUANT_Q4_K}, {.quant = QUANT_Q6_K}},
	 37, 256, {40, 20}, {0, 1, 2}, false, NULL},
	{{{.quant = QUANT_Q5_K}, {.quant = QUANT_Q4_K}, {.quant = QUANT_BF16},
	  {.quant = QUANT_BF16}},
	 1, 512, {40, 20, 4, 4}, {0, 1, 2, 4}, true, NULL},
	{{{.quant = QUANT_Q4_K}, {.quant = QUANT_Q5_K}, {.quant = QUANT_Q6_K}},
	 2, 512, {40, 20, 24}, {0, 1, 2, 3}, true, NULL},
	{{{.quant = QUANT_Q3_K}, {.quant = QUANT_Q4_K}},
	 1, 256, {40, 20}, {0, 1, 2}, true, NULL},
	/* two orders of the same inputs, and none */
	{{TURNS(32, false, DTYPE_F16), {QUANT_INT4, 32, false, DTYPE_F16, KIND_BACK},
	  INT4(32, false, DTYPE_F16)}, 1, 512, {40, 40, 9}, {0, 1, 2, 3}, true, NULL},
	{{INT4(32, false, DTYPE_F16), TURNS(32, false, DTYPE_F16)},
	 37, 256, {40, 40}, {0, 1, 2}, true, &silu},
	/* factors, and none */
	{{INT4(32, false, DTYPE_F16), FACTORS(32, DTYPE_F16)},
	 1, 512, {40, 40}, {0, 1, 2}, true, NULL},
};

/* Parts [from, to) of one in an operation of their own. */
static void mixed_apart(struct kernel_test *kt, const struct fused_run *all, int from, int to)
{
	struct linear_args a = all->a;
	a.norm = NULL;
	a.act = NULL;
	a.n_out = to - from;
	memmove(a.out, a.out + from, (size_t)a.n_out * sizeof *a.out);
	kernel_ran(kt, kt->b->ops->linear(kt->b, &a), "linear of a format");
}

/* Each format's parts have the bits that they have by themselves. */
static void mixed_case(struct kernel_test *kt, const struct mixed_case *c)
{
	struct fused_case f = {.t = c->t, .k = c->k, .act = c->act};
	size_t t = (size_t)c->t, k = (size_t)c->k;
	float *data[] = {kernel_rows(kt, t, k, 1), kernel_rows(kt, 1, k, 1)};
	struct weight w[MAX_OUT];
	for (int i = 0; i < MAX_OUT && c->n[i]; i++) {
		f.n[i] = c->n[i];
		w[i] = kernel_weight(kt, c->kind[i], c->n[i], c->k);
	}
	struct fused_run one, apart;
	fused_begin(kt, &f, w, data, &one);
	fused_begin(kt, &f, w, data, &apart);
	if (c->has_norm)
		one.a.norm = &one.norm;
	else
		kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &one.norm), "rms_norm");
	kernel_ran(kt, kt->b->ops->linear(kt->b, &one.a), "linear of several formats");
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &apart.norm), "rms_norm");
	for (int i = 0; c->first[i] < apart.a.n_out; i++)
		mixed_apart(kt, &apart, c->first[i], c->first[i + 1]);
	if (c->act)
		fused_act(kt, &apart.a, c->act);
	int wrong = 0;
	fused_same(kt, &one.a, &apart.a, &wrong);
	kernel_ok(wrong == 0, "%s: linear T=%d K=%d of %s beside %s: each as by itself",
		  kt->name, c->t, c->k, kernel_kind_name(c->kind[0]),
		  quant_name(c->kind[one.a.n_out - 1].quant));
}

void case_linear(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(mixed); i++) {
		if (!kernel_takes(kt))
			continue;
		mixed_case(kt, &mixed[i]);
		kernel_test_reset(kt);
	}
	if (!kt->is_variant)
		packed_cases(kt);
	for (size_t i = 0; i < ARRAY_LEN(fused); i++) {
		if (!kernel_takes(kt))
			continue;
		kernel_fused_case(kt, &fused[i]);
		kernel_test_reset(kt);
	}
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!kernel_takes(kt))
			continue;
		kernel_linear_case(kt, &cases[i]);
		kernel_test_reset(kt);
	}
}
