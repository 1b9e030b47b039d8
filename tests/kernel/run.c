/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases on every instruction set there is. Two sets are there twice, with one thread and
 * with three: each of the two takes every other case. So do the sets behind the best one that
 * this machine has, which takes all. With HALOD_CHECK=races
 * (ThreadSanitizer, which is slow) the cases run only where threads can race: exact, and on
 * one instruction set. The other sets hand out work in the same way. With "short" (the
 * other sanitizers) one thread is left out. In both, rows are not computed again alone.
 */
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>

#include "tests/kernel/kernel_test.h"
#include "tests/tap.h"

static void run_all(struct kernel_test *kt)
{
	static void (*const cases[])(struct kernel_test *) = {
		case_attention, case_attention_fused, case_compress, case_delta, case_hyper,
		case_kv_bytes, case_linear, case_logits_top, case_lora, case_mla, case_moe_experts,
		case_moe_router,
		case_qk_norm_rope_kv, case_rms_norm, case_rope_table, case_rows,
		case_act_mul, case_vision,
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
	enum { N_PAIRED = 4 /* the first so many backends are two sets, twice */ };
	static const struct {
		const char *name;
		struct backend_opts opts;
	} backends[] = {
		{"cpu exact, 1 thread", {"cpu", .n_threads = 1, .exact = true}},
		{"cpu exact, 3 threads", {"cpu", .n_threads = 3, .exact = true}},
		{"cpu avx512_bf16, 1 thread",
		 {"cpu", .n_threads = 1, .cpu_isa = "avx512_bf16"}},
		{"cpu avx512_bf16, 3 threads",
		 {"cpu", .n_threads = 3, .cpu_isa = "avx512_bf16"}},
		{"cpu avx512, 2 threads", {"cpu", .n_threads = 2, .cpu_isa = "avx512"}},
		{"cpu avx2, 2 threads", {"cpu", .n_threads = 2, .cpu_isa = "avx2"}},
		{"cpu portable, 2 threads",
		 {"cpu", .n_threads = 2, .cpu_isa = "portable"}},
	};
	/* The C library keeps freed memory: each case takes large blocks and gives them back. */
	mallopt(M_MMAP_THRESHOLD, INT_MAX);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	bool races_only = tap_check("races"), is_short = kernel_is_short();
	bool is_half = !races_only && !is_short;
	int n_fast = 0;
	unsigned n_runs = 0;
	for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
		const struct backend_opts *o = &backends[i].opts;
		if ((races_only || is_short) && o->n_threads == 1)
			continue;
		if (races_only && n_fast > 0)
			continue;
		bool is_paired = i < N_PAIRED || n_fast > 0;
		struct kernel_test kt = {.name = backends[i].name,
					 .n_asked = n_runs++,
					 .every = is_paired && is_half ? 2 : 1,
					 .is_fast = !o->exact,
					 .is_once = races_only || is_short};
		struct fail fail = {0};
		enum status st = backend_create(o, &kt.b, &fail);
		if (st == E_UNSUPPORTED && o->cpu_isa) {
			printf("# %s: %s\n", kt.name, fail.text);
			continue;
		}
		if (st != OK) {
			kernel_ok(false, "%s: %s", kt.name, fail.text);
			continue;
		}
		kt.has_bf16_pairs = kt.is_fast && strcmp(o->cpu_isa, "avx512_bf16") == 0;
		n_fast += kt.is_fast;
		run_all(&kt);
		backend_destroy(kt.b);
	}
	return kernel_done();
}
