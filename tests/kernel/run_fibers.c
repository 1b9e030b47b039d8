/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend against the references: every case there is a kernel for, and again
 * with the threads of a workgroup in the other order; only in that one where
 * HALOD_SHAPES_EVERY says that time is short (run_shapes.c).
 */
#include <stdlib.h>

#include "tests/kernel/fibers.h"

int main(void)
{
	static void (*const all[])(struct kernel_test *) = {
		case_attention, case_attention_fresh, case_linear, case_moe_experts,
		case_moe_router, case_qk_norm_rope_kv, case_rms_norm, case_rope_table,
		case_delta, case_mla, case_rows, case_act_mul, case_logits_top, NULL};
	if (!getenv("HALOD_SHAPES_EVERY"))
		fibers_run("hip", -1, -1, -1, all);
	setenv("HIP_CPU_REVERSED", "1", 1);
	fibers_run("hip, reversed", -1, -1, -1, all);
	return kernel_done();
}
