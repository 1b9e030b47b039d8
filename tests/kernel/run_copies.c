/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that have another way to LDS where hardware copies there: on fibers that copy when
 * a thread waits (kernels/device/dialect_cpu_copies.h). gfx11 has no such copies, so nothing else
 * here executes that way; an NVIDIA GPU takes it. Attention has every other case with the threads
 * in one order, and the rest in the other. HALOD_CASES_EVERY=N: one of N cases. HALOD_SHORT, where
 * time is short: attention in the other order alone, and one of three tiles.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend/hip/hip.h"
#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "tests/kernel/cases.h"
#include "tests/kernel/fibers.h"

/* Without this, a library that copies through registers would pass, too. */
static void expect_copies(const char *library)
{
	struct backend_opts o = {.name = "hip", .hip_library = library};
	struct backend *b = NULL;
	struct fail fail = {0};
	bool is_made = backend_create(&o, &b, &fail) == OK;
	kernel_ok(is_made && hip_of(b)->copies_to_lds, "the kernels copy to LDS%s", fail.text);
	if (is_made)
		backend_destroy(b);
}

/* K of one, two and three turns (kernels/linear/tile_gemm_ahead.h). Zero points differ from step to
 * step, scales from turn to turn. */
static void case_turns(struct kernel_test *kt)
{
	static const struct linear_case cases[] = {
		{{QUANT_INT4, 32, true, DTYPE_F16, false}, 70, 384, {67, 9}, true, false, false},
		{{QUANT_INT4, 64, false, DTYPE_BF16, false}, 130, 256, {131}, false, true, false},
		{{QUANT_INT4, 128, true, DTYPE_F16, false}, 20, 128, {35}, false, false, true},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kernel_linear_case(kt, &cases[i]);
		kernel_test_reset(kt);
	}
}

/* The launches of a product in a step of its own. */
static void expect_launches(struct kernel_test *kt, const struct linear_args *a, int meant)
{
	const struct weight *w = a->out[0].w;
	bool runs, is_again;
	kernel_ran(kt, kt->b->ops->step_begin(kt->b, 0, &runs), "step");
	kernel_ran(kt, kt->b->ops->linear(kt->b, a), "linear");
	kernel_ran(kt, kt->b->ops->step_end(kt->b, &is_again), "step");
	kernel_ok(kt->b->n_step_launches == meant, "%s: T=%d N=%d K=%d, %d bits: %d launches of %d",
		  kt->name, a->n_tok, w->n, w->k, w->quant == QUANT_INT4 ? 4 : 8,
		  kt->b->n_step_launches, meant);
}

/* Launches of a product of eight tokens that are meant. */
static int launches_meant;

/* Weights are read once for as many tokens as LDS holds. */
static void case_long_rows(struct kernel_test *kt)
{
	enum { T = 8, N = 37, K = 12288 };
	static const struct weight_kind kinds[] = {{QUANT_INT4, 32, false, DTYPE_F16, false},
						   {.quant = QUANT_INT8, .scale_type = DTYPE_F32}};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct weight host = kernel_weight(kt, kinds[i], N, K);
		struct weight w = kernel_upload_weight(kt, &host);
		struct linear_args a = {
			.n_tok = T, .n_out = 1,
			.x = kernel_act_upload(kt, kernel_rows(kt, T, K, 1), T * K),
			.out = {{.w = &w, .is_f32 = true,
				 .y = UPLOAD(kt, kernel_zeros(kt, T * N), T * N)}}};
		expect_launches(kt, &a, launches_meant);
	}
}

/* Up to eight workgroups of 16 rows a compute unit normalise for themselves; more get a launch. */
static void case_norm_apart(struct kernel_test *kt)
{
	enum { K = 128, MOST = 8 * 16, MORE = 16 };
	int32_t most = hip_of(kt->b)->device.n_cu * MOST;
	for (int32_t n = most; n <= most + MORE; n += MORE) {
		struct weight host = kernel_weight(
			kt, (struct weight_kind){QUANT_INT4, 32, false, DTYPE_F16, false}, n, K);
		struct weight w = kernel_upload_weight(kt, &host);
		struct rms_norm_args norm = {
			.n_tok = 1, .dim = K, .eps = 1e-6f,
			.x = UPLOAD(kt, kernel_rows(kt, 1, K, 1), K),
			.weight = UPLOAD(kt, kernel_rows(kt, 1, K, 1), K),
			.y = kernel_act_upload(kt, kernel_zeros(kt, K), K)};
		struct linear_args a = {
			.n_tok = 1, .n_out = 1, .norm = &norm, .x = norm.y,
			.out = {{.w = &w, .is_f32 = true,
				 .y = UPLOAD(kt, kernel_zeros(kt, (size_t)n), (size_t)n)}}};
		expect_launches(kt, &a, n > most ? 2 : 1);
		kernel_test_reset(kt);
	}
}

int main(void)
{
	static void (*const attention[])(struct kernel_test *) = {
		case_attention, case_attention_fresh, case_vision, NULL};
	static void (*const linear[])(struct kernel_test *) = {case_linear, case_turns, NULL};
	static void (*const experts[])(struct kernel_test *) = {case_moe_experts, NULL};
	const char *dir = getenv("HALOD_BUILDDIR");
	char library[4096];
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_copies.so", dir ? dir : ".");
	setenv("HALOD_TEST_HIP_LIBRARY", library, 0);
	setenv("HIP_CPU_LDS", "232448", 1);
	expect_copies(getenv("HALOD_TEST_HIP_LIBRARY"));
	bool is_sampled = getenv("HALOD_CASES_EVERY") != NULL;
	setenv("HALOD_CASES_EVERY", "2", 0);
	if (!kernel_is_short())
		fibers_run("copies", -1, -1, -1, attention);
	setenv("HIP_CPU_REVERSED", "1", 1);
	fibers_run("copies, reversed", -1, -1, -1, attention);
	setenv("HALOD_QUANT", "int4", 0);
	setenv("HALOD_CASES_EVERY", "6", !is_sampled);
	int step = kernel_is_short() ? 3 : 1;
	for (int i = 0; i < hip_linear_tile_count(); i += step)
		fibers_run(hip_linear_tile_name(i), -1, i, -1, linear);
	for (int i = 0; i < hip_experts_tile_count(); i += step)
		fibers_run(hip_experts_tile_name(i), -1, -1, i, experts);
	struct fibers_quads quads = {-1, -1, true, 0};
	fibers_run_quads("copies, four lanes a row", &quads, linear);
	static void (*const apart[])(struct kernel_test *) = {case_norm_apart, NULL};
	fibers_run_quads("four lanes a row, a norm", &quads, apart);
	static void (*const long_rows[])(struct kernel_test *) = {case_long_rows, NULL};
	launches_meant = 1;
	fibers_run_quads("four lanes a row, long rows, much LDS", &quads, long_rows);
	setenv("HIP_CPU_LDS", "65536", 1);
	launches_meant = 4;
	fibers_run_quads("four lanes a row, long rows, gfx11's LDS", &quads, long_rows);
	return kernel_done();
}
