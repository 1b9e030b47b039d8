/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define rms_norm_ref rms_norm_plain
#include "kernels/ops/rms_norm_ref.c"
#undef rms_norm_ref
#include "tests/kernel/plain_end.h"

static const struct {
	int32_t t, d;
	bool adds;
} cases[] = {{1, 256, false}, {7, 130, true}, {5, 8192, false}, {64, 61, true},
	   {3, 4243, true}};

static struct rms_norm_args args(int32_t t, int32_t d, float *x, const void *add,
				 const float *weight, void *y)
{
	return (struct rms_norm_args){.n_tok = t, .dim = d, .eps = 1e-6f, .x = x,
				      .add = add, .weight = weight, .y = y};
}

static void one_case(struct kernel_test *kt, int32_t t, int32_t d, bool adds)
{
	size_t dim = (size_t)d, n = (size_t)t * dim;
	float *x = kernel_rows(kt, (size_t)t, dim, 1);
	float *weight = kernel_rows(kt, 1, dim, 1);
	float *add = adds ? kernel_rows(kt, (size_t)t, dim, 1) : NULL;
	if (add)
		kernel_act_round(kt, add, n, 6e4f);
	float *x_ref = kernel_zeros(kt, n), *x_plain = kernel_zeros(kt, n);
	float *ref = kernel_zeros(kt, n), *plain = kernel_zeros(kt, n);
	memcpy(x_ref, x, n * sizeof *x);
	memcpy(x_plain, x, n * sizeof *x);
	struct rms_norm_args a = args(t, d, x_ref, add, weight, ref);
	struct rms_norm_args p = args(t, d, x_plain, add, weight, plain);
	rms_norm_ref(&a);
	rms_norm_plain(&p);

	float *weight_on = UPLOAD(kt, weight, dim);
	struct rms_norm_args on = args(t, d, UPLOAD(kt, x, n),
				       add ? kernel_act_upload(kt, add, n) : NULL, weight_on,
				       kernel_act_upload(kt, ref, n));
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &on), "rms_norm");
	float *got = kernel_act_download(kt, on.y, n);
	char what[80];
	snprintf(what, sizeof what, "rms_norm T=%d D=%d%s", t, d, adds ? " add" : "");
	kernel_act_compare(kt, got, ref, plain, (size_t)t, dim, 1e-12, what);
	kernel_ok(memcmp(kernel_download(kt, on.x, n), x_ref, n * sizeof *x) == 0,
	   "%s: %s: the residual is right", kt->name, what);
	int wrong = 0;
	for (int32_t row = 0; row < t; row++) {
		size_t at = (size_t)row * dim;
		struct rms_norm_args one = args(
			1, d, UPLOAD(kt, x + at, dim),
			add ? kernel_act_upload(kt, add + at, dim) : NULL, weight_on,
			kernel_act_upload(kt, ref, dim));
		kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &one), what);
		kernel_same(kt, kernel_act_download(kt, one.y, dim), got + at, dim, &wrong);
	}
	kernel_ok(wrong == 0, "%s: %s: rows alone have the same bits", kt->name, what);
}

/* What a layer's part has made, normalised and added to the residual. */
static void sum_case(struct kernel_test *kt, int32_t t, int32_t d, float times)
{
	size_t dim = (size_t)d, n = (size_t)t * dim;
	float *x = kernel_rows(kt, (size_t)t, dim, 1);
	float *weight = kernel_rows(kt, 1, dim, 1);
	float *ref = kernel_rows(kt, (size_t)t, dim, 1), *plain = kernel_zeros(kt, n);
	memcpy(plain, ref, n * sizeof *ref);
	float *sum_on = UPLOAD(kt, ref, n);
	struct rms_norm_args a = args(t, d, x, NULL, weight, NULL);
	a.sum_scale = times;
	struct rms_norm_args p = a, on = a;
	a.sum = ref;
	p.sum = plain;
	on.x = UPLOAD(kt, x, n);
	on.weight = UPLOAD(kt, weight, dim);
	on.sum = sum_on;
	rms_norm_ref(&a);
	rms_norm_plain(&p);
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &on), "rms_norm to a sum");
	char what[80];
	snprintf(what, sizeof what, "rms_norm T=%d D=%d to a sum", t, d);
	kernel_compare(kt, kernel_download(kt, sum_on, n), ref, plain, (size_t)t, dim, 1e-12,
		       what);
}

/* y has the bits of the norm alone, and y and what rounding took from it are the norm. */
static void low_case(struct kernel_test *kt, int32_t t, int32_t d)
{
	size_t dim = (size_t)d, n = (size_t)t * dim;
	float *x = kernel_rows(kt, (size_t)t, dim, 1), *weight = kernel_rows(kt, 1, dim, 1);
	float *y[2] = {kernel_zeros(kt, n), kernel_zeros(kt, n)}, *low = kernel_zeros(kt, n);
	struct rms_norm_args on = args(t, d, UPLOAD(kt, x, n), NULL, UPLOAD(kt, weight, dim),
				       kernel_act_upload(kt, low, n));
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &on), "rms_norm");
	float *alone = kernel_act_download(kt, on.y, n);
	on.y_low = kernel_act_upload(kt, low, n);
	on.y = kernel_act_upload(kt, low, n);
	for (int i = 0; i < 2; i++) {
		struct rms_norm_args a = args(t, d, x, NULL, weight, y[i]);
		a.y_low = low;
		i == 0 ? rms_norm_ref(&a) : rms_norm_plain(&a);
	}
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &on), "rms_norm and what rounding took");
	float *got = kernel_act_download(kt, on.y, n);
	int wrong = 0;
	kernel_same(kt, got, alone, n, &wrong);
	kernel_ok(wrong == 0, "%s: rms_norm T=%d D=%d: the bits of y alone", kt->name, t, d);
	float *rest = kernel_act_download(kt, on.y_low, n);
	for (size_t i = 0; i < n; i++)
		got[i] += rest[i] / RMS_NORM_LOW;
	char what[80];
	snprintf(what, sizeof what, "rms_norm T=%d D=%d and what rounding took", t, d);
	kernel_compare(kt, got, y[0], y[1], (size_t)t, dim, 1e-12, what);
}

/* Into the second half of wider rows, whose first half stays. */
static void pitch_case(struct kernel_test *kt, int32_t t, int32_t d)
{
	size_t dim = (size_t)d, n = (size_t)t * dim, act = dtype_bytes(kt->b->act_type);
	float *x = kernel_rows(kt, (size_t)t, dim, 1), *weight = kernel_rows(kt, 1, dim, 1);
	float *wide = kernel_rows(kt, (size_t)t, 2 * dim, 1), *want = kernel_zeros(kt, n);
	kernel_act_round(kt, wide, 2 * n, 6e4f);
	struct rms_norm_args on = args(t, d, UPLOAD(kt, x, n), NULL, UPLOAD(kt, weight, dim),
				       kernel_act_upload(kt, want, n));
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &on), "rms_norm");
	want = kernel_act_download(kt, on.y, n);
	char *y = kernel_act_upload(kt, wide, 2 * n);
	on.y = y + dim * act;
	on.y_pitch = 2 * d;
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &on), "rms_norm into wider rows");
	float *got = kernel_act_download(kt, y, 2 * n);
	int wrong = 0;
	for (size_t row = 0; row < (size_t)t; row++) {
		kernel_same(kt, got + 2 * row * dim, wide + 2 * row * dim, dim, &wrong);
		kernel_same(kt, got + (2 * row + 1) * dim, want + row * dim, dim, &wrong);
	}
	kernel_ok(wrong == 0, "%s: rms_norm T=%d D=%d into wider rows", kt->name, t, d);
}

/* Rows in turn have one of several weights. */
static void weights_case(struct kernel_test *kt, int32_t t, int32_t d, int32_t n_weights)
{
	size_t dim = (size_t)d, n = (size_t)t * dim, n_weight = (size_t)n_weights * dim;
	float *x = kernel_rows(kt, (size_t)t, dim, 1), *add = kernel_rows(kt, (size_t)t, dim, 1);
	float *weight = kernel_rows(kt, 1, n_weight, 1), *y[2], *sum[2];
	kernel_act_round(kt, add, n, 6e4f);
	struct rms_norm_args on = args(t, d, UPLOAD(kt, x, n), kernel_act_upload(kt, add, n),
				       UPLOAD(kt, weight, n_weight), kernel_act_upload(kt, x, n));
	on.n_weights = n_weights;
	for (int i = 0; i < 2; i++) {
		sum[i] = memcpy(kernel_zeros(kt, n), x, n * sizeof *x);
		y[i] = kernel_zeros(kt, n);
		struct rms_norm_args a = args(t, d, sum[i], add, weight, y[i]);
		a.n_weights = n_weights;
		i == 0 ? rms_norm_ref(&a) : rms_norm_plain(&a);
	}
	char what[80];
	snprintf(what, sizeof what, "rms_norm T=%d D=%d with %d weights", t, d, n_weights);
	kernel_ran(kt, kt->b->ops->rms_norm(kt->b, &on), what);
	kernel_act_compare(kt, kernel_act_download(kt, on.y, n), y[0], y[1], (size_t)t, dim,
			   1e-12, what);
}

void case_rms_norm(struct kernel_test *kt)
{
	pitch_case(kt, 3, 130);
	pitch_case(kt, 4, 64);
	kernel_test_reset(kt);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		one_case(kt, cases[i].t, cases[i].d, cases[i].adds);
		kernel_test_reset(kt);
	}
	weights_case(kt, 8, 64, 4);
	weights_case(kt, 7, 130, 3);
	kernel_test_reset(kt);
	sum_case(kt, 3, 130, 0);
	sum_case(kt, 5, 5376, 0);
	sum_case(kt, 4, 66, 0.375f);
	sum_case(kt, 3, 136, 0);
	sum_case(kt, 3, 9221, 0);
	low_case(kt, 3, 130);
	low_case(kt, 2, 4243);
	low_case(kt, 7, 2048);
	kernel_test_reset(kt);
}
