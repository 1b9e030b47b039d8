/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

struct shape {
	int32_t t, d, e, u;
	bool norm_topk;
	int32_t groups, groups_used; /* sigmoid; 0: softmax */
	bool has_logit_bias;
	enum quant quant; /* of the router */
	bool has_scale;   /* expert_scale */
	bool is_shifted;
	int way;          /* with groups */
};
enum { BIASED, UNBIASED, ROOT, FIXED };

static const struct shape cases[] = {
	{1, 256, 16, 4, true, 0, 0, false, QUANT_F32, false, false, BIASED},
	{7, 130, 128, 8, true, 0, 0, false, QUANT_F32, false, false, BIASED},
	{5, 64, 5, 5, false, 0, 0, false, QUANT_F32, false, false, BIASED},
	{70, 96, 64, 1, false, 0, 0, false, QUANT_F32, false, false, BIASED},
	{3, 32, 512, 10, true, 0, 0, false, QUANT_F32, false, false, BIASED},
	{9, 64, 128, 8, true, 1, 1, false, QUANT_F32, true, false, BIASED},
	{33, 96, 256, 8, true, 8, 4, false, QUANT_F32, false, false, BIASED},
	{5, 64, 12, 2, false, 3, 1, false, QUANT_F32, false, false, BIASED},
	{4, 32, 6, 6, true, 6, 6, false, QUANT_F32, false, false, BIASED},
	{9, 128, 32, 4, true, 0, 0, true, QUANT_F32, false, false, BIASED},
	/* rows long enough to be read in one go */
	{3, 2048, 20, 4, true, 0, 0, false, QUANT_BF16, true, false, BIASED},
	{2, 4096, 9, 2, false, 0, 0, false, QUANT_F16, false, false, BIASED},
	{2, 1536, 10, 3, true, 0, 0, true, QUANT_F32, false, false, BIASED},
	/* many tokens: in tiles, with ends of tokens, experts and K */
	{16, 2048, 16, 4, true, 0, 0, false, QUANT_BF16, false, false, BIASED},
	{19, 2176, 21, 4, true, 0, 0, true, QUANT_F16, true, false, BIASED},
	{18, 136, 140, 8, false, 7, 3, false, QUANT_BF16, false, false, BIASED},
	{17, 2184, 19, 4, true, 0, 0, true, QUANT_F32, false, false, BIASED},
	{18, 136, 140, 8, false, 7, 3, false, QUANT_F32, true, false, BIASED},
	{19, 132, 21, 4, false, 0, 0, false, QUANT_F32, false, true, BIASED},
	{40, 264, 512, 10, true, 0, 0, false, QUANT_BF16, false, false, BIASED},
	{21, 64, 5, 5, true, 0, 0, false, QUANT_F16, false, false, BIASED},
	{9, 64, 64, 6, true, 0, 0, false, QUANT_F32, false, true, BIASED},
	{3, 96, 300, 8, true, 0, 0, false, QUANT_F32, false, true, BIASED},
	{19, 136, 21, 4, false, 0, 0, false, QUANT_BF16, true, true, BIASED},
	/* each rule in float16, too */
	{2, 1536, 24, 4, true, 4, 2, false, QUANT_F16, false, false, BIASED},
	{3, 512, 300, 8, false, 0, 0, true, QUANT_F16, true, true, BIASED},
	{18, 136, 24, 3, false, 4, 2, false, QUANT_F16, false, false, BIASED},
	/* chosen by logits */
	{9, 64, 16, 1, false, 1, 1, false, QUANT_F32, false, false, UNBIASED},
	{18, 136, 140, 2, true, 1, 1, false, QUANT_BF16, false, false, UNBIASED},
	/* by the root of softplus, and by a table */
	{9, 64, 16, 3, true, 1, 1, false, QUANT_F32, false, false, ROOT},
	{18, 136, 140, 6, true, 1, 1, false, QUANT_BF16, false, false, ROOT},
	{9, 64, 16, 3, true, 1, 1, false, QUANT_F32, false, false, FIXED},
	{18, 136, 140, 6, true, 1, 1, false, QUANT_BF16, false, false, FIXED},
};

/* The last token has the logits that it has in the batch, bit for bit: alone, or with as many
 * others as make a prompt of at least 17, if the batch is one. logits: those of the batch. */
static void test_alone(struct kernel_test *kt, const struct moe_router_args *batch,
		       const float *x)
{
	enum { PROMPT = 17 };
	size_t n = batch->n_tok < PROMPT ? 1 : PROMPT, from = (size_t)batch->n_tok - n;
	size_t d = (size_t)batch->router->k, e = (size_t)batch->router->n;
	float *of_batch = kernel_download(kt, batch->logits, (from + n) * e);
	struct moe_router_args few = *batch;
	few.n_tok = (int32_t)n;
	few.x = kernel_act_upload(kt, x + from * d, n * d);
	few.logits = UPLOAD(kt, kernel_zeros(kt, n * e), n * e);
	kernel_ran(kt, kt->b->ops->moe_router(kt->b, &few), "moe_router");
	const float *got = kernel_download(kt, few.logits, n * e);
	kernel_ok(memcmp(got, of_batch + from * e, n * e * sizeof *got) == 0,
		  "%s: moe_router T=%d E=%d: the last %d alone, bit for bit", kt->name,
		  batch->n_tok, batch->router->n, few.n_tok);
}

/* The router of a token is compared by its choice. Where two logits are closer than
 * float arithmetic tells apart either order is right, so noise makes none such. */
static void one_case(struct kernel_test *kt, const struct shape *s)
{
	size_t t = (size_t)s->t, nu = t * (size_t)s->u, ne = t * (size_t)s->e;
	struct weight_kind kind = {.quant = s->quant};
	struct weight w = kernel_weight(kt, kind, s->e, s->d), w_on;
	w.keeps_rows = true;
	float *x = kernel_rows(kt, t, (size_t)s->d, 0.1f);
	kernel_act_round(kt, x, t * (size_t)s->d, 6e4f);
	int32_t *id = kernel_ints(kt, nu), *none = kernel_ints(kt, nu);
	float *weight = kernel_zeros(kt, nu), *logits = kernel_zeros(kt, ne);
	struct moe_router_args a = {s->t,   s->u, s->norm_topk, x, &w,
				    logits, id,   weight, s->groups > 0,
				    s->groups, s->groups_used, 2.5f, NULL, NULL, NULL, NULL,
				    s->is_shifted, s->way >= ROOT, NULL, NULL};
	float *bias = kernel_rows(kt, 1, (size_t)s->e, 0.05f);
	if ((a.is_sigmoid && s->way != UNBIASED && s->way != FIXED) || a.is_shifted)
		a.bias = bias;
	if (s->has_logit_bias)
		a.logit_bias = bias;
	if (s->has_scale)
		a.expert_scale = bias;
	int32_t *fixed = kernel_ints(kt, nu), *token = kernel_ints(kt, t);
	for (size_t i = 0; i < nu; i++) /* the table has a row for each token */
		fixed[i] = (int32_t)((i / (size_t)s->u * 5 + i % (size_t)s->u * 3) % (size_t)s->e);
	for (size_t i = 0; i < t; i++)
		token[i] = (int32_t)(i * 2 % t);
	a.fixed = s->way == FIXED ? fixed : NULL;
	a.token = token;
	moe_router_ref(&a);
	w_on = kernel_upload_weight(kt, &w);
	struct moe_router_args on = a;
	on.x = kernel_act_upload(kt, x, t * (size_t)s->d);
	on.router = &w_on;
	const float *bias_on = UPLOAD(kt, bias, (size_t)s->e);
	on.bias = a.bias ? bias_on : NULL;
	on.logit_bias = s->has_logit_bias ? bias_on : NULL;
	on.expert_scale = s->has_scale ? bias_on : NULL;
	on.fixed = s->way == FIXED ? UPLOAD(kt, fixed, nu) : NULL;
	on.token = UPLOAD(kt, token, t);
	on.logits = UPLOAD(kt, logits, ne);
	on.id = UPLOAD(kt, none, nu);
	on.weight = UPLOAD(kt, kernel_zeros(kt, nu), nu);
	kernel_ran(kt, kt->b->ops->moe_router(kt->b, &on), "moe_router");
	const int32_t *got_id = (int32_t *)kernel_download(kt, on.id, nu);
	const float *got = kernel_download(kt, on.weight, nu);
	int wrong = 0;
	double worst = 0, most = 0;
	for (size_t i = 0; i < nu; i++) {
		wrong += got_id[i] != id[i];
		worst = worse_of(worst, fabs((double)got[i] - weight[i]));
	}
	for (size_t i = 0; i < ne; i++)
		most = fmax(most, fabs((double)logits[i]));
	/* Prompts' logits come of the tiles of linear. A weight moves by at most its factor. */
	kt->n_cut = s->t <= 16 ? 0 : s->quant == QUANT_BF16 ? 2 * s->d : s->d;
	kernel_ok(wrong == 0, "%s: moe_router T=%d E=%d U=%d groups %d: the choice",
		  kt->name, s->t, s->e, s->u, s->groups);
	kernel_ok(worst < 1e-5 + 2.5 * most * kernel_cut(kt, 0),
		  "%s: moe_router T=%d E=%d U=%d: weights within %.1e", kt->name,
	   s->t, s->e, s->u, worst);
	test_alone(kt, &on, x);
}

/* The router does its norm itself: the logits are the reference's, and x has the norm's bits.
 * Many tokens may round x to 16 bits first. */
static void test_normed(struct kernel_test *kt, int32_t n_tok, int32_t dim, enum quant quant)
{
	enum { E = 21, U = 4 };
	size_t t = (size_t)n_tok, d = (size_t)dim, n = t * E;
	struct weight w = kernel_weight(kt, (struct weight_kind){.quant = quant}, E, dim);
	w.keeps_rows = true;
	struct weight w_on = kernel_upload_weight(kt, &w);
	float *x = kernel_rows(kt, t, d, 0.3f), *weight = kernel_rows(kt, 1, d, 1);
	float *zeros = kernel_zeros(kt, t * (d + E)), *y = kernel_zeros(kt, t * d);
	float *logits = kernel_zeros(kt, n);
	struct rms_norm_args norm = {.n_tok = n_tok, .dim = dim, .eps = 1e-6f, .x = x,
				     .weight = weight, .y = y};
	struct moe_router_args a = {.n_tok = n_tok, .n_used = U, .norm_topk = true, .x = y,
				    .router = &w, .logits = logits, .norm = &norm,
				    .id = kernel_ints(kt, n), .weight = kernel_zeros(kt, n)};
	moe_router_ref(&a);
	struct rms_norm_args norm_on = norm;
	norm_on.x = UPLOAD(kt, x, t * d);
	norm_on.weight = UPLOAD(kt, weight, d);
	norm_on.y = kernel_act_upload(kt, zeros, t * d);
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &norm_on), "rms_norm");
	const float *alone = kernel_act_download(kt, norm_on.y, t * d);
	norm_on.y = kernel_act_upload(kt, zeros, t * d);
	struct moe_router_args on = a;
	on.x = norm_on.y;
	on.norm = &norm_on;
	on.router = &w_on;
	on.logits = UPLOAD(kt, zeros, n);
	on.id = UPLOAD(kt, a.id, n);
	on.weight = UPLOAD(kt, zeros, n);
	kernel_ran(kt, kt->b->ops->moe_router(kt->b, &on), "moe_router with a norm");
	const float *got = kernel_download(kt, on.logits, n);
	double worst = 0, most = 0;
	for (size_t i = 0; i < n; i++) {
		worst = worse_of(worst, fabs((double)got[i] - logits[i]));
		most = fmax(most, fabs((double)logits[i]));
	}
	kernel_ok(worst <= most * (n_tok > 16 ? 2e-3 : 1e-5),
		  "%s: moe_router T=%d D=%d with a norm: logits within %.1e of %.1e", kt->name,
		  n_tok, dim, worst, most);
	kernel_ok(memcmp(kernel_act_download(kt, on.x, t * d), alone, t * d * sizeof *alone) == 0,
		  "%s: moe_router T=%d D=%d with a norm: x has the norm's bits", kt->name, n_tok,
		  dim);
	kernel_test_reset(kt);
}

/* Identity as router: x is the logits. */
static void given_logits(struct kernel_test *kt, const float *x, int32_t e, int32_t u,
			 bool norm_topk, int32_t *out_id, float *out_weight)
{
	float *identity = kernel_zeros(kt, (size_t)(e * e));
	for (int32_t i = 0; i < e; i++)
		identity[i * e + i] = 1;
	struct weight w = {.quant = QUANT_F32, .n = e, .k = e, .group = e,
			   .q = identity, .scale_type = DTYPE_F32, .name = "identity"};
	struct weight w_on = kernel_upload_weight(kt, &w);
	float *zeros = kernel_zeros(kt, (size_t)e);
	struct moe_router_args on = {1, u, norm_topk, kernel_act_upload(kt, x, (size_t)e), &w_on,
				     UPLOAD(kt, zeros, (size_t)e),
				     UPLOAD(kt, zeros, (size_t)u),
				     UPLOAD(kt, zeros, (size_t)u), false, 0, 0, 0,
				     NULL, NULL, NULL, NULL, false, false, NULL, NULL};
	kernel_ran(kt, kt->b->ops->moe_router(kt->b, &on), "moe_router");
	size_t n = (size_t)u;
	memcpy(out_id, kernel_download(kt, on.id, n), n * sizeof *out_id);
	memcpy(out_weight, kernel_download(kt, on.weight, n), n * sizeof *out_weight);
}

static void test_rules(struct kernel_test *kt)
{
	int32_t id[4];
	float w[4];
	given_logits(kt, (float[]){1, 3, 3, 0, 3, 2}, 6, 4, true, id, w);
	kernel_ok(id[0] == 1 && id[1] == 2 && id[2] == 4 && id[3] == 5,
	   "%s: moe_router: the lower id of equals comes first", kt->name);
	kernel_ok(fabs(w[0] + w[1] + w[2] + w[3] - 1) <= 1e-6, "renormalised weights sum to 1");
	given_logits(kt, (float[]){0, 0, 0, 0}, 4, 2, false, id, w);
	kernel_ok(fabs(w[0] + w[1] - 0.5) <= 1e-6, "others are of the softmax over all");
	given_logits(kt, (float[]){-6e4f, 5, -6e4f, -6e4f}, 4, 4, true, id, w);
	kernel_ok(id[0] == 1 && id[1] == 0 && id[2] == 2 && id[3] == 3 && w[0] == 1,
	   "%s: moe_router: experts of no weight are still different ones", kt->name);
	given_logits(kt, (float[]){NAN, NAN, NAN, NAN, NAN}, 5, 4, true, id, w);
	int seen = 0;
	for (int i = 0; i < 4; i++)
		seen |= id[i] >= 0 && id[i] < 5 ? 1 << id[i] : 0;
	kernel_ok(__builtin_popcount((unsigned)seen) == 4,
	       "%s: moe_router: NaN chooses four different experts", kt->name);
}

/* Experts 0 1 | 2 3 | 4 5. The best expert is in a group that is not chosen; the bias
 * chooses and does not weigh. */
static void test_groups(struct kernel_test *kt)
{
	enum { E = 6, U = 2 };
	float x[E] = {2, -9, 1, 1, -9, 0}, *identity = kernel_zeros(kt, E * E);
	float *bias = kernel_zeros(kt, E), *zeros = kernel_zeros(kt, E);
	for (int i = 0; i < E; i++)
		identity[i * E + i] = 1;
	bias[3] = 0.25f;
	struct weight w = {.quant = QUANT_F32, .n = E, .k = E, .group = E,
			   .q = identity, .scale_type = DTYPE_F32, .name = "identity"};
	struct weight w_on = kernel_upload_weight(kt, &w);
	struct moe_router_args on = {
		.n_tok = 1, .n_used = U, .x = kernel_act_upload(kt, x, E), .router = &w_on,
		.logits = UPLOAD(kt, zeros, E), .id = UPLOAD(kt, zeros, U),
		.weight = UPLOAD(kt, zeros, U), .is_sigmoid = true, .n_groups = 3,
		.n_groups_used = 1, .scale = 2, .bias = UPLOAD(kt, bias, E)};
	kernel_ran(kt, kt->b->ops->moe_router(kt->b, &on), "moe_router");
	const int32_t *id = (int32_t *)kernel_download(kt, on.id, U);
	const float *weight = kernel_download(kt, on.weight, U);
	kernel_ok(id[0] == 3 && id[1] == 2, "%s: moe_router: the best group, by bias",
		  kt->name);
	double want = 2 / (1 + exp(-1.0));
	kernel_ok(fabs(weight[0] - want) < 1e-6 && fabs(weight[1] - want) < 1e-6,
		  "%s: moe_router: weights without bias, scaled", kt->name);
}

void case_moe_router(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!kernel_takes(kt))
			continue;
		one_case(kt, &cases[i]);
		kernel_test_reset(kt);
	}
	test_normed(kt, 1, 2048, QUANT_BF16);
	test_normed(kt, 3, 136, QUANT_F16);
	test_normed(kt, 16, 1544, QUANT_BF16);
	test_normed(kt, 18, 136, QUANT_BF16);
	test_rules(kt);
	test_groups(kt);
}
