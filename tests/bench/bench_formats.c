/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the CPU backend multiplies by weights of each format: the seven weights of a
 * layer of Qwen3-1.7B (2048 wide, ffn 6144, 16/8 heads of 128), LAYERS times over, so
 * that no cache holds them, with one input (decode), eight, and 512 (prefill).
 *
 *     bench_formats [exact|avx512_bf16|avx512|avx2|portable|auto [FORMAT…]]
 *
 * Prints rows of CSV: case, "format isa", tokens/s of 28 such layers without attention and
 * head, unit; and what a weight takes in memory. Medians; bits are random.
 *
 *     build/tests/bench/bench_formats | sed "s/^/$(git rev-parse --short HEAD),$(date +%F),/"
 */
#include <string.h>

#include "base/clock.h"
#include "tests/kernel/kernel_test.h"

enum { LAYERS = 3, MODEL_LAYERS = 28, MAX_TOK = 512, D = 2048, KV = 1024, F = 6144,
       WEIGHTS = 7, MAX_ROUNDS = 9 };

static const struct {
	int32_t n, k;
	int x;      /* which input: 0 the stream, 1 attention's, 2 the hidden layer */
} shapes[WEIGHTS] = {{D, D, 0}, {KV, D, 0}, {KV, D, 0}, {D, D, 1}, {F, D, 0}, {F, D, 0},
		     {D, F, 2}};

struct bench {
	struct kernel_test kt;
	struct weight w[LAYERS][WEIGHTS];
	float *x, *y[WEIGHTS]; /* (MAX_TOK, F) each */
};

static void linear(struct bench *b, const struct weight *w, int first, int n, int n_tok)
{
	struct linear_args a = {.n_tok = n_tok, .x = b->x, .n_out = n};
	for (int i = 0; i < n; i++)
		a.out[i] = (struct linear_out){.w = &w[first + i], .y = b->y[i],
					       .is_f32 = true};
	kernel_ran(&b->kt, b->kt.b->ops->linear(b->kt.b, &a), "linear");
}

static double seconds(void)
{
	return (double)clock_now_us(&clock_monotonic) * 1e-6;
}

/* Seconds of a layer. */
static double layer_time(struct bench *b, int n_tok)
{
	double begin = seconds();
	for (int l = 0; l < LAYERS; l++) {
		linear(b, b->w[l], 0, 3, n_tok);
		linear(b, b->w[l], 3, 1, n_tok);
		linear(b, b->w[l], 4, 2, n_tok);
		linear(b, b->w[l], 6, 1, n_tok);
	}
	return (seconds() - begin) / LAYERS;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double tokens_per_second(struct bench *b, int n_tok)
{
	double times[MAX_ROUNDS], total = 0;
	int n = 0;
	layer_time(b, MIN(n_tok, 8)); /* caches and memory as they will be */
	while (n < MAX_ROUNDS && (n == 0 || total < 0.7))
		total += LAYERS * (times[n++] = layer_time(b, n_tok));
	qsort(times, (size_t)n, sizeof *times, by_size);
	return n_tok / (times[n / 2] * MODEL_LAYERS);
}

static struct weight_kind kind_of(enum quant q)
{
	struct weight_kind kind = {.quant = q, .group = 32, .scale_type = DTYPE_F16};
	if (q == QUANT_FP8 || q == QUANT_AWQ4 || q == QUANT_GPTQ4 || q == QUANT_GPTQ8)
		kind.group = 128;
	return kind;
}

static void one_format(struct bench *b, enum quant q, const char *isa)
{
	double bits = 0, weights = 0;
	for (int i = 0; i < WEIGHTS; i++) {
		struct weight host = kernel_weight(&b->kt, kind_of(q), shapes[i].n,
						   shapes[i].k);
		bits += 8.0 * (double)weight_bytes(&host);
		weights += (double)host.n * host.k;
		for (int l = 0; l < LAYERS; l++)
			b->w[l][i] = kernel_upload_weight(&b->kt, &host);
	}
	static const struct {
		const char *name;
		int n_tok;
	} cases[] = {{"decode", 1}, {"decode8", 8}, {"prefill512", 512}};
	for (size_t c = 0; c < ARRAY_LEN(cases); c++)
		printf("linear-%s,\"%s %s\",%.4g,tokens/s\n", cases[c].name,
		       quant_name(q), isa, tokens_per_second(b, cases[c].n_tok));
	printf("linear-bits,\"%s\",%.4g,bits/weight\n", quant_name(q), bits / weights);
	fflush(stdout);
	kernel_test_reset(&b->kt);
}

int main(int argc, char **argv)
{
	const char *isa = argc > 1 ? argv[1] : "auto";
	bool is_exact = strcmp(isa, "exact") == 0;
	struct bench b = {.kt.name = isa};
	b.x = xcalloc(MAX_TOK * F, sizeof *b.x);
	for (size_t i = 0; i < MAX_TOK * F; i++)
		b.x[i] = kernel_noise(&b.kt);
	for (int i = 0; i < WEIGHTS; i++)
		b.y[i] = xcalloc(MAX_TOK * F, sizeof *b.y[i]);
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		bool is_wanted = argc <= 2;
		for (int i = 2; i < argc; i++)
			is_wanted |= strcmp(argv[i], quant_name(q)) == 0;
		if (!is_wanted)
			continue;
		/* a backend each: what was loaded goes with it */
		struct backend_opts o = {"cpu", .exact = is_exact,
					 .cpu_isa = is_exact ? "auto" : isa};
		struct fail fail = {0};
		if (backend_create(&o, &b.kt.b, &fail) != OK) {
			fprintf(stderr, "%s\n", fail.text);
			return 1;
		}
		one_format(&b, q, isa);
		backend_destroy(b.kt.b);
	}
	arena_deinit(&b.kt.arena);
	for (int i = 0; i < WEIGHTS; i++)
		free(b.y[i]);
	free(b.x);
	return 0;
}
