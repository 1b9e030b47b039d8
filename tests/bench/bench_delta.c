/* SPDX-License-Identifier: Apache-2.0
 *
 * What a gated delta net costs on the CPU besides its products: convolution, delta rule and
 * gated norm of a layer of Qwen3-Next-80B-A3B (16 heads of keys and 32 of values, of 128),
 * by a path of the CPU backend beside exact, the two in turn.
 *
 *     bench_delta [avx512_bf16|avx512|avx2|portable|auto]
 *
 * Prints rows of CSV: case, "shape isa", value, unit: medians; state-traffic is the delta
 * rule's memory, read and written once, over its time. Numbers are random.
 *
 *     build/tests/bench/bench_delta | sed "s/^/$(git rev-parse --short HEAD),$(date +%F),/"
 */
#include <string.h>

#include "base/clock.h"
#include "tests/kernel/kernel_test.h"

enum { HK = 16, HV = 32, DIM = 128, CHANNELS = (2 * HK + HV) * DIM, WIDTH = 4,
       ROW = CHANNELS + HV * DIM, MAX_SEQS = 8, MAX_ROUNDS = 41,
       STATE = HV * DIM * DIM };

static const struct {
	const char *name;
	int n_tok, n_seq, rounds;
} shapes[] = {
	{"prefill 512", 512, 1, 9},
	{"decode", 1, 1, MAX_ROUNDS},
	{"decode of 8 sequences", 8, 8, MAX_ROUNDS},
};

enum part { CONV, DELTA, NORM, N_PARTS };
static const char *const part_names[] = {"causal-conv", "delta-rule", "gated-norm"};

struct bench {
	struct kernel_test kt;
	struct causal_conv_args conv;
	struct delta_rule_args delta;
	struct gated_norm_args norm;
	double ms[N_PARTS][MAX_ROUNDS];
};

static struct head_view view(const float *x, int at, int n_heads)
{
	return (struct head_view){x + at, ROW, n_heads, DIM, DIM};
}

static void make(struct bench *b, int n_tok, int n_seq)
{
	struct kernel_test *kt = &b->kt;
	const size_t t = (size_t)n_tok, n = (size_t)n_seq;
	float *x = kernel_rows(kt, t, ROW, 1), *qkv = kernel_zeros(kt, t * CHANNELS);
	float *gates = kernel_rows(kt, t, 2 * HV, 1), *y = kernel_zeros(kt, t * HV * DIM);
	float *decay = kernel_zeros(kt, HV);
	int32_t *first = kernel_ints(kt, n + 1), *slots = kernel_ints(kt, n);
	int32_t *none = kernel_ints(kt, n);
	for (int i = 0; i < HV; i++)
		decay[i] = -0.1f * (float)(i + 1);
	for (int i = 0; i < n_seq; i++) {
		first[i + 1] = (i + 1) * (n_tok / n_seq);
		slots[i] = i;
		none[i] = -1;
	}
	struct seq_states states = {slots, slots, none, none};
	b->conv = (struct causal_conv_args){
		.n_tok = n_tok, .n_seq = n_seq, .width = WIDTH, .n_parts = 3,
		.part = {view(x, 0, HK), view(x, HK * DIM, HK), view(x, 2 * HK * DIM, HV)},
		.weight = kernel_rows(kt, CHANNELS, WIDTH, 0.5f), .first_tok = first,
		.states = states, .y = qkv,
		.state = kernel_rows(kt, n, CHANNELS * (WIDTH - 1), 1)};
	b->delta = (struct delta_rule_args){
		.n_tok = n_tok, .n_seq = n_seq, .n_k_heads = HK, .n_v_heads = HV,
		.k_dim = DIM, .v_dim = DIM, .qkv = qkv, .a = {gates, 2 * HV, HV, 1, 1},
		.b = {gates + HV, 2 * HV, HV, 1, 1}, .decay = decay,
		.dt_bias = kernel_rows(kt, 1, HV, 1), .first_tok = first, .states = states,
		.state = kernel_rows(kt, n, STATE, 0.1f), .y = y};
	b->norm = (struct gated_norm_args){
		.n_tok = n_tok, .n_heads = HV, .dim = DIM, .eps = 1e-6f, .x = y,
		.z = view(x, CHANNELS, HV), .weight = kernel_rows(kt, 1, DIM, 1), .y = y};
}

static double run(struct bench *b, enum part part)
{
	const struct backend_ops *ops = b->kt.b->ops;
	int64_t begin = clock_now_us(&clock_monotonic);
	kernel_ran(&b->kt,
		   part == CONV    ? ops->causal_conv(b->kt.b, &b->conv)
		   : part == DELTA ? ops->delta_rule(b->kt.b, &b->delta)
				   : ops->gated_norm(b->kt.b, &b->norm),
		   part_names[part]);
	return (double)(clock_now_us(&clock_monotonic) - begin) * 1e-3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void report(struct bench *b, int i_shape, const char *isa)
{
	int rounds = shapes[i_shape].rounds;
	for (int p = 0; p < N_PARTS; p++) {
		qsort(b->ms[p], (size_t)rounds, sizeof(double), by_value);
		double ms = b->ms[p][rounds / 2];
		printf("%s,%s %s,%.4g,ms\n", part_names[p], shapes[i_shape].name, isa, ms);
		if (p == DELTA)
			printf("state-traffic,%s %s,%.4g,GB/s\n", shapes[i_shape].name, isa,
			       2e-6 * shapes[i_shape].n_seq * STATE * sizeof(float) / ms);
	}
}

int main(int argc, char **argv)
{
	const char *isa = argc > 1 ? argv[1] : "auto";
	for (int s = 0; s < (int)ARRAY_LEN(shapes); s++) {
		struct bench *both[2];
		for (int i = 0; i < 2; i++) {
			struct backend_opts o = {.name = "cpu", .exact = i, .cpu_isa = isa};
			struct fail fail = {0};
			both[i] = xcalloc(1, sizeof *both[i]);
			if (backend_create(&o, &both[i]->kt.b, &fail) != OK) {
				fprintf(stderr, "bench_delta: %s\n", fail.text);
				return 1;
			}
			make(both[i], shapes[s].n_tok, shapes[s].n_seq);
		}
		for (int round = -1; round < shapes[s].rounds; round++) /* one to warm up */
			for (int i = 0; i < 2; i++)
				for (int p = 0; p < N_PARTS; p++)
					both[i]->ms[p][MAX(round, 0)] = run(both[i], p);
		for (int i = 0; i < 2; i++) {
			report(both[i], s, i ? "exact" : isa);
			kernel_test_reset(&both[i]->kt);
			backend_destroy(both[i]->kt.b);
			free(both[i]);
		}
	}
	return 0;
}
