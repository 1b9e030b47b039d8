/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend against the references: linear and experts in each of the shapes that
 * their kernels are compiled in.
 */
#include "backend/hip_experts.h"
#include "backend/hip_linear.h"
#include "tests/kernel/fibers.h"

int main(void)
{
	static void (*const linear[])(struct kernel_test *) = {case_linear, NULL};
	static void (*const experts[])(struct kernel_test *) = {case_moe_experts, NULL};
	for (int i = 0; i < hip_linear_int4_count(); i++)
		fibers_run(hip_linear_int4_name(i), i, -1, -1, linear);
	for (int i = 0; i < hip_linear_tile_count(); i++)
		fibers_run(hip_linear_tile_name(i), -1, i, -1, linear);
	for (int i = 0; i < hip_experts_tile_count(); i++)
		fibers_run(hip_experts_tile_name(i), -1, -1, i, experts);
	fibers_run_quads("hip, four lanes a row", linear);
	fibers_run_quads("hip, four lanes a row", experts);
	setenv("HIP_CPU_REVERSED", "1", 1);
	fibers_run_quads("hip, four lanes a row, reversed", experts);
	return kernel_done();
}
