/* SPDX-License-Identifier: Apache-2.0
 *
 * Which shape of a kernel is fastest for which weights on this chip: each is timed, the
 * best goes to a table that the backend reads (backend/hip_tune.h). Results of the model
 * are the same with and without it but for the order of sums.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip_linear.h"
#include "backend/hip_tune.h"
#include "base/alloc.h"
#include "ctl/command.h"
#include "ctl/hip_time.h"
#include "ctl/kernel_case.h"
#include "ctl/options.h"

enum { TILE_TOK = 512 };

struct args {
	struct backend_opts backend;
	const char *model, *out;
	int64_t group, cold_mb, repeat;
};

struct tuned {
	enum hip_tune_op op;
	int32_t n, k;
};

static enum status queue(void *ctx, int i)
{
	return kernel_case_queue(ctx, i);
}

/* Microseconds with row i of the table of op; a failure says that it cannot serve. */
static enum status time_row(const struct args *a, const struct case_shape *s,
			    enum hip_tune_op op, int i, double *out_us, struct fail *fail)
{
	struct backend *b;
	struct kernel_case *c;
	struct case_opts o = {.group = (int32_t)a->group,
			      .n_tok = op == HIP_TUNE_TILE ? TILE_TOK : 1,
			      .cold_bytes = (size_t)a->cold_mb << 20};
	enum status st = hip_create(&a->backend, &b, fail);
	if (st != OK)
		return st;
	struct hip *h = hip_of(b);
	*(op == HIP_TUNE_TILE ? &h->tile : &h->int4_axes) = i;
	st = kernel_case_create(b, s, &o, &c, fail);
	if (st == OK) {
		/* One launch: else another kernel took over. */
		int before = h->step_launches;
		st = kernel_case_queue(c, 0);
		if (st == OK && h->step_launches - before != 1)
			st = E_UNSUPPORTED;
		if (st == OK)
			st = hip_time_graph(h, queue, c, MAX(kernel_case_copies(c), 8),
					    (int)a->repeat, out_us, fail);
		kernel_case_destroy(c);
	}
	backend_destroy(b);
	return st;
}

static bool is_done(const struct tuned *list, int n, const struct tuned *t)
{
	for (int i = 0; i < n; i++)
		if (list[i].op == t->op && list[i].n == t->n && list[i].k == t->k)
			return true;
	return false;
}

static void tune_shape(const struct args *a, const struct case_shape *s,
		       const struct tuned *t, struct buf *table)
{
	static const char *const names[] = {"int4", "tile"};
	int n = t->op == HIP_TUNE_TILE ? hip_linear_tile_count() : hip_linear_int4_count();
	double best = 0;
	const char *best_name = NULL;
	printf("%s N=%d K=%d (%s %s):", names[t->op], t->n, t->k, s->model, s->part);
	for (int i = 0; i < n; i++) {
		struct fail fail = {0};
		double us = 0;
		const char *name = t->op == HIP_TUNE_TILE ? hip_linear_tile_name(i)
							  : hip_linear_int4_name(i);
		if (time_row(a, s, t->op, i, &us, &fail) != OK)
			continue;
		printf(" %s %.2f", name, us);
		fflush(stdout);
		if (!best_name || us < best) {
			best = us;
			best_name = name;
		}
	}
	putchar('\n');
	if (best_name)
		buf_addf(table, "%s %d %d %s\n", names[t->op], t->n, t->k, best_name);
}

static void tune_all(const struct args *a, struct buf *table)
{
	struct tuned done[256];
	const struct case_shape *s;
	int n_done = 0;
	for (size_t i = 0; (s = case_shape_at(i)); i++) {
		struct tuned t = {.k = s->k};
		if (s->op != CASE_LINEAR || s->quant != QUANT_INT4 ||
		    (a->model && strcmp(a->model, s->model) != 0))
			continue;
		for (int j = 0; j < LINEAR_MAX_OUT; j++)
			t.n += s->n[j];
		for (int op = 0; op < 2; op++) {
			t.op = (enum hip_tune_op)op;
			if (is_done(done, n_done, &t) || n_done == (int)ARRAY_LEN(done))
				continue;
			tune_shape(a, s, &t, table);
			done[n_done++] = t;
		}
	}
}

static int write_table(const struct option_set *set, const char *path, const char *device,
		       const struct buf *table)
{
	FILE *f = fopen(path, "w");
	bool good = f && fprintf(f, "# %s: haloctl kernels tune\n", device) > 0 &&
		    fwrite(table->p, 1, table->n, f) == table->n;
	if (f)
		good = fclose(f) == 0 && good;
	return good ? EXIT_OK : options_fault(set, "%s: %s", path, strerror(errno));
}

int cmd_kernels_tune(int argc, char **argv)
{
	struct args a = {.backend = {.name = "hip"}, .group = 32, .cold_mb = 512,
			 .repeat = 5};
	const struct option_row rows[] = {
		{"model", 'm', OPTION_TEXT, &a.model, 0, 0, "NAME",
		 "only shapes of this model (qwen3-30b-a3b, …)"},
		{"group", 'g', OPTION_INT, &a.group, 32, 128, "N",
		 "group of the int4 weights: 32, 64, 128 (32)"},
		{"cold-mb", 0, OPTION_INT, &a.cold_mb, 1, 65536, "N",
		 "MiB of weights to go through (512)"},
		{"repeat", 'r', OPTION_INT, &a.repeat, 1, 1000, "N",
		 "runs of which the median counts (5)"},
		{"out", 'o', OPTION_TEXT, &a.out, 0, 0, "FILE",
		 "the table: ARCH.tune, to lie beside ARCH.hsaco (needed)"},
		{"hip-library", 0, OPTION_TEXT, &a.backend.hip_library, 0, 0, "FILE",
		 "the HIP runtime (libamdhip64.so of the system)"},
		{"hip-kernels", 0, OPTION_TEXT, &a.backend.kernel_dir, 0, 0, "DIR",
		 "where the code objects are"},
	};
	struct option_set set = {"kernels tune",
				 "Time each shape that the int4 kernels are compiled in, "
				 "and write down which is\nfastest for which weights.",
				 rows, ARRAY_LEN(rows)};
	struct backend *b;
	struct fail fail = {0};
	struct buf table = {0};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.out)
		return options_fault(&set, "--out is needed");
	if (a.group & (a.group - 1))
		return options_fault(&set, "--group: 32, 64 or 128");
	if (hip_create(&a.backend, &b, &fail) != OK)
		return options_fault(&set, "%s", fail.text);
	char device[120];
	snprintf(device, sizeof device, "%s", b->device);
	backend_destroy(b);
	tune_all(&a, &table);
	rc = table.n ? write_table(&set, a.out, device, &table) : EXIT_FAILED;
	buf_deinit(&table);
	return rc;
}
