/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define head_linear_ref head_linear_plain
#define mla_rope_kv_ref mla_rope_kv_plain
#include "kernels/ops/head_linear_ref.c"
#include "kernels/ops/mla_rope_kv_ref.c"
#undef head_linear_ref
#undef mla_rope_kv_ref
#include "tests/kernel/plain_end.h"

struct shape {
	struct weight_kind kind;
	int32_t t, h, k, pitch, first, n;
	bool is_transposed;
	int32_t x_extra, y_extra; /* elements beside those of a head */
	float most; /* of x; 0: 500 */
};

static const struct shape shapes[] = {
	{{.quant = QUANT_BF16}, 1, 4, 64, 128, 0, 64, true, 32, 32, 0},
	{{.quant = QUANT_BF16}, 5, 4, 64, 128, 64, 64, false, 0, 0, 0},
	{{.quant = QUANT_F16}, 70, 3, 50, 23, 2, 21, false, 3, 1, 0},
	{{.quant = QUANT_F32}, 70, 3, 50, 23, 2, 21, true, 3, 1, 0},
	{{.quant = QUANT_F16}, 3, 2, 72, 40, 8, 32, true, 0, 8, 0},
	{{.quant = QUANT_F32}, 2, 3, 40, 24, 4, 20, false, 8, 0, 0},
	{{QUANT_INT4, 32, false, DTYPE_BF16, 0}, 3, 2, 512, 256, 128, 128, false, 0, 0, 0},
	{{QUANT_INT4, 32, true, DTYPE_BF16, 0}, 3, 2, 512, 256, 0, 128, true, 64, 64, 0},
	{{QUANT_FP8, 128, false, DTYPE_BF16, 0}, 3, 2, 256, 256, 128, 64, false, 0, 0, 0},
	{{QUANT_FP8, 128, false, DTYPE_BF16, 0}, 1, 2, 256, 64, 0, 32, true, 8, 8, 0},
};

/* Heads [0, H) of tokens [t0, t0 + n_tok) on the device. */
static float *products(struct kernel_test *kt, const struct shape *s,
		       const struct weight *w, const float *x, int32_t t0, int32_t n_tok)
{
	int32_t n_in = s->is_transposed ? s->n : s->k, n_out = s->is_transposed ? s->k : s->n;
	size_t x_row = (size_t)(s->h * (n_in + s->x_extra));
	size_t n = (size_t)(n_tok * s->h * (n_out + s->y_extra));
	struct weight rows = *w;
	rows.keeps_rows = true;
	struct weight on = kernel_upload_weight(kt, &rows);
	struct head_linear_args a = {
		.n_tok = n_tok, .n_heads = s->h, .w = &on, .pitch = s->pitch,
		.first = s->first, .n = s->n, .is_transposed = s->is_transposed,
		.x = kernel_act_upload(kt, x + (size_t)t0 * x_row, (size_t)n_tok * x_row),
		.x_pitch = n_in + s->x_extra,
		.y = kernel_act_upload(kt, kernel_zeros(kt, n), n),
		.y_pitch = n_out + s->y_extra};
	kernel_ran(kt, kt->b->ops->head_linear(kt->b, &a), "head_linear");
	return kernel_act_download(kt, a.y, n);
}

static void linear_case(struct kernel_test *kt, const struct shape *s)
{
	int32_t n_in = s->is_transposed ? s->n : s->k, n_out = s->is_transposed ? s->k : s->n;
	int32_t x_pitch = n_in + s->x_extra, y_pitch = n_out + s->y_extra;
	size_t rows = (size_t)(s->t * s->h), n = rows * (size_t)y_pitch;
	struct weight w = kernel_weight(kt, s->kind, s->h * s->pitch, s->k);
	float *x = kernel_rows(kt, rows, (size_t)x_pitch, 1), *out[2];
	kernel_act_round(kt, x, rows * (size_t)x_pitch, s->most > 0 ? s->most : 500);
	for (int i = 0; i < 2; i++) {
		out[i] = kernel_zeros(kt, n);
		struct head_linear_args a = {
			.n_tok = s->t, .n_heads = s->h, .w = &w, .pitch = s->pitch,
			.first = s->first, .n = s->n, .is_transposed = s->is_transposed,
			.x = x, .x_pitch = x_pitch, .y = out[i], .y_pitch = y_pitch};
		i == 0 ? head_linear_ref(&a) : head_linear_plain(&a);
	}
	char what[140];
	snprintf(what, sizeof what, "head_linear T=%d H=%d K=%d n=%d of %d%s %s", s->t, s->h,
		 s->k, s->n, s->pitch, s->is_transposed ? " transposed" : "",
		 kernel_kind_name(s->kind));
	float *got = products(kt, s, &w, x, 0, s->t);
	kt->n_cut = n_in;
	kernel_act_compare(kt, got, out[0], out[1], rows, (size_t)y_pitch, 1e-11, what);
	int wrong = 0;
	size_t row = (size_t)(s->h * y_pitch);
	for (int32_t t = 0; t < s->t; t += 1 + s->t / 8)
		kernel_same(kt, products(kt, s, &w, x, t, 1), got + (size_t)t * row, row,
			    &wrong);
	kernel_ok(wrong == 0, "%s: %s: tokens alone have the same bits", kt->name, what);
}

/* Heads in each format that a checkpoint may have. */
static void format_cases(struct kernel_test *kt)
{
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		bool is_apart = q == QUANT_INT8 || q == QUANT_NVFP4 || q == QUANT_FP8 ||
				q == QUANT_MXFP4;
		if (!(is_apart || quant_block(q)) || !kernel_wants(q))
			continue;
		struct shape s = {{.quant = q, .group = q == QUANT_NVFP4 ? 16 : 32}, 2, 2,
				  256, 12, 3, 8, false, 0, 8, 4};
		for (int i = 0; i < 2; i++) {
			s.is_transposed = i;
			linear_case(kt, &s);
			kernel_test_reset(kt);
		}
	}
}

enum { N_PAGES = 5, P = 8 };

static void rope_case(struct kernel_test *kt, int32_t t, int32_t h, int32_t c,
		      int32_t rope_dim, bool is_interleaved)
{
	int32_t n = c + rope_dim, q_pitch = rope_dim + 24;
	size_t n_q = (size_t)(t * h * n), n_from = (size_t)(t * h * q_pitch);
	size_t n_pages = (size_t)(N_PAGES * P * n);
	float *q_from = kernel_rows(kt, (size_t)(t * h), (size_t)q_pitch, 1);
	float *kv_from = kernel_rows(kt, (size_t)t, (size_t)n, 1);
	float *norm = kernel_rows(kt, 1, (size_t)c, 1);
	float *rope = kernel_zeros(kt, (size_t)(t * rope_dim)), *q[2], *pages[2];
	int32_t *slot = kernel_ints(kt, (size_t)t);
	kernel_act_round(kt, q_from, n_from, 4e4f / 2);
	kernel_act_round(kt, kv_from, (size_t)(t * n), 4e4f / 2);
	for (int32_t i = 0; i < t; i++) {
		slot[i] = (i * 7 + 3) % (N_PAGES * P); /* no two alike */
		for (int32_t j = 0; j < rope_dim / 2; j++) {
			double angle = i * pow(1e4, -2.0 * j / rope_dim);
			rope[i * rope_dim + 2 * j] = (float)cos(angle);
			rope[i * rope_dim + 2 * j + 1] = (float)sin(angle);
		}
	}
	struct mla_rope_kv_args a = {
		.n_tok = t, .n_heads = h, .c_dim = c, .rope_dim = rope_dim,
		.is_interleaved = is_interleaved, .eps = 1e-6f, .q_scale = 1.25f,
		.q_from = q_from, .q_pitch = q_pitch, .kv_from = kv_from, .norm = norm,
		.rope = rope, .slot = slot, .kv = {.type = DTYPE_F32, .page_size = P}};
	for (int i = 0; i < 2; i++) {
		a.q = q[i] = kernel_zeros(kt, n_q);
		a.kv.k = pages[i] = kernel_zeros(kt, n_pages);
		i == 0 ? mla_rope_kv_ref(&a) : mla_rope_kv_plain(&a);
	}
	a.q_from = kernel_act_upload(kt, q_from, n_from);
	a.kv_from = kernel_act_upload(kt, kv_from, (size_t)(t * n));
	a.norm = UPLOAD(kt, norm, (size_t)c);
	a.rope = UPLOAD(kt, rope, (size_t)(t * rope_dim));
	a.slot = UPLOAD(kt, slot, (size_t)t);
	a.q = kernel_act_upload(kt, kernel_zeros(kt, n_q), n_q);
	a.kv.k = kernel_kv_upload(kt, kernel_zeros(kt, n_pages), n_pages);
	a.kv.type = kt->b->kv_type;
	char what[120];
	snprintf(what, sizeof what, "mla_rope_kv T=%d H=%d C=%d N=%d%s", t, h, c, rope_dim,
		 is_interleaved ? " interleaved" : "");
	kernel_ran(kt, kt->b->ops->mla_rope_kv(kt->b, &a), what);
	kernel_act_compare(kt, kernel_act_download(kt, a.q, n_q), q[0], q[1],
			   (size_t)(t * h), (size_t)n, 1e-12, what);
	kernel_kv_compare(kt, kernel_kv_download(kt, a.kv.k, n_pages), pages[0], pages[1],
			  (size_t)(N_PAGES * P), (size_t)n, 1e-12, what);
}

void case_mla(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		linear_case(kt, &shapes[i]);
		kernel_test_reset(kt);
	}
	format_cases(kt);
	rope_case(kt, 1, 4, 64, 32, true);
	rope_case(kt, 9, 3, 30, 6, false);
	rope_case(kt, 5, 16, 512, 64, true);
}
