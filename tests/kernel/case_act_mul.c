/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define act_mul_ref act_mul_plain
#include "kernels/ops/act_mul_ref.c"
#undef act_mul_ref
#include "tests/kernel/plain_end.h"

/* alpha * gate is rounded to float32 before its exponential: what this adds to the relative
 * error of the result. */
static double angle_error(const struct activation *act, float gate)
{
	bool is_rounded = act->kind == ACT_CLAMPED || act->kind == ACT_SCALED;
	return is_rounded ? fabs((double)act->alpha * gate) * 0x1p-24 : 0;
}

static void one_case(struct kernel_test *kt, const char *name, struct activation act,
		     int32_t t, int32_t d)
{
	size_t n = (size_t)t * (size_t)d;
	float *gate = kernel_rows(kt, (size_t)t, (size_t)d, 1);
	float *up = kernel_rows(kt, (size_t)t, (size_t)d, 1);
	float *ref = kernel_zeros(kt, n), *plain = kernel_zeros(kt, n);
	static const float extremes[] = {-200, -88, -87, 87, 88, 200, 0, -0.0f, 1e-38f,
					 -1e-38f, 3e38f, -3e38f};
	for (size_t i = 0; i < ARRAY_LEN(extremes) && i < (size_t)d; i++) {
		gate[i] = extremes[i];
		up[i] = 0.5f;
	}
	kernel_act_round(kt, gate, n, 240); /* products of halves: below 65504 */
	kernel_act_round(kt, up, n, 240);
	struct act_mul_args a = {t, d, act, gate, up, ref, 0}, p = {t, d, act, gate, up, plain, 0};
	act_mul_ref(&a);
	act_mul_plain(&p);
	char what[80];
	snprintf(what, sizeof what, "act_mul %s T=%d F=%d", name, t, d);
	struct act_mul_args on = {t, d, act, kernel_act_upload(kt, gate, n),
				  kernel_act_upload(kt, up, n),
				  kernel_act_upload(kt, ref, n), 0};
	kernel_ran(kt, kt->b->ops->act_mul(kt->b, &on), what);
	float *got = kernel_act_download(kt, on.y, n);
	/* The largest values would hide the rest: judge them apart. Half a unit in the
	 * last place of a half, 2^-11, or of its subnormals, 2^-25. */
	bool is_half = kt->b->act_type == DTYPE_F16;
	double worst = 0, least = is_half ? 0x1p-25 / 0x1p-11 : 1e-20;
	for (size_t i = 0; i < n; i++)
		worst = worse_of(worst, fabs((double)got[i] - ref[i]) /
					    (fabs((double)ref[i]) + least) -
					    angle_error(&act, gate[i]));
	bool is_small = worst < (is_half ? 0x1.01p-11 : 1e-6);
	kernel_ok(is_small, "%s: %s: largest relative error %.1e", kt->name, what,
		  worst);
	kernel_act_compare(kt, got, ref, plain, (size_t)t, (size_t)d, 1e-12, what);
	on.y = (void *)(uintptr_t)on.gate;
	kernel_ran(kt, kt->b->ops->act_mul(kt->b, &on), what);
	kernel_ok(memcmp(kernel_act_download(kt, on.y, n), got, n * sizeof *got) == 0,
	   "%s: %s: in place", kt->name, what);
}

/* Each row of up is the second half of a wider one. */
static void pitch_case(struct kernel_test *kt, int32_t t, int32_t d)
{
	size_t n = (size_t)t * (size_t)d, dim = (size_t)d, act = dtype_bytes(kt->b->act_type);
	float *gate = kernel_rows(kt, (size_t)t, dim, 1);
	float *wide = kernel_rows(kt, (size_t)t, 2 * dim, 1);
	float *ref = kernel_zeros(kt, n), *plain = kernel_zeros(kt, n);
	kernel_act_round(kt, gate, n, 240);
	kernel_act_round(kt, wide, 2 * n, 240);
	struct act_mul_args a = {t, d, {.kind = ACT_GELU_TANH}, gate, wide + dim, ref, 2 * d};
	struct act_mul_args p = a, on = a;
	p.y = plain;
	on.gate = kernel_act_upload(kt, gate, n);
	on.up = (char *)kernel_act_upload(kt, wide, 2 * n) + dim * act;
	on.y = kernel_act_upload(kt, ref, n);
	act_mul_ref(&a);
	act_mul_plain(&p);
	kernel_ran(kt, kt->b->ops->act_mul(kt->b, &on), "act_mul of wider rows");
	kernel_act_compare(kt, kernel_act_download(kt, on.y, n), ref, plain, (size_t)t, dim,
			   1e-12, "act_mul of wider rows");
}

void case_act_mul(struct kernel_test *kt)
{
	static const struct {
		const char *name;
		struct activation act;
	} acts[] = {{"silu", {.kind = ACT_SILU}},
		    {"gelu", {.kind = ACT_GELU_TANH}},
		    {"clamped", {.kind = ACT_CLAMPED, .alpha = 1.702f, .limit = 7}},
		    {"clipped", {.kind = ACT_CLIPPED, .limit = 7, .gate_limit = 5}},
		    {"scaled", {.kind = ACT_SCALED, .alpha = 0.88f, .scale = 0.6f}},
		    {"relu", {.kind = ACT_RELU}}};
	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		one_case(kt, acts[i].name, acts[i].act, 1, 128);
		one_case(kt, acts[i].name, acts[i].act, 1, 13); /* no row of extremes */
		one_case(kt, acts[i].name, acts[i].act, 3, 13);
		one_case(kt, acts[i].name, acts[i].act, 5, i ? 640 : 9728);
	}
	pitch_case(kt, 3, 13);
	pitch_case(kt, 5, 640);
}
