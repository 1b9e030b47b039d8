/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend against the references: linear and experts in each of the shapes that
 * their kernels are compiled in, with one case in three: neighbours take the others, and
 * run_fibers takes all. HALOD_CASES_EVERY=1: every case. HALOD_SHAPES_EVERY=N: one of N
 * shapes, and a few rows of moe_quad.def, since the shapes are one source. HALOD_SHORT: rows
 * are not computed again alone.
 */
#include <stdlib.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "tests/kernel/cases.h"
#include "tests/kernel/fibers.h"

/* One token whose experts lie one behind the other, in whole turns: the kernel that asks for
 * down's weights. Rows of 4096 are more lines than there are threads. */
static void routed_alone(struct kernel_test *kt)
{
	const struct experts_case s = {{QUANT_INT4, 32, false, DTYPE_BF16, false},
				       1, 4096, 128, 6, 2, false, 0, false};
	kernel_routed_case(kt, &s, SOFTMAX);
	/* Another runtime may not tell. */
	kernel_ok(kt->n_lines > 0 || getenv("HALOD_TEST_HIP_LIBRARY"),
		  "%s: down's weights are asked for: %d lines", kt->name, kt->n_lines);
}

int main(void)
{
	const char *text = getenv("HALOD_SHAPES_EVERY");
	int every = text ? atoi(text) : 1;
	every = MAX(every, 1);
	setenv("HALOD_CASES_EVERY", "3", 0);
	static void (*const linear[])(struct kernel_test *) = {case_linear, NULL};
	static void (*const experts[])(struct kernel_test *) = {case_moe_experts, NULL};
	static void (*const alone[])(struct kernel_test *) = {routed_alone, NULL};
	for (int i = 0; i < hip_linear_int4_count(); i += every)
		fibers_run(hip_linear_int4_name(i), i, -1, -1, linear);
	for (int i = 0; i < hip_linear_tile_count(); i += every)
		fibers_run(hip_linear_tile_name(i), -1, i, -1, linear);
	for (int i = 0; i < hip_experts_tile_count(); i += every)
		fibers_run(hip_experts_tile_name(i), -1, -1, i, experts);
	fibers_run_quads("four lanes a row", &(struct fibers_quads){-1, -1, false, 0}, linear);
	/* Rows of moe_quad.def; by the way each of four kinds of place that weights lie at,
	 * which an odd step reaches. */
	int n_up = hip_moe_quad_up_count(), n_down = hip_moe_quad_down_count();
	for (int i = 0; i < MAX(MAX(n_up, n_down), 4); i += MIN(every | 1, 7)) {
		struct fibers_quads q = {i % n_up, i % n_down, i % 4 != 0, MAX(i % 4 - 1, 0)};
		char name[80];
		snprintf(name, sizeof name, "four lanes a row, %s, %s%s, %d gaps",
			 hip_moe_quad_up_name(q.up), hip_moe_quad_down_name(q.down),
			 q.has_arena ? ", arena" : "", q.gaps);
		fibers_run_quads(name, &q, experts);
	}
	setenv("HIP_CPU_REVERSED", "1", 1);
	fibers_run_quads("hip, four lanes a row, reversed", &(struct fibers_quads){-1, -1, true, 0},
			 experts);
	fibers_run_quads("four lanes a row, one token, reversed",
			 &(struct fibers_quads){-1, -1, true, 0}, alone);
	return kernel_done();
}
