/* SPDX-License-Identifier: Apache-2.0
 *
 * What one run of a case must read and do, by the sizes of its model:
 * of that come the rates that kernels bench prints.
 */
#include "lab/kernel_case.h"

#include <math.h>

#include "lab/case_weight.h"
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

/* Weights of every format: what the reference decodes of them is finite, small, and not all
 * the same. */
static void test_every_format(void)
{
	enum { N = 24, K = 512 };
	static float x[N * K];
	const struct case_weight_opts o = {.group = 32};
	uint64_t state = 1;
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		struct case_weight c;
		struct fail fail = {0};
		if (!ok(case_weight_make(&state, q, N, K, &o, &c, &fail) == OK, "%s: %s",
			quant_name(q), fail.text))
			continue;
		weight_decode(&c.w, 0, N, x);
		float most = 0;
		int n_bad = 0, n_like = 0;
		for (int i = 0; i < N * K; i++) {
			n_bad += !isfinite(x[i]);
			n_like += x[i] == x[0];
			most = fmaxf(most, fabsf(x[i]));
		}
		ok(n_bad == 0 && most <= 8, "%s is finite and small", quant_name(q));
		ok(n_like < N * K / 2, "%s has different numbers", quant_name(q));
		is_int((int64_t)weight_bytes(&c.w), (int64_t)case_weight_bytes(q, N, K, &o),
		       "bytes");
		case_weight_deinit(&c);
	}
	struct case_weight odd;
	struct fail fail = {0};
	ok(case_weight_make(&state, QUANT_Q4_K, 8, 384, &o, &odd, &fail) == E_UNSUPPORTED &&
	   strstr(fail.text, "256"), "rows must be whole blocks: %s", fail.text);
}

static void test_format_names(void)
{
	enum quant q[QUANT_COUNT];
	struct fail fail = {0};
	is_int(case_weight_formats("q4_k,nvfp4,q4_k", q, &fail), 2, "each once");
	ok(q[0] == QUANT_Q4_K && q[1] == QUANT_NVFP4, "in the order asked for");
	is_int(case_weight_formats("q4_k,q4", q, &fail), 0, "a part of a name");
	ok(strstr(fail.text, "\"q4\"") && strstr(fail.text, "f32, f16") &&
	   strstr(fail.text, quant_name(QUANT_COUNT - 1)), "the message: %s", fail.text);
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
	test_every_format();
	test_format_names();
	test_same_weights("qwen3-4b");
	test_same_weights("qwen3-8b");
	return tap_done();
}
