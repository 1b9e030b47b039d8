/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend against the references: linear and experts in each of the shapes that
 * their kernels are compiled in, with one case in three: neighbours take the others, and
 * run_fibers takes all. HALOD_CASES_EVERY=1: every case. HALOD_SHAPES_EVERY=N: one of N
 * shapes, since the shapes are one source. HALOD_SHORT: rows are not computed again alone.
 */
#include <stdlib.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "tests/kernel/cases.h"
#include "tests/kernel/fibers.h"

int main(void)
{
	const char *text = getenv("HALOD_SHAPES_EVERY");
	int every = text ? atoi(text) : 1;
	every = MAX(every, 1);
	setenv("HALOD_CASES_EVERY", "3", 0);
	static void (*const linear[])(struct kernel_test *) = {case_linear, NULL};
	static void (*const experts[])(struct kernel_test *) = {case_moe_experts, NULL};
	for (int i = 0; i < hip_linear_int4_count(); i += every)
		fibers_run(hip_linear_int4_name(i), i, -1, -1, linear);
	for (int i = 0; i < hip_linear_tile_count(); i += every)
		fibers_run(hip_linear_tile_name(i), -1, i, -1, linear);
	for (int i = 0; i < hip_experts_tile_count(); i += every)
		fibers_run(hip_experts_tile_name(i), -1, -1, i, experts);
	return kernel_done();
}
