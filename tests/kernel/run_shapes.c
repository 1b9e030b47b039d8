/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend against the references: linear and experts in each of the shapes that
 * their kernels are compiled in, with one case in three: neighbours take the others, and
 * run_fibers takes all. HALOD_CHECK=every=1: every case. "shapes=N": one of N
 * shapes, since the shapes are one source. "short": rows are not computed again alone.
 */
#include <stdlib.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "tests/kernel/cases.h"
#include "tests/kernel/fibers.h"
#include "tests/tap.h"

int main(void)
{
	const char *text = tap_check("shapes");
	int every = text ? atoi(text) : 1;
	every = MAX(every, 1);
	kernel_every = 3;
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
