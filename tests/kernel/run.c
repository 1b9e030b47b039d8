/* SPDX-License-Identifier: Apache-2.0
 *
 * Every case on every backend there is.
 */
#include "tests/kernel/kernel_test.h"

static void run_all(struct kernel_test *kt)
{
	static void (*const cases[])(struct kernel_test *) = {
		case_attention, case_delta, case_linear, case_mla, case_moe_experts,
		case_moe_router, case_qk_norm_rope_kv, case_rms_norm, case_rope_table,
		case_rows, case_silu_mul,
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kernel_test_reset(kt);
		cases[i](kt);
	}
	kernel_test_reset(kt);
	arena_deinit(&kt->arena);
}

int main(void)
{
	static const struct {
		const char *name;
		struct backend_opts opts;
	} backends[] = {
		{"cpu, 1 thread", {.name = "cpu", .n_threads = 1}},
		{"cpu, 3 threads", {.name = "cpu", .n_threads = 3}},
	};
	for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
		struct kernel_test kt = {.name = backends[i].name};
		struct fail fail = {0};
		if (backend_create(&backends[i].opts, &kt.b, &fail) != OK) {
			kernel_ok(false, "%s: %s", kt.name, fail.text);
			continue;
		}
		run_all(&kt);
		backend_destroy(kt.b);
	}
	return kernel_done();
}
