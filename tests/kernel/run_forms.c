/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend against the references: each kernel of linear and of experts in each way
 * that it can be called, once (case_forms.c). HALOD_CHECK=case=route: those with a router alone.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "tests/kernel/cases.h"
#include "tests/kernel/fibers.h"
#include "tests/tap.h"

typedef void test_case(struct kernel_test *);

int main(void)
{
	static test_case *const few[] = {forms_rows, forms_any, forms_experts_few, NULL};
	static test_case *const int4[] = {forms_int4, forms_route, NULL};
	static test_case *const route[] = {forms_route, NULL};
	static test_case *const tile[] = {forms_tile, NULL};
	static test_case *const experts_tile[] = {forms_experts_tile, NULL};
	const char *name = tap_check("case");
	bool is_route = name && strcmp(name, "route") == 0;
	for (int i = 0; i < hip_linear_int4_count(); i++)
		fibers_run(hip_linear_int4_name(i), i, -1, -1, is_route ? route : int4);
	if (is_route)
		return kernel_done();
	for (int i = 0; i < hip_linear_tile_count(); i++)
		fibers_run(hip_linear_tile_name(i), -1, i, -1, tile);
	for (int i = 0; i < hip_experts_tile_count(); i++)
		fibers_run(hip_experts_tile_name(i), -1, -1, i, experts_tile);
	fibers_run("hip", -1, -1, -1, few);
	return kernel_done();
}
