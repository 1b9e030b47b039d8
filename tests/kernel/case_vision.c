/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of vision towers: layer norms, GELU and ranges. Attention in both directions is
 * among case_attention.c's.
 */
#include "tests/kernel/kernel_test.h"

/* The largest part of its bound that an error takes: the rounding of the result, and `own`
 * for what is computed in float. */
static double largest(const struct kernel_test *kt, const float *got, const float *ref, size_t n,
		      double own)
{
	double worst = 0;
	bool is_half = kt->b->act_type == DTYPE_F16;
	for (size_t i = 0; i < n; i++) {
		double size = fabs((double)ref[i]);
		double bound = own * fmax(1, size) + (is_half ? size * 0x1p-11 + 0x1p-25 : 0);
		worst = worse_of(worst, fabs((double)got[i] - ref[i]) / bound);
	}
	return worst;
}

static void test_layer_norm(struct kernel_test *kt, int32_t t, int32_t d)
{
	size_t dim = (size_t)d, n = (size_t)t * dim;
	float *x = kernel_rows(kt, 1, n, 1), *ref = kernel_zeros(kt, n);
	float *weight = kernel_rows(kt, 1, dim, 1), *bias = kernel_rows(kt, 1, dim, 1);
	for (size_t i = 0; i < n; i++)
		x[i] += 3; /* the mean is not 0 */
	struct layer_norm_args a = {t, d, 1e-6f, 0, x, weight, bias, ref};
	layer_norm_ref(&a);
	struct layer_norm_args on = {t, d, a.eps, 1, UPLOAD(kt, x, n), UPLOAD(kt, weight, dim),
				     UPLOAD(kt, bias, dim), kernel_act_upload(kt, x, n)};
	kernel_ran(kt, kt->b->ops->layer_norm(kt->b, &on), "layer_norm");
	float *got = kernel_act_download(kt, on.y, n);
	double worst = largest(kt, got, ref, n, 3e-5), mean = 0;
	kernel_ok(worst < 1, "%s: layer_norm T=%d D=%d: largest error %.2f of its bound", kt->name,
		  t, d, worst);
	for (size_t i = 0; i < dim; i++)
		mean += ((double)ref[i] - bias[i]) / weight[i] / d;
	kernel_ok(fabs(mean) < 1e-4, "%s: the reference's mean is %.1e", kt->name, mean);
	int wrong = 0;
	for (int32_t row = 0; row < t; row++) {
		struct layer_norm_args one = on;
		one.n_tok = 1;
		one.x = UPLOAD(kt, x + (size_t)row * dim, dim);
		one.y = kernel_act_upload(kt, x, dim);
		kernel_ran(kt, kt->b->ops->layer_norm(kt->b, &one), "layer_norm");
		kernel_same(kt, kernel_act_download(kt, one.y, dim), got + (size_t)row * dim, dim,
			    &wrong);
	}
	kernel_ok(wrong == 0, "%s: layer_norm: rows alone have the same bits", kt->name);
}

/* Rows that take vectors of weights in turn, without a bias: heads of queries, T tokens of H. */
static void test_head_norms(struct kernel_test *kt, int32_t t, int32_t h, int32_t d)
{
	size_t dim = (size_t)d, n = (size_t)(t * h) * dim, n_weights = (size_t)h * dim;
	float *x = kernel_rows(kt, 1, n, 1), *ref = kernel_zeros(kt, n);
	float *weight = kernel_rows(kt, 1, n_weights, 1);
	struct layer_norm_args a = {t * h, d, 1e-5f, h, x, weight, NULL, ref};
	layer_norm_ref(&a);
	struct layer_norm_args on = {t * h, d, a.eps, h, UPLOAD(kt, x, n),
				     UPLOAD(kt, weight, n_weights), NULL,
				     kernel_act_upload(kt, x, n)};
	kernel_ran(kt, kt->b->ops->layer_norm(kt->b, &on), "layer_norm");
	double worst = largest(kt, kernel_act_download(kt, on.y, n), ref, n, 3e-5);
	kernel_ok(worst < 1, "%s: layer_norm T=%d of %d heads D=%d: largest error %.2f of its "
		  "bound", kt->name, t, h, d, worst);
}

/* GELU(1), by Phi(1) = 0.8413447460685429 and by tanh. */
static void test_gelu(struct kernel_test *kt, bool is_tanh)
{
	enum { T = 3, D = 401 };
	float x[T * D], ref[T * D];
	for (int i = 0; i < T * D; i++)
		x[i] = (float)(i - T * D / 2) / 50;
	x[0] = 65504;
	x[1] = -65504;
	kernel_act_round(kt, x, T * D, 65504);
	memcpy(ref, x, sizeof ref);
	struct gelu_args a = {T, D, is_tanh, ref};
	gelu_ref(&a);
	struct gelu_args on = {T, D, is_tanh, kernel_act_upload(kt, x, T * D)};
	kernel_ran(kt, kt->b->ops->gelu(kt->b, &on), "gelu");
	float *got = kernel_act_download(kt, on.x, T * D);
	double own = kt->b->act_type == DTYPE_F16 ? 2e-6 : 1e-6;
	double worst = largest(kt, got, ref, T * D, own);
	double one = is_tanh ? 0.8411919906082768 : 0.8413447460685429;
	double slack = kt->b->act_type == DTYPE_F16 ? 0x1p-12 : 1e-6;
	kernel_ok(worst < 1, "%s: gelu%s: largest error %.2f of its bound", kt->name,
		  is_tanh ? " by tanh" : "", worst);
	kernel_ok(fabs((double)got[T * D / 2 + 50] - one) <= slack, "%s: gelu(1) is %.7f",
		  kt->name, (double)got[T * D / 2 + 50]);
}

/* A product that left the range of halves is infinite, and counts as the largest one. */
static void test_gelu_infinite(struct kernel_test *kt, bool is_tanh)
{
	static const uint16_t in[3] = {0x7C00, 0xFC00, 0x3C00};
	struct gelu_args on = {1, 3, is_tanh, UPLOAD(kt, in, 3)};
	if (kt->b->act_type != DTYPE_F16)
		return;
	kernel_ran(kt, kt->b->ops->gelu(kt->b, &on), "gelu");
	float *got = kernel_act_download(kt, on.x, 3);
	kernel_ok(got[0] == 65504 && got[1] == 0, "%s: gelu of infinities: %g, %g", kt->name,
		  (double)got[0], (double)got[1]);
}

/* Three of eight numbers and some more are within; the limits are halves. */
static void test_clip(struct kernel_test *kt, bool is_f32, bool is_own)
{
	enum { T = 3, D = 403 };
	float x[T * D], ref[T * D], none[T * D] = {0};
	for (int i = 0; i < T * D; i++)
		x[i] = (float)(i * 37 % 401 - 200) / 64;
	struct clip_args a = {T, D, -1.25f, 0.75f, is_f32, x, ref};
	clip_ref(&a);
	void *on_x = is_f32 ? (void *)UPLOAD(kt, x, T * D) : kernel_act_upload(kt, x, T * D);
	void *on_y = is_own ? on_x
		     : is_f32 ? (void *)UPLOAD(kt, none, T * D)
			      : kernel_act_upload(kt, none, T * D);
	struct clip_args on = {T, D, a.low, a.high, is_f32, on_x, on_y};
	kernel_ran(kt, kt->b->ops->clip(kt->b, &on), "clip");
	float *got = is_f32 ? kernel_download(kt, on_y, T * D)
			    : kernel_act_download(kt, on_y, T * D);
	int wrong = 0, n_cut = 0;
	kernel_same(kt, got, ref, T * D, &wrong);
	for (int i = 0; i < T * D; i++)
		n_cut += x[i] != got[i];
	kernel_ok(wrong == 0 && n_cut > T * D / 3 && n_cut < T * D, "%s: clip%s%s: %d cut",
		  kt->name, is_f32 ? " f32" : "", is_own ? " in place" : "", n_cut);
}

void case_vision(struct kernel_test *kt)
{
	test_layer_norm(kt, 1, 64);
	test_layer_norm(kt, 5, 1152);
	test_layer_norm(kt, 3, 37);
	test_head_norms(kt, 5, 3, 96);
	test_head_norms(kt, 1, 8, 128);
	test_layer_norm(kt, 2, 4612); /* more than two turns of a workgroup */
	test_gelu(kt, false);
	test_gelu(kt, true);
	test_gelu_infinite(kt, false);
	test_gelu_infinite(kt, true);
	test_clip(kt, false, false);
	test_clip(kt, false, true);
	test_clip(kt, true, true);
}
