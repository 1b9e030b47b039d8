/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the fastest kernel shape for each weight on this chip. Each shape is timed, and
 * the best ones go to a table that the backend reads (backend/hip/hip_tune.h). The table
 * does not change a model's results, except for the order of sums.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "backend/hip/hip_tune.h"
#include "base/alloc.h"
#include "ctl/command.h"
#include "bench/hip_time.h"
#include "lab/kernel_case.h"
#include "kernels/linear/linear_int4.h"
#include "kernels/moe/moe_launch.h"

enum { MAX_POINTS = 8 };

struct tune_args {
	struct case_args of;
	const char *out, *tokens;
	/* Numbers of tokens that tiles are timed at, ascending. Each stands for up to twice as
	 * many, the last for any number. */
	int64_t point[MAX_POINTS];
	int n_points;
};

struct tuned {
	enum hip_tune_op op;
	int32_t n, k;
};

static enum status queue(void *ctx, int i)
{
	return kernel_case_queue(ctx, i);
}

/* What a measurement tries: a row of a table, or tiles against the kernels for few
 * tokens. */
struct trial {
	enum { TRY_AXES, TRY_TILE, TRY_MOE_TILE, TRY_FEW, TRY_TILES } what;
	int row; /* of the table */
	int32_t n_tok;
};

static void set_up(struct hip *h, const struct trial *t)
{
	h->n_tune = 0; /* ignore an existing tune file */
	if (t->what == TRY_AXES)
		h->int4_axes = t->row;
	else if (t->what == TRY_TILE)
		h->tile = t->row;
	else if (t->what == TRY_MOE_TILE)
		h->moe_tile = t->row;
	h->tile_from = t->what == TRY_TILES ? 1 : t->what == TRY_FEW ? INT32_MAX
								     : h->tile_from;
	h->moe_tile_from = t->what == TRY_MOE_TILE ? 1 : h->tile_from;
}

/* Time one case, in microseconds. Fails if the trial's kernel cannot do it. out_us NULL: ask
 * only that. */
static enum status time_case(const struct case_args *a, const struct case_shape *s,
			     const struct trial *t, double *out_us, struct fail *fail)
{
	struct backend *b;
	struct kernel_case *c;
	struct case_opts o = {.group = (int32_t)a->group, .n_tok = t->n_tok,
			      .cold_bytes = (size_t)a->cold_mb << 20};
	enum status st = hip_create(&a->backend, &b, fail);
	if (st != OK)
		return st;
	struct hip *h = hip_of(b);
	set_up(h, t);
	st = kernel_case_create(b, s, &o, &c, fail);
	if (st == OK) {
		/* More than one launch means that another kernel was used. */
		int before = h->step_launches;
		st = kernel_case_queue(c, 0);
		if (st == OK && s->op == CASE_LINEAR && h->step_launches - before != 1)
			st = E_UNSUPPORTED;
		if (st == OK && out_us)
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

/* The case that models run: gate and up have a norm before and an activation behind. */
static const struct case_shape *as_used(const struct case_shape *s)
{
	const struct case_shape *u;
	for (size_t i = 0; s->op == CASE_LINEAR && (u = case_shape_at(i)); i++)
		if (u->op == CASE_FFN_UP && strcmp(u->model, s->model) == 0 && u->k == s->k &&
		    memcmp(u->n, s->n, sizeof u->n) == 0)
			return u;
	return s;
}

/* Try n rows, report each, and leave the fastest in t. A plain product says whether there is such
 * a kernel. */
static bool try_rows(const struct case_args *a, const struct case_shape *s,
		     struct trial *t, int n, const char *(*name_of)(int))
{
	const struct case_shape *used = as_used(s);
	int best = -1;
	double us = 0;
	for (int i = 0; i < n; i++) {
		struct fail fail = {0};
		double each;
		t->row = i;
		if (used != s && time_case(a, s, t, NULL, &fail) != OK)
			continue;
		if (time_case(a, used, t, &each, &fail) != OK)
			continue;
		printf(" %s %.2f", name_of(i), each);
		fflush(stdout);
		if (best < 0 || each < us) {
			best = i;
			us = each;
		}
	}
	t->row = best;
	return best >= 0;
}

static void tune_int4(const struct case_args *a, const struct case_shape *s,
		      const struct tuned *t, struct buf *table)
{
	struct trial trial = {TRY_AXES, 0, 1};
	printf("int4 N=%d K=%d (%s %s):", t->n, t->k, s->model, as_used(s)->part);
	bool good = try_rows(a, s, &trial, hip_linear_int4_count(), hip_linear_int4_name);
	putchar('\n');
	if (good)
		buf_addf(table, "int4 %d %d %s\n", t->n, t->k, hip_linear_int4_name(trial.row));
}

/* Tune the tiles of a weight, or of experts. */
static void tune_tiles(const struct tune_args *a, const struct case_shape *s,
		       const struct tuned *t, struct buf *table)
{
	bool is_moe = t->op == HIP_TUNE_MOE_TILE;
	int n = is_moe ? hip_experts_tile_count() : hip_linear_tile_count();
	const char *(*name_of)(int) = is_moe ? hip_experts_tile_name : hip_linear_tile_name;
	const char *op = is_moe ? "moe-tile" : "tile";
	for (int i = 0; i < a->n_points; i++) {
		struct trial trial = {is_moe ? TRY_MOE_TILE : TRY_TILE, 0,
				      (int32_t)a->point[i]};
		printf("%s N=%d K=%d, %d tokens (%s %s):", op, t->n, t->k, trial.n_tok, s->model,
		       as_used(s)->part);
		bool good = try_rows(&a->of, s, &trial, n, name_of);
		putchar('\n');
		if (!good)
			continue;
		buf_addf(table, "%s %d %d %s", op, t->n, t->k, name_of(trial.row));
		if (i + 1 < a->n_points)
			buf_addf(table, " %d", 2 * (int32_t)a->point[i]);
		buf_add_c(table, '\n');
	}
}

static void tune_all(const struct tune_args *a, struct buf *table)
{
	struct tuned done[256];
	const struct case_shape *s;
	int n_done = 0;
	for (size_t i = 0; (s = case_shape_at(i)); i++) {
		struct tuned t = {HIP_TUNE_MOE_TILE, s->f, s->k};
		if (s->quant != QUANT_INT4 || !case_args_want(&a->of, s) ||
		    n_done + 2 > (int)ARRAY_LEN(done))
			continue;
		if (s->op == CASE_EXPERTS && !is_done(done, n_done, &t)) {
			tune_tiles(a, s, &t, table);
			done[n_done++] = t;
		}
		if (s->op != CASE_LINEAR)
			continue;
		t.n = 0;
		for (int j = 0; j < LINEAR_MAX_OUT; j++)
			t.n += s->n[j];
		for (int op = 0; op < 2; op++) {
			t.op = (enum hip_tune_op)op;
			if (is_done(done, n_done, &t))
				continue;
			if (t.op == HIP_TUNE_TILE)
				tune_tiles(a, s, &t, table);
			else
				tune_int4(&a->of, s, &t, table);
			done[n_done++] = t;
		}
	}
}

/* Total time of all int4 cases of op at so many tokens; 0 if one failed or there are
 * none. */
static double time_all(const struct case_args *a, enum case_op op, const struct trial *t)
{
	const struct case_shape *s;
	double sum = 0;
	for (size_t i = 0; (s = case_shape_at(i)); i++) {
		struct fail fail = {0};
		double us;
		if (s->op != op || s->quant != QUANT_INT4 || !case_args_want(a, s))
			continue;
		if (time_case(a, s, t, &us, &fail) != OK)
			return 0;
		sum += us;
	}
	return sum;
}

/* Find the smallest number of tokens for which tiles are faster, summed over the cases.
 * Starts at the most that the kernels for few tokens take, and goes down. */
static void tune_from(const struct case_args *a, enum case_op op, int32_t most,
		      struct buf *table)
{
	const char *name = op == CASE_LINEAR ? "linear-tiles" : "expert-tiles";
	int32_t from = most + 1;
	printf("%s:", name);
	for (; from > 2; from--) {
		double few = time_all(a, op, &(struct trial){TRY_FEW, 0, from - 1});
		double tiles = time_all(a, op, &(struct trial){TRY_TILES, 0, from - 1});
		if (from == most + 1 && (few <= 0 || tiles <= 0)) {
			puts(" nothing to measure");
			return;
		}
		if (few > 0 && tiles > 0)
			printf(" %d tokens %.2f, in tiles %.2f;", from - 1, few, tiles);
		fflush(stdout);
		if (few <= 0 || tiles <= 0 || few < tiles)
			break;
	}
	printf(" from %d\n", from);
	buf_addf(table, "%s %d\n", name, from);
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

static bool is_ascending(const int64_t *list, int n)
{
	for (int i = 1; i < n; i++)
		if (list[i] <= list[i - 1])
			return false;
	return n > 0 && list[0] > 0;
}

int cmd_kernels_tune(int argc, char **argv)
{
	struct tune_args a = {.of = CASE_DEFAULTS, .tokens = "128,512,2048"};
	const struct option_row rows[] = {
		CASE_OPTIONS(a.of),
		{"tokens", 't', OPTION_TEXT, &a.tokens, 0, 0, "N,N,…",
		 "tokens that tiles are timed at, ascending (128,512,2048)"},
		{"out", 'o', OPTION_TEXT, &a.out, 0, 0, "FILE",
		 "the table: ARCH.tune, to lie beside ARCH.hsaco (needed)"},
	};
	struct option_set set = {"kernels tune",
				 "Time each shape that the int4 kernels are compiled in, "
				 "experts' too, and write down\nwhich is fastest for which "
				 "weights, and from how many tokens on tiles are.",
				 rows, ARRAY_LEN(rows)};
	struct backend *b;
	struct fail fail = {0};
	struct buf table = {0};
	int rc;
	if (!case_args_parse(&set, &a.of, argc, argv, &rc))
		return rc;
	if (!a.out)
		return options_fault(&set, "--out is needed");
	a.n_points = options_list(a.tokens, a.point, MAX_POINTS);
	if (!is_ascending(a.point, a.n_points))
		return options_fault(&set, "--tokens: \"%s\" is no list of ascending numbers",
				     a.tokens);
	if (hip_create(&a.of.backend, &b, &fail) != OK)
		return options_fault(&set, "%s", fail.text);
	char device[160];
	snprintf(device, sizeof device, "%s", b->device);
	backend_destroy(b);
	tune_all(&a, &table);
	tune_from(&a.of, CASE_LINEAR, HIP_FEW_TOK, &table);
	tune_from(&a.of, CASE_EXPERTS, HIP_FEW_TOK, &table);
	rc = table.n ? write_table(&set, a.out, device, &table) : EXIT_FAILED;
	buf_deinit(&table);
	return rc;
}
