/* SPDX-License-Identifier: Apache-2.0
 *
 * The .hip kernels on fibers against the references: every case there is a kernel
 * for, linear in each of its shapes, and all once more with the threads of a
 * workgroup in the other order.
 */
#include "tests/kernel/fiber_backend.h"
#include "tests/kernel/kernel_test.h"

static void run(const char *name, int i_axes, bool is_reversed,
		void (*const *cases)(struct kernel_test *))
{
	struct kernel_test kt = {.name = name, .is_partial = true};
	fiber_backend_create(i_axes, is_reversed, &kt.b);
	for (; *cases; cases++) {
		kernel_test_reset(&kt);
		(*cases)(&kt);
	}
	kernel_test_reset(&kt);
	arena_deinit(&kt.arena);
	backend_destroy(kt.b);
}

int main(void)
{
	static void (*const all[])(struct kernel_test *) = {
		case_linear, case_moe_router, case_qk_norm_rope_kv, case_rms_norm,
		case_rope_table, case_rows, case_silu_mul, NULL};
	static void (*const linear[])(struct kernel_test *) = {case_linear, NULL};
	run("fibers", 0, false, all);
	run("fibers, reversed", 1, true, all);
	for (int i = 2; i < FIBER_BACKEND_AXES; i++)
		run(fiber_backend_axes_name(i), i, false, linear);
	return kernel_done();
}
