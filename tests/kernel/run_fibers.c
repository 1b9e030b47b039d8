/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend on the runtime of tests/hip-on-cpu against the references: every
 * case there is a kernel for, linear in each of its shapes. Every allocation is one of
 * the runtime's, so that its ends are seen. `run_fibers reversed`: the threads of a
 * workgroup in the other order. HALOD_TEST_HIP_LIBRARY=FILE: on that runtime instead
 * (tests/hip-on-cuda, or a real one).
 */
#include "backend/hip.h"
#include "backend/hip_experts.h"
#include "backend/hip_linear.h"
#include "tests/kernel/kernel_test.h"

/* tile, int4_axes: see struct hip. With a tile all tokens go there, with axes none. */
static void run(const char *name, int int4_axes, int tile, int moe_tile, bool quads,
		void (*const *cases)(struct kernel_test *))
{
	struct kernel_test kt = {.name = name, .is_partial = true,
				 .is_variant = int4_axes >= 0 || tile >= 0};
	struct fail fail = {0};
	const char *dir = getenv("HALOD_BUILDDIR");
	const char *other = getenv("HALOD_TEST_HIP_LIBRARY");
	char library[4096];
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 dir ? dir : ".");
	if (other)
		snprintf(library, sizeof library, "%s", other);
	struct backend_opts o = {.name = "hip", .hip_library = library, .own_blocks = true};
	if (backend_create(&o, &kt.b, &fail) != OK) {
		kernel_ok(false, "%s: %s", name, fail.text);
		return;
	}
	struct hip *h = hip_of(kt.b);
	h->few_groups = true;
	h->prefers_quads = quads || h->prefers_quads;
	h->int4_axes = int4_axes;
	h->tile = tile;
	h->moe_tile = moe_tile;
	h->moe_tile_from = moe_tile >= 0 ? 1 : h->moe_tile_from;
	h->tile_from = tile >= 0 ? 1 : int4_axes >= 0 ? INT32_MAX : h->tile_from;
	kt.tile_from = moe_tile >= 0 ? 1 : h->tile_from;
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
		case_attention, case_linear, case_moe_experts, case_moe_router,
		case_qk_norm_rope_kv, case_rms_norm, case_rope_table, case_delta, case_mla,
		case_rows, case_silu_mul, case_logits_top, NULL};
	static void (*const linear[])(struct kernel_test *) = {case_linear, NULL};
	static void (*const quads[])(struct kernel_test *) = {
		case_linear, case_moe_experts, NULL};
	static void (*const experts[])(struct kernel_test *) = {case_moe_experts, NULL};
	run("hip", -1, -1, -1, false, all);
	run("hip, four lanes a row", -1, -1, -1, true, quads);
	for (int i = 0; i < hip_linear_int4_count(); i++)
		run(hip_linear_int4_name(i), i, -1, -1, false, linear);
	for (int i = 0; i < hip_linear_tile_count(); i++)
		run(hip_linear_tile_name(i), -1, i, -1, false, linear);
	for (int i = 0; i < hip_experts_tile_count(); i++)
		run(hip_experts_tile_name(i), -1, -1, i, false, experts);
	setenv("HIP_CPU_REVERSED", "1", 1);
	run("hip, reversed", -1, -1, -1, false, all);
	run("hip, four lanes a row, reversed", -1, -1, -1, true, quads);
	return kernel_done();
}
