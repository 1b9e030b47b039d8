/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend against the references: every case there is a kernel for, every other
 * one with the threads of a workgroup in the other order. Where the build has code objects, a
 * third of that: check_gfx11.py runs all of these cases on them. HALOD_CHECK=every=1: each
 * case in both orders. "short", where time is short: each in the other order alone.
 * "case=NAME": that alone; "quant=NAME": of linear and experts that format's cases
 * alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernel/fibers.h"
#include "tests/tap.h"

typedef void test_case(struct kernel_test *);

static const struct {
	const char *name;
	test_case *run;
} cases[] = {
#define CASE(name) {#name, case_##name},
	CASE(attention) CASE(attention_fused) CASE(linear) CASE(moe_experts)
	CASE(moe_router) CASE(qk_norm_rope_kv) CASE(rms_norm) CASE(rope_table)
	CASE(delta) CASE(compress) CASE(hyper) CASE(mla) CASE(rows) CASE(act_mul)
	CASE(logits_top) CASE(lora) CASE(kv_bytes) CASE(vision)
};

static bool has_code_objects(void)
{
	const char *dir = getenv("HALOD_BUILDDIR");
	char path[4096];
	snprintf(path, sizeof path, "%s/kernels/gfx1151.hsaco", dir ? dir : ".");
	return access(path, R_OK) == 0;
}

int main(void)
{
	test_case *chosen[ARRAY_LEN(cases) + 1] = {NULL};
	const char *name = tap_check("case");
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (!name || strcmp(name, cases[i].name) == 0)
			chosen[n++] = cases[i].run;
	if (n && !kernel_is_short()) {
		/* The next backend begins at the next number: it takes the others. */
		kernel_every = has_code_objects() ? 6 : 2;
		fibers_run("hip", -1, -1, -1, chosen);
	}
	setenv("HIP_CPU_REVERSED", "1", 1);
	if (n)
		fibers_run("hip, reversed", -1, -1, -1, chosen);
	return kernel_done();
}
