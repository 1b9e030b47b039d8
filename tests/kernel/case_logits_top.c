/* SPDX-License-Identifier: Apache-2.0
 *
 * The best of a row are exactly the reference's, in order; sums are within the
 * contract's 1e-5.
 */
#include "tests/kernel/kernel_test.h"

enum { ROWS = 3, LONG = 10000 /* of such rows one: how rows lie, short ones show */ };

/* Ways a row may look. The kernels leave out most of a row by the best of its runs:
 * neighbours that are all good, or all alike, leave them nothing to leave out. */
enum shape { NOISE, ALIKE, FEW_VALUES, RISING, FALLING, ONE_RUN, FEW_FINITE, ZEROS, SHAPES };
static const char *const shape_names[] = {"noise", "alike", "few values", "rising",
					  "falling", "one run", "few finite", "zeros"};

static void fill(struct kernel_test *kt, enum shape s, float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		float noise = kernel_noise(kt);
		switch (s) {
		case ALIKE: x[i] = -3.25f; break;
		case FEW_VALUES: x[i] = roundf(noise); break;
		case RISING: x[i] = (float)i * 1e-3f; break;
		case FALLING: x[i] = (float)i * -1e-3f; break;
		case ONE_RUN: x[i] = i / 900 == 1 ? 20 + noise * 0.01f : noise; break;
		case FEW_FINITE: x[i] = i % 37 ? -INFINITY : noise; break;
		case ZEROS: x[i] = kernel_random(kt) & 1 ? -0.0f : 0; break;
		default: x[i] = noise * 4; break;
		}
	}
}

static struct logits_top *run(struct kernel_test *kt, const float *x, const float *inv_t,
			      int32_t rows, int32_t v)
{
	size_t bytes = (size_t)rows * sizeof(struct logits_top);
	float *none = kernel_zeros(kt, bytes / sizeof *none);
	struct logits_top_args a = {rows, v, UPLOAD(kt, x, (size_t)(rows * v)),
				    UPLOAD(kt, inv_t, (size_t)rows),
				    kernel_upload(kt, none, bytes)};
	kernel_ran(kt, kt->b->ops->logits_top(kt->b, &a), "logits_top");
	return (struct logits_top *)kernel_download(kt, a.out, bytes / sizeof(float));
}

static double error_of(float got, float want)
{
	return fabs((double)got - want) / want;
}

static void one_case(struct kernel_test *kt, enum shape s, int32_t v)
{
	static const float inv_t[ROWS] = {1, 1.0f / 0.6f, 1 / 2.5f};
	int32_t rows = v < LONG ? ROWS : 1;
	float *x = kernel_zeros(kt, (size_t)(rows * v));
	for (int r = 0; r < rows; r++)
		fill(kt, s, x + r * v, v);
	struct logits_top want[ROWS], *got = run(kt, x, inv_t, rows, v);
	logits_top_ref(&(struct logits_top_args){rows, v, x, inv_t, want});
	int wrong = 0;
	double worst = 0;
	for (int r = 0; r < rows; r++) {
		size_t n = (size_t)want[r].n;
		wrong += got[r].n != want[r].n || got[r].max != want[r].max ||
			 memcmp(got[r].id, want[r].id, n * sizeof *want->id) != 0 ||
			 memcmp(got[r].logit, want[r].logit, n * sizeof *want->logit) != 0;
		worst = worse_of(worst, error_of(got[r].sum, want[r].sum));
		worst = worse_of(worst, error_of(got[r].sum_t, want[r].sum_t));
		struct logits_top *alone = run(kt, x + r * v, inv_t + r, 1, v);
		wrong += memcmp(alone, &got[r], sizeof *alone) != 0;
	}
	kernel_ok(wrong == 0 && worst <= 1e-5, "%s: logits_top V=%d, %s: sums within %.1e",
		  kt->name, (int)v, shape_names[s], worst);
}

/* What is no distribution is seen as that, wherever it stands. */
static void test_insane(struct kernel_test *kt)
{
	enum { V = 9000, KINDS = 4 };
	static const float inv_t = 1;
	int seen = 0;
	for (int kind = 0; kind < KINDS; kind++) {
		float *x = kernel_zeros(kt, V);
		fill(kt, NOISE, x, V);
		/* A NaN among infinities: it is not the best of its run. */
		for (int i = 0; i < V && kind > 1; i++)
			x[i] = kind == 2 && i < V / 2 ? x[i] : -INFINITY;
		if (kind < 3)
			x[V - 7] = kind == 1 ? INFINITY : NAN;
		seen += isnan(run(kt, x, &inv_t, 1, V)->sum);
	}
	kernel_ok(seen == KINDS, "%s: logits_top: NaN and infinity are told", kt->name);
}

void case_logits_top(struct kernel_test *kt)
{
	static const int32_t sizes[] = {1, 31, 127, 128, 129, 1000, 32 * 256 + 5, 40007};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (enum shape s = 0; s < SHAPES; s++) {
			if (!kernel_takes(kt))
				continue;
			one_case(kt, s, sizes[i]);
			kernel_test_reset(kt);
		}
	one_case(kt, NOISE, 151936);
	test_insane(kt);
}
