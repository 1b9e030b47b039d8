/* SPDX-License-Identifier: Apache-2.0
 *
 * What one run of a case must read and do, by the sizes of its model:
 * of that come the rates that kernels bench prints.
 */
#include "lab/kernel_case.h"

#include "tests/tap.h"

static const struct case_shape *find(const char *model, const char *part)
{
	const struct case_shape *s;
	for (size_t i = 0; (s = case_shape_at(i)); i++)
		if (strcmp(s->model, model) == 0 && strcmp(s->part, part) == 0)
			return s;
	return NULL;
}

static void costs(struct backend *b, const char *model, const char *part, int32_t n_tok,
		  double bytes, double flops)
{
	struct case_opts o = {.group = 32, .n_tok = n_tok, .depth = n_tok, .is_null = true};
	const struct case_shape *s = find(model, part);
	struct kernel_case *c;
	struct fail fail = {0};
	if (!ok(s && kernel_case_create(b, s, &o, &c, &fail) == OK, "%s %s, %d tokens: %s",
		model, part, (int)n_tok, fail.text))
		return;
	is_near(kernel_case_bytes(c), bytes, 1, "bytes");
	is_near(kernel_case_flops(c), flops, 1, "operations");
	kernel_case_destroy(c);
}

/* kernels tune goes by op and format. */
static void test_same_weights(const char *model)
{
	const struct case_shape *plain = find(model, "gate-up"), *whole = find(model, "ffn-up");
	ok(plain && whole && plain->k == whole->k && plain->quant == whole->quant &&
	   memcmp(plain->n, whole->n, sizeof plain->n) == 0,
	   "%s: ffn-up has the weights of gate-up", model);
	ok(plain && whole && plain->op == CASE_LINEAR && whole->op != CASE_LINEAR,
	   "and nothing is tuned by it");
}

int main(void)
{
	struct backend *b;
	struct fail fail = {0};
	struct backend_opts o = {.name = "cpu", .n_threads = 1};
	const double v = 151936, up = 2.0 * 12288 * 4096;
	if (!ok(backend_create(&o, &b, &fail) == OK, "a backend: %s", fail.text))
		return tap_done();
	costs(b, "qwen3-8b", "head", 1, v * 4096 * 2, 2 * v * 4096);
	costs(b, "qwen3-8b", "head-int8", 1, v * (4096 + 4), 2 * v * 4096);
	costs(b, "qwen3-30b-a3b", "head-int8", 4, v * (2048 + 4), 8 * v * 2048);
	costs(b, "qwen3-8b", "head-int4", 1, v * (2048 + 128 * 2), 2 * v * 4096);
	costs(b, "qwen3-8b", "top", 1, v * 4, v * 8);
	costs(b, "qwen3-8b", "top", 3, v * 12, v * 24);
	costs(b, "qwen3-8b", "gate-up", 2, up / 2 + up / 32 * 2, 4 * up);
	costs(b, "qwen3-8b", "ffn-up", 2, up / 2 + up / 32 * 2, 4 * up);
	backend_destroy(b);
	test_same_weights("qwen3-4b");
	test_same_weights("qwen3-8b");
	return tap_done();
}
