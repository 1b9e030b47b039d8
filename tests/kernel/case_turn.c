/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns. Lines of a fast transform are short, so that a workgroup has several, or longer than
 * its threads. Small matrices stand before some. Matrices without structure have blocks that
 * end inside a span. Signs stand on either side. Last comes linear for weights with turns.
 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define turn_blocks_ref turn_blocks_plain
#define turn_element turn_element_plain
#include "kernels/ops/turn_blocks_ref.c"
#undef turn_blocks_ref
#undef turn_element
#include "tests/kernel/plain_end.h"

enum side { NONE, BEFORE, BEHIND };
enum result { TO_ACT, TO_F32, ADDS };

struct turn_case {
	int32_t t, dim, n, order;
	enum side signs;
	enum result to;
};

static const float *signs(struct kernel_test *kt, int32_t n)
{
	float *x = kernel_zeros(kt, (size_t)n);
	for (int32_t i = 0; i < n; i++)
		x[i] = kernel_random(kt) & 1 ? -1 : 1;
	return x;
}

static struct turn_matrix turn_of(struct kernel_test *kt, int32_t n, int32_t order,
				  enum side side)
{
	size_t size = (size_t)order * (size_t)order;
	float *base = order > 1 ? kernel_zeros(kt, size) : NULL;
	for (size_t i = 0; base && i < size; i++)
		base[i] = kernel_noise(kt);
	return (struct turn_matrix){
		.n = n, .order = order, .base = base,
		.before = side == BEFORE ? signs(kt, n) : NULL,
		.after = side == BEHIND ? signs(kt, n) : NULL,
		.scale = (float)(1 / sqrt(n))};
}

static struct turn_matrix on_device(struct kernel_test *kt, const struct turn_matrix *r)
{
	struct turn_matrix d = *r;
	size_t n = (size_t)r->n, size = (size_t)r->order * (size_t)r->order;
	d.base = r->base ? UPLOAD(kt, r->base, size) : NULL;
	d.before = r->before ? UPLOAD(kt, r->before, n) : NULL;
	d.after = r->after ? UPLOAD(kt, r->after, n) : NULL;
	return d;
}

/* Rows [first, first + n_tok) of what the case computes. */
static float *computed(struct kernel_test *kt, const struct turn_case *c,
		       const struct turn_matrix *r, const float *x, const float *y,
		       int32_t first, int32_t n_tok)
{
	size_t n = (size_t)n_tok * (size_t)c->dim, from = (size_t)first * (size_t)c->dim;
	bool is_act = c->to == TO_ACT;
	struct turn_blocks_args on = {
		.n_tok = n_tok, .dim = c->dim, .turn = r, .x_is_f32 = !is_act,
		.x = is_act ? kernel_act_upload(kt, x + from, n)
			    : (void *)UPLOAD(kt, x + from, n),
		.y = is_act ? kernel_act_upload(kt, y + from, n)
			    : (void *)UPLOAD(kt, y + from, n),
		.is_f32 = c->to == TO_F32, .adds = c->to == ADDS};
	kernel_ran(kt, kt->b->ops->turn_blocks(kt->b, &on), "turn_blocks");
	return is_act ? kernel_act_download(kt, on.y, n) : kernel_download(kt, on.y, n);
}

static void turn_case(struct kernel_test *kt, const struct turn_case *c)
{
	size_t t = (size_t)c->t, dim = (size_t)c->dim, n = t * dim;
	struct turn_matrix r = turn_of(kt, c->n, c->order, c->signs);
	const struct turn_matrix on = on_device(kt, &r);
	float *x = kernel_rows(kt, t, dim, 1), *before = kernel_rows(kt, t, dim, 1);
	float *y[2] = {kernel_zeros(kt, n), kernel_zeros(kt, n)};
	kernel_act_round(kt, x, n, 100);
	struct turn_blocks_args a = {.n_tok = c->t, .dim = c->dim, .turn = &r, .x = x,
				     .adds = c->to == ADDS};
	for (int i = 0; i < 2; i++) {
		memcpy(y[i], before, n * sizeof *before);
		a.y = y[i];
		if (i == 0)
			turn_blocks_ref(&a);
		else
			turn_blocks_plain(&a);
	}
	float *got = computed(kt, c, &on, x, before, 0, c->t);
	char what[100];
	snprintf(what, sizeof what, "turn_blocks T=%d F=%d n=%d order %d", c->t, c->dim, c->n,
		 c->order);
	if (c->to == TO_ACT)
		kernel_act_compare(kt, got, y[0], y[1], t, dim, 1e-12, what);
	else
		kernel_compare(kt, got, y[0], y[1], t, dim, 1e-12, what);
	int wrong = 0;
	for (int32_t row = 0; row < c->t; row++)
		kernel_same(kt, computed(kt, c, &on, x, before, row, 1),
			    got + (size_t)row * dim, dim, &wrong);
	kernel_ok(wrong == 0, "%s: %s: rows alone have the same bits", kt->name, what);
}

/* The longest line: a row of R, by a block with a single 1. */
static void longest(struct kernel_test *kt)
{
	enum { N = 2 * TURN_MAX_LINE, AT = TURN_MAX_LINE + 4321 };
	static const float base[4] = {1, 2, 3, 4};
	struct turn_matrix r = {N, 2, base, NULL, NULL, 0.5f}, on = on_device(kt, &r);
	struct turn_case c = {1, N, N, 2, NONE, TO_F32};
	float *x = kernel_zeros(kt, N);
	x[AT] = 1;
	float *got = computed(kt, &c, &on, x, x, 0, 1);
	int wrong = 0;
	for (int32_t j = 0; j < N; j++)
		wrong += got[j] != 0.5f * turn_element_plain(&r, AT, j);
	kernel_ok(wrong == 0, "%s: turn_blocks of lines of %d", kt->name, TURN_MAX_LINE);
}

/* --- linear -------------------------------------------------------------- */

enum { T = 3, K = 64, N = 32, OUTS = 3 };

struct product {
	struct weight w[OUTS];
	struct turn_matrix in, out;
	const float *x, *bias, *sum;
};

/* Results of the three weights: two that read x turned, into what the activation then makes
 * one of, or whose outputs turn; the last adds, and reads x itself. */
static void whole(struct kernel_test *kt, const struct product *p, bool has_act,
		  const struct weight_turns turns[OUTS], float *y[OUTS])
{
	static const struct activation silu = {.kind = ACT_SILU};
	struct linear_args a = {.n_tok = T, .x = kernel_act_upload(kt, p->x, (size_t)T * K),
				.n_out = has_act ? 2 : OUTS, .act = has_act ? &silu : NULL};
	struct weight w[OUTS];
	for (int i = 0; i < OUTS; i++) {
		w[i] = p->w[i];
		w[i].turns = &turns[i];
		a.out[i] = (struct linear_out){
			.w = &w[i], .bias = i ? NULL : p->bias, .adds = i == 2,
			.y = i == 2 ? (void *)UPLOAD(kt, p->sum, (size_t)T * N)
				    : kernel_act_upload(kt, p->sum, (size_t)T * N)};
	}
	kernel_ran(kt, kt->b->ops->linear(kt->b, &a), "linear with turns");
	for (int i = 0; i < a.n_out; i++)
		y[i] = i == 2 ? kernel_download(kt, a.out[i].y, (size_t)T * N)
			      : kernel_act_download(kt, a.out[i].y, (size_t)T * N);
}

static void *turned(struct kernel_test *kt, const struct turn_matrix *r, const void *x,
		    bool is_out, int32_t dim, bool adds, const float *sum)
{
	void *y = adds ? (void *)UPLOAD(kt, sum, (size_t)(T * dim))
		       : kernel_act_upload(kt, kernel_zeros(kt, (size_t)(T * dim)),
					   (size_t)(T * dim));
	kernel_ran(kt, kt->b->ops->turn_blocks(kt->b, &(struct turn_blocks_args){
			.n_tok = T, .dim = dim, .turn = r, .x = x, .x_is_f32 = is_out, .y = y,
			.adds = adds}), "turn_blocks");
	return y;
}

/* The same of output i, by one operation after the other. */
static float *in_turn(struct kernel_test *kt, const struct product *p, int i,
		      const struct weight_turns *t)
{
	const void *x = kernel_act_upload(kt, p->x, (size_t)T * K);
	struct linear_args a = {.n_tok = T, .n_out = 1};
	bool adds = i == 2;
	a.x = t->in ? turned(kt, t->in, x, false, K, false, NULL) : x;
	bool is_f32 = t->out || adds;
	void *y = is_f32 ? (void *)UPLOAD(kt, p->sum, (size_t)T * N)
			 : kernel_act_upload(kt, p->sum, (size_t)T * N);
	a.out[0] = (struct linear_out){.w = &p->w[i], .bias = i ? NULL : p->bias, .y = y,
				       .is_f32 = is_f32, .adds = adds && !t->out};
	kernel_ran(kt, kt->b->ops->linear(kt->b, &a), "linear");
	if (t->out)
		y = turned(kt, t->out, y, true, N, adds, p->sum);
	return adds ? kernel_download(kt, y, (size_t)T * N)
		    : kernel_act_download(kt, y, (size_t)T * N);
}

static void linear_case(struct kernel_test *kt, bool has_act)
{
	struct turn_memory memory = {
		kernel_act_upload(kt, kernel_zeros(kt, (size_t)T * K), (size_t)T * K),
		(float *)UPLOAD(kt, kernel_zeros(kt, (size_t)T * N), (size_t)T * N)};
	struct turn_matrix in = turn_of(kt, K, 4, BEFORE), out = turn_of(kt, 16, 1, BEHIND);
	struct product p = {.in = on_device(kt, &in), .out = on_device(kt, &out)};
	float *x = kernel_rows(kt, T, K, 1), *y[OUTS];
	kernel_act_round(kt, x, (size_t)T * K, 10);
	p.x = x;
	p.bias = UPLOAD(kt, kernel_rows(kt, 1, N, 1), (size_t)N);
	p.sum = kernel_rows(kt, T, N, 1);
	for (int i = 0; i < OUTS; i++) {
		struct weight w = kernel_weight(kt, (struct weight_kind){QUANT_INT4, 32, false,
									 DTYPE_F32, false}, N, K);
		p.w[i] = kernel_upload_weight(kt, &w);
	}
	const struct weight_turns turns[OUTS] = {{&p.in, has_act ? NULL : &p.out, &memory},
						 {&p.in, NULL, &memory},
						 {NULL, &p.out, &memory}};
	whole(kt, &p, has_act, turns, y);
	int wrong = 0;
	if (has_act) {
		float *gate = in_turn(kt, &p, 0, &turns[0]), *up = in_turn(kt, &p, 1, &turns[1]);
		void *both = kernel_act_upload(kt, gate, (size_t)T * N);
		kernel_ran(kt, kt->b->ops->act_mul(kt->b, &(struct act_mul_args){
				.n_tok = T, .dim = N, .act = {.kind = ACT_SILU}, .gate = both,
				.up = kernel_act_upload(kt, up, (size_t)T * N), .y = both}),
			   "act_mul");
		kernel_same(kt, y[0], kernel_act_download(kt, both, (size_t)T * N),
			    (size_t)T * N, &wrong);
	}
	for (int i = 0; i < OUTS && !has_act; i++)
		kernel_same(kt, y[i], in_turn(kt, &p, i, &turns[i]), (size_t)T * N, &wrong);
	kernel_ok(wrong == 0, "%s: linear with turns%s has the bits of its operations", kt->name,
		  has_act ? " and an activation" : "");
}

void case_turn(struct kernel_test *kt)
{
	static const struct turn_case cases[] = {
		{3, 128, 16, 1, NONE, TO_ACT},	 {2, 1024, 1024, 1, BEFORE, TO_F32},
		{3, 1200, 48, 12, BEHIND, TO_ACT}, {2, 768, 768, 3, BEFORE, ADDS},
		{3, 400, 40, 40, NONE, TO_ACT},	 {1, 24, 24, 3, BEHIND, ADDS},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (kernel_takes(kt))
			turn_case(kt, &cases[i]);
	longest(kt);
	linear_case(kt, false);
	linear_case(kt, true);
}
