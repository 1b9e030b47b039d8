/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define moe_experts_ref moe_experts_plain
#include "kernels/moe_experts_ref.c"
#undef moe_experts_ref
#include "tests/kernel/plain_end.h"

struct shape {
	struct weight_kind kind;
	int32_t t, d, f, e, u;
};

#define INT4(group, is_asym) {QUANT_INT4, group, is_asym, DTYPE_BF16, false}
static const struct shape cases[] = {
	{INT4(32, false), 1, 256, 128, 16, 4},
	{INT4(32, true), 3, 96, 32, 8, 8},
	{INT4(64, false), 150, 64, 64, 2, 1}, /* more than a tile an expert */
	{{.quant = QUANT_BF16}, 11, 50, 22, 7, 2},
	{{.quant = QUANT_F16}, 5, 33, 9, 64, 3},
};

struct input {
	struct experts ex;
	float *x, *weight, *y;
	int32_t *id;
};

static struct input make(struct kernel_test *kt, const struct shape *s)
{
	size_t t = (size_t)s->t, nu = t * (size_t)s->u;
	size_t size = (size_t)s->e * sizeof(struct weight);
	struct weight *w[3];
	for (int i = 0; i < 3; i++) {
		w[i] = arena_alloc(&kt->arena, size);
		for (int32_t e = 0; e < s->e; e++)
			w[i][e] = i < 2 ? kernel_weight(kt, s->kind, s->f, s->d)
					: kernel_weight(kt, s->kind, s->d, s->f);
	}
	struct input in = {.ex = {s->e, w[0], w[1], w[2], NULL},
			   .x = kernel_rows(kt, t, (size_t)s->d, 1),
			   .y = kernel_rows(kt, 1, t * (size_t)s->d, 1),
			   .weight = kernel_zeros(kt, nu), .id = kernel_ints(kt, nu)};
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
	return in;
}

/* Tokens [t0, t0 + n_tok) on the device. */
static float *on_device(struct kernel_test *kt, const struct shape *s,
			const struct input *in, int32_t t0, int32_t n_tok)
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
	struct experts ex = {s->e, w[0], w[1], w[2], NULL};
	kernel_ran(kt, kt->b->ops->load_experts(kt->b, &ex, NULL), "load_experts");
	size_t n_work = moe_experts_work(n_tok, s->u, s->e), nh = nu * (size_t)s->f;
	struct moe_experts_args a = {
		.n_tok = n_tok, .n_used = s->u,
		.x = UPLOAD(kt, in->x + (size_t)t0 * d, t * d),
		.id = UPLOAD(kt, in->id + at, nu),
		.weight = UPLOAD(kt, in->weight + at, nu), .experts = &ex,
		.h = UPLOAD(kt, kernel_zeros(kt, nh), nh),
		.work = UPLOAD(kt, kernel_ints(kt, n_work), n_work),
		.y = UPLOAD(kt, in->y + (size_t)t0 * d, t * d)};
	kernel_ran(kt, kt->b->ops->moe_experts(kt->b, &a), "moe_experts");
	return kernel_download(kt, a.y, t * d);
}

static void one_case(struct kernel_test *kt, const struct shape *s)
{
	struct input in = make(kt, s);
	size_t d = (size_t)s->d, n = (size_t)s->t * d;
	float *ref = kernel_zeros(kt, n), *plain = kernel_zeros(kt, n);
	struct moe_experts_args a = {.n_tok = s->t, .n_used = s->u, .x = in.x,
				     .id = in.id, .weight = in.weight,
				     .experts = &in.ex, .y = ref};
	memcpy(ref, in.y, n * sizeof *ref);
	memcpy(plain, in.y, n * sizeof *ref);
	moe_experts_ref(&a);
	a.y = plain;
	moe_experts_plain(&a);
	float *got = on_device(kt, s, &in, 0, s->t);
	char what[140];
	snprintf(what, sizeof what, "moe_experts T=%d D=%d F=%d E=%d U=%d %s", s->t, s->d,
		 s->f, s->e, s->u, kernel_kind_name(s->kind));
	kernel_compare(kt, got, ref, plain, (size_t)s->t, d, 1e-11, what);
	int wrong = 0;
	for (int32_t t = 0; t < s->t; t += 1 + s->t / 8)
		kernel_same(kt, on_device(kt, s, &in, t, 1), got + (size_t)t * d, d,
			    &wrong);
	kernel_ok(wrong == 0, "%s: %s: tokens alone have the same bits", kt->name, what);
}

void case_moe_experts(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		one_case(kt, &cases[i]);
		kernel_test_reset(kt);
	}
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		struct shape s = {{q, 16, false, DTYPE_F16, false}, 9, 64, 32, 4, 2};
		if (quant_block(q))
			s.d = s.f = quant_block(q);
		if (q > QUANT_INT4)
			one_case(kt, &s);
		kernel_test_reset(kt);
	}
}
