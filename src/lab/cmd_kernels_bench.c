/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the operations of real models' steps separately, with weights that are in no
 * cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "ctl/command.h"
#include "bench/hip_time.h"
#include "lab/case_weight.h"
#include "lab/kernel_case.h"

#define MAX_TOKENS 16

struct kernels_bench_args {
	struct case_args of;
	const char *tokens, *axes, *format;
	int64_t depth;
	bool is_asymmetric, csv;
	enum quant formats[QUANT_COUNT];
	int n_formats; /* 0: each operation in the format of its shape */
	int64_t n_tok[MAX_TOKENS];
	int n_n_tok, i_axes;
	double read_gbs;
};

struct measured {
	double us, bytes, flops;
	double alone_us; /* time of a launch that only reads as many bytes */
	int launches; /* launches of one run */
};

static enum status queue_case(void *ctx, int i)
{
	return kernel_case_queue(ctx, i);
}

/* Measure one case. Each case has a backend of its own, which frees its weights. */
static enum status measure_case(const struct kernels_bench_args *a, const struct case_shape *s,
				int32_t n_tok, struct measured *out, struct fail *fail)
{
	struct backend *b;
	struct kernel_case *c;
	struct case_opts o = {.group = (int32_t)a->of.group, .n_tok = n_tok,
			      .is_asymmetric = a->is_asymmetric,
			      .depth = MAX((int32_t)a->depth, n_tok),
			      .cold_bytes = (size_t)a->of.cold_mb << 20};
	enum status st = hip_create(&a->of.backend, &b, fail);
	if (st != OK)
		return st;
	hip_of(b)->int4_axes = a->i_axes;
	st = kernel_case_create(b, s, &o, &c, fail);
	if (st == OK) {
		struct hip *h = hip_of(b);
		int before = h->step_launches;
		st = kernel_case_queue(c, 0);
		out->launches = h->step_launches - before;
		out->bytes = kernel_case_bytes(c);
		out->flops = kernel_case_flops(c);
		if (st == OK)
			st = hip_time_graph(h, queue_case, c,
					    MAX(kernel_case_copies(c), 8),
					    (int)a->of.repeat, &out->us, fail);
		else
			fail_set(fail, st, "%s", backend_why(b, st));
		kernel_case_destroy(c);
		if (st == OK)
			st = hip_time_part(h, (size_t)out->bytes, o.cold_bytes,
					   (int)a->of.repeat, &out->alone_us, fail);
	}
	backend_destroy(b);
	return st;
}

static void print_row(const struct kernels_bench_args *a, const struct case_shape *s, int32_t n_tok,
		      const struct measured *m)
{
	double gbs = m->bytes / m->us * 1e-3;
	if (a->csv)
		printf("%s,%s,%d,%d,%.3f,%.1f,%.1f,%.1f,%.2f,%d\n", s->model, s->part,
		       n_tok, s->quant == QUANT_INT4 ? (int)a->of.group : 0, m->us, gbs,
		       100 * gbs / a->read_gbs, 100 * m->alone_us / m->us,
		       m->flops / m->us * 1e-6, m->launches);
	else
		printf("%-16s %-12s %6d %10.2f %9.1f %7.1f %8.1f %9.2f %8d\n", s->model,
		       s->part, n_tok, m->us, gbs, 100 * gbs / a->read_gbs,
		       100 * m->alone_us / m->us, m->flops / m->us * 1e-6, m->launches);
	fflush(stdout);
}

/* One row of a table of formats. int4_gbs: rate of int4 in the same operation; 0: not
 * measured. */
static void print_format(const struct kernels_bench_args *a, const struct case_shape *s,
			 int32_t n_tok, const struct measured *m, double int4_gbs)
{
	double gbs = m->bytes / m->us * 1e-3, of_int4 = int4_gbs > 0 ? gbs / int4_gbs : 0;
	printf(a->csv ? "%s,%s,%d,%s,%.3f,%.3f,%.1f,%.1f,%.3f,%d\n"
		      : "%-16s %-12s %6d %-12s %10.2f %9.3f %9.1f %7.1f %8.2f %8d\n",
	       s->model, s->part, (int)n_tok, quant_name(s->quant), m->us, m->bytes * 1e-6,
	       gbs, 100 * gbs / a->read_gbs, of_int4, m->launches);
	fflush(stdout);
}

/* Measure and print one case. *gbs: in, the rate of int4; out, what this case reads. */
static bool run_case(const struct kernels_bench_args *a, const struct case_shape *s,
		     int32_t n_tok, double *gbs)
{
	struct fail fail = {0};
	struct measured m;
	if (measure_case(a, s, n_tok, &m, &fail) != OK) {
		fprintf(stderr, "haloctl: %s %s, %d tokens, %s: %s\n", s->model, s->part,
			(int)n_tok, quant_name(s->quant), fail.text);
		return false;
	}
	if (a->n_formats)
		print_format(a, s, n_tok, &m, s->quant == QUANT_INT4
						      ? m.bytes / m.us * 1e-3 : *gbs);
	else
		print_row(a, s, n_tok, &m);
	*gbs = m.bytes / m.us * 1e-3;
	return true;
}

/* Measure a case in int4 and then in each of the formats. Returns how many were good. */
static int run_formats(const struct kernels_bench_args *a, const struct case_shape *shape,
		       int32_t n_tok)
{
	struct case_shape s = *shape;
	double int4_gbs = 0;
	int n_good = run_case(a, &s, n_tok, &int4_gbs);
	for (int i = 0; i < a->n_formats; i++) {
		double gbs = int4_gbs;
		s.quant = a->formats[i];
		if (s.quant != QUANT_INT4)
			n_good += run_case(a, &s, n_tok, &gbs);
	}
	return n_good;
}

static int run_cases(const struct kernels_bench_args *a)
{
	const struct case_shape *s;
	int n_good = 0;
	for (size_t i = 0; (s = case_shape_at(i)); i++) {
		if (!case_args_want(&a->of, s) || (a->n_formats && !case_shape_takes_formats(s)))
			continue;
		for (int t = 0; t < a->n_n_tok; t++) {
			double gbs = 0;
			if (a->n_formats)
				n_good += run_formats(a, s, (int32_t)a->n_tok[t]);
			else
				n_good += run_case(a, s, (int32_t)a->n_tok[t], &gbs);
		}
	}
	return n_good ? EXIT_OK : EXIT_FAILED;
}

static void print_head(const struct kernels_bench_args *a, const char *device, double copy)
{
	printf("%s%s; read %.1f GB/s, copy %.1f GB/s (both ways)\n%s", a->csv ? "# " : "",
	       device, a->read_gbs, copy, a->csv ? "" : "\n");
	if (a->csv)
		puts(a->n_formats ? "model,part,tokens,format,us,mb,gb_s,percent_of_read,"
				    "of_int4,launches"
				  : "model,part,tokens,group,us,gb_s,percent_of_read,"
				    "percent_of_alone,tflop_s,launches");
	else if (a->n_formats)
		printf("%-16s %-12s %6s %-12s %10s %9s %9s %7s %8s %8s\n", "model", "part",
		       "tokens", "format", "us", "MB", "GB/s", "% read", "of int4",
		       "launches");
	else
		printf("%-16s %-12s %6s %10s %9s %7s %8s %9s %8s\n", "model", "part", "tokens",
		       "us", "GB/s", "% read", "% alone", "TFLOP/s", "launches");
}

/* Measure the memory bandwidth by the same clock. */
static bool measure_memory(struct kernels_bench_args *a, struct fail *fail)
{
	struct backend *b;
	double copy = 0;
	if (hip_create(&a->of.backend, &b, fail) != OK)
		return false;
	struct hip *h = hip_of(b);
	size_t n = (size_t)a->of.cold_mb << 20;
	int n_samples = (int)a->of.repeat;
	bool good = hip_time_read(h, n, n_samples, &a->read_gbs, fail) == OK &&
		    hip_time_copy(h, n, n_samples, &copy, fail) == OK;
	if (good)
		print_head(a, b->device, copy);
	backend_destroy(b);
	return good;
}

int cmd_kernels_bench(int argc, char **argv)
{
	struct kernels_bench_args a = {.of = CASE_DEFAULTS, .tokens = "1", .depth = 256};
	const struct option_row rows[] = {
		CASE_OPTIONS(a.of),
		{"tokens", 't', OPTION_TEXT, &a.tokens, 0, 0, "N,N,…",
		 "tokens in the step (1)"},
		{"asymmetric", 0, OPTION_FLAG, &a.is_asymmetric, 0, 0, NULL,
		 "int4 with zero points"},
		{"depth", 'd', OPTION_INT, &a.depth, 1, 1 << 20, "N",
		 "attention: positions the last token sees (256)"},
		{"axes", 'a', OPTION_TEXT, &a.axes, 0, 0, "NAME",
		 "row of linear_int4.def for all int4 (by the shape)"},
		{"format", 'f', OPTION_TEXT, &a.format, 0, 0, "NAME,…",
		 "weights in these formats beside int4 (nvfp4, q4_k, …)"},
		{"csv", 0, OPTION_FLAG, &a.csv, 0, 0, NULL, "print a table for programs"},
	};
	struct option_set set = {"kernels bench",
				 "Time the operations of real models on the GPU, weights "
				 "in no cache: microseconds, and\nbytes a second beside "
				 "what reading comes to in the same run: % read, of "
				 "much\nmemory; % alone, of as many bytes by one launch, "
				 "whose begin and end count.", rows,
				 ARRAY_LEN(rows)};
	struct fail fail = {0};
	int rc;
	if (!case_args_parse(&set, &a.of, argc, argv, &rc))
		return rc;
	if (a.format) {
		a.n_formats = case_weight_formats(a.format, a.formats, &fail);
		if (!a.n_formats)
			return options_fault(&set, "--format: %s", fail.text);
		a.of.part = a.of.part ? a.of.part : CASE_FORMAT_PARTS;
	}
	a.n_n_tok = options_list(a.tokens, a.n_tok, MAX_TOKENS);
	if (!a.n_n_tok)
		return options_fault(&set, "--tokens: \"%s\" is no list of numbers",
				     a.tokens);
	a.i_axes = -1;
	for (int i = 0; a.axes && i < hip_linear_int4_count(); i++)
		if (strcmp(hip_linear_int4_name(i), a.axes) == 0)
			a.i_axes = i;
	if (a.axes && a.i_axes < 0)
		return options_fault(&set, "--axes: there is no \"%s\"", a.axes);
	if (!measure_memory(&a, &fail))
		return options_fault(&set, "%s", fail.text);
	return run_cases(&a);
}
