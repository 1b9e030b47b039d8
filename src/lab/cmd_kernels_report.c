/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports on kernels without the GPU they are for, from a code object's metadata and
 * disassembly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lab/case_weight.h"
#include "lab/chip.h"
#include "ctl/command.h"
#include "lab/kernel_grids.h"
#include "lab/launch_cost.h"
#include "lab/null_hip.h"
#include "ctl/options.h"

struct kernels_report_args {
	const char *code, *match, *objdump;
	const char *model, *part, *format;
	enum quant formats[QUANT_COUNT];
	int n_formats;
	bool json, grids;
	int64_t n_tok, depth;
};

enum { FEW = 30 /* percent of compute units that have work; below: FEW */ };

/* A loop must be able to issue loads at this multiple of the memory's rate. The margin is
 * for waits, conflicts and all else that chip.c does not model. */
#define ENOUGH 1.5

struct kernels_report {
	const char *path;
	struct codeobject code;
	const struct chip *chip; /* NULL: unknown chip */
	struct isa_kernel *isa;  /* (n) counts of each kernel; NULL: no disassembler */
	/* llvm-objdump exists: it reads the kernels of launches one by one */
	bool has_objdump;
	struct cost_model cost;  /* counts whole launches; cache NULL: no counting */
	bool is_json;
};

/* The instructions that represent a kernel's work: its hot loop. Without a loop, or if a
 * decode step runs the loop once, all instructions count once. In delta_rule and delta_channels
 * the loop goes over tokens, and the bytes (the state's) are loaded outside of it. */
static const struct isa_count *work_of(const char *name, const struct isa_kernel *k)
{
	bool is_once = strncmp(name, "delta_rule_", 11) == 0 ||
		       strncmp(name, "delta_channels_", 15) == 0;
	return k->n_loops == 0 || is_once ? &k->all : &k->hot;
}

static void add_count(struct buf *b, const char *name, const struct isa_count *c)
{
	buf_addf(b, ",\"%s\":{\"instructions\":%d,\"valu\":%d,\"trans\":%d,"
		    "\"matrix\":%d,\"dot2\":%d,\"divide\":%d,\"salu\":%d,\"lds\":%d,"
		    "\"lds_bytes\":%d,\"load\":%d,\"store\":%d,\"scratch\":%d,"
		    "\"barrier\":%d,\"load_bytes\":%d,\"nt_bytes\":%d,\"nt_narrow\":%d}",
		 name, c->n, c->valu, c->trans, c->matrix, c->dot2, c->divide, c->salu,
		 c->lds, c->lds_bytes, c->load, c->store, c->scratch, c->barrier,
		 c->load_bytes, c->nt_bytes, c->nt_narrow);
}

static void print_kernel_json(const struct kernels_report *r, size_t i)
{
	const struct code_kernel *k = &r->code.kernel[i];
	struct buf b = {0};
	buf_addf(&b, "{\"arch\":\"%s\",\"kernel\":", r->code.arch);
	buf_add_json(&b, str_of(k->name));
	buf_addf(&b, ",\"vgprs\":%d,\"sgprs\":%d,\"vgpr_spills\":%d,"
		     "\"sgpr_spills\":%d,\"lds_bytes\":%d,\"scratch_bytes\":%d,"
		     "\"max_threads\":%d,\"kernarg_bytes\":%d,\"wave\":%d,"
		     "\"code_bytes\":%llu", k->vgprs, k->sgprs, k->vgpr_spills,
		 k->sgpr_spills, k->lds_bytes, k->scratch_bytes, k->max_threads,
		 k->kernarg_bytes, k->wave, (unsigned long long)(k->end - k->begin));
	if (r->chip)
		buf_addf(&b, ",\"waves\":%.4g", chip_waves(r->chip, k, k->max_threads, 0));
	if (r->isa) {
		const struct isa_kernel *s = &r->isa[i];
		add_count(&b, "all", &s->all);
		add_count(&b, "hot", &s->hot);
		buf_addf(&b, ",\"loops\":%d,\"loop_divides\":%d", s->n_loops,
			 s->loop_divides);
		enum chip_limit limit;
		const struct isa_count *work = work_of(k->name, s);
		double gbs = r->chip ? chip_issue_gbs(r->chip, work, &limit) : 0;
		if (gbs > 0)
			buf_addf(&b, ",\"issue_gbs\":%.4g,\"issue_x\":%.4g,"
				     "\"limit\":\"%s\",\"whole\":%s", gbs,
				 gbs / r->chip->dram_gbs, chip_limit_name(limit),
				 work == &s->all ? "true" : "false");
	}
	buf_add_z(&b, "}\n");
	fwrite(b.p, 1, b.n, stdout);
	buf_deinit(&b);
}

static void print_head(const struct kernels_report *r)
{
	const struct chip *c = r->chip;
	printf("%s: %s, %zu kernels\n", r->path, r->code.arch, r->code.n);
	if (c)
		printf("%s: %d compute units, %.3g GHz, %g GB/s, %g TFLOP/s (f16 matrix)\n",
		       c->name, c->n_cu, c->clock_ghz, c->dram_gbs, c->matrix_tflops);
	printf("\n%-40s %5s %5s %6s %7s %6s", "kernel", "VGPR", "SGPR", "LDS", "scratch",
	       "waves");
	if (r->isa)
		printf(" | %6s %6s %7s %9s %6s  %s", "vector", "bytes", "per byte",
		       "issue GB/s", "x DRAM", "limit");
	putchar('\n');
}

/* Bytes: non-temporal loads of a lane; if there are none, all loads, in brackets. */
static void print_work(const struct kernels_report *r, const struct isa_count *hot, bool is_whole)
{
	enum chip_limit limit = CHIP_VALU;
	int bytes = hot->nt_bytes ? hot->nt_bytes : hot->load_bytes;
	char text[24];
	snprintf(text, sizeof text, hot->nt_bytes ? "%d" : "(%d)", bytes);
	double gbs = r->chip ? chip_issue_gbs(r->chip, hot, &limit) : 0;
	printf(" | %6d %6s", hot->valu, bytes ? text : "-");
	if (bytes)
		printf(" %8.3f", (double)hot->valu / bytes);
	else
		printf(" %8s", "-");
	if (gbs > 0) {
		const char *what = gbs >= ENOUGH * r->chip->dram_gbs
					   ? "memory" : chip_limit_name(limit);
		printf(" %10.0f %6.1f  %s%s", gbs, gbs / r->chip->dram_gbs, what,
		       is_whole ? ", whole" : "");
	} else if (hot->n) {
		if (r->chip)
			chip_cycles(r->chip, hot, &limit);
		printf(" %10s %6s  %s", "-", "-", r->chip ? chip_limit_name(limit) : "-");
	}
}

static void print_kernel(const struct kernels_report *r, size_t i)
{
	const struct code_kernel *k = &r->code.kernel[i];
	printf("%-40s %5d %5d %6d %7d", k->name, k->vgprs, k->sgprs, k->lds_bytes,
	       k->scratch_bytes);
	if (r->chip)
		printf(" %6.1f", chip_waves(r->chip, k, k->max_threads, 0));
	else
		printf(" %6s", "-");
	if (r->isa) {
		const struct isa_count *work = work_of(k->name, &r->isa[i]);
		print_work(r, work, work == &r->isa[i].all);
	}
	if (k->vgpr_spills || k->sgpr_spills)
		printf("  SPILLS %d/%d", k->vgpr_spills, k->sgpr_spills);
	putchar('\n');
}

/* --- grids ------------------------------------------------------------------------ */

/* GB/s of loads if issuing instructions were the only limit. */
static double issue_gbs(const struct launch_cost *c)
{
	double us = c->us[COST_ISSUE];
	return us > 0 ? c->count.load_bytes / us * 1e-3 : 0;
}

static void print_cost(const struct kernels_report *r, const struct launch_cost *c)
{
	const struct walk_count *n = &c->count;
	double slots = n->issued[WALK_VALU] + n->issued[WALK_DUAL] + 4 * n->issued[WALK_TRANS] +
		       r->chip->matrix_cycles * n->issued[WALK_MATRIX];
	double gbs = issue_gbs(c);
	printf(" | %9.3f %9.3f", slots * 1e-6, n->load_bytes * 1e-6);
	if (n->load_bytes > 0)
		printf(" %8.3f %10.0f %6.1f", slots * 32 / n->load_bytes, gbs,
		       gbs / r->chip->dram_gbs);
}

static void print_grid(void *ctx, const struct case_shape *s,
		       const struct hip_launch_info *l)
{
	struct kernels_report *r = ctx;
	struct launch_cost c;
	struct fail fail = {0};
	bool is_counted = r->cost.cache &&
			  launch_cost(&r->cost, l, &c, &fail) == OK;
	if (r->is_json) {
		struct buf b = {0};
		buf_addf(&b, "{\"arch\":\"%s\",\"model\":\"%s\",\"part\":\"%s\","
			     "\"format\":\"%s\",", r->code.arch, s->model, s->part,
			 quant_name(s->quant));
		if (is_counted)
			launch_cost_json(&b, l, &c);
		else
			buf_addf(&b, "\"kernel\":\"%s\",\"error\":\"not counted\"",
				 l->kernel->name);
		buf_add_z(&b, "}\n");
		fwrite(b.p, 1, b.n, stdout);
		buf_deinit(&b);
		return;
	}
	const struct code_kernel *k = codeobject_find(&r->code, l->kernel->name);
	int64_t groups = (int64_t)l->grid.x * l->grid.y;
	double each = (double)groups / r->chip->n_cu;
	printf("%-16s %-12s %-36s %8lld %7d %6d %9.2f", s->model, s->part, l->kernel->name,
	       (long long)groups, l->grid.n_threads, l->grid.lds_bytes, each);
	if (k)
		printf(" %6.1f", chip_waves(r->chip, k, l->grid.n_threads, l->grid.lds_bytes));
	if (is_counted)
		print_cost(r, &c);
	puts(100 * each < FEW ? "  FEW" : "");
}

static int report_grids(const struct option_set *set, const struct kernels_report_args *a,
			struct kernels_report *r)
{
	struct fail fail = {0};
	struct kernel_grids_opts o = {.n_tok = (int32_t)a->n_tok, .depth = (int32_t)a->depth,
				      .model = a->model, .part = a->part,
				      .formats = a->formats, .n_formats = a->n_formats};
	char *dir = xstrdup(r->path);
	char *slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	o.kernel_dir = slash ? dir : ".";
	r->cost = (struct cost_model){
		.chip = r->chip, .more = cost_chip_find(r->code.arch), .code = &r->code,
		.path = r->path, .read = null_hip_read, .is_prefill = a->n_tok > 8};
	if (r->has_objdump && r->cost.more)
		r->cost.cache = walk_cache_create(a->objdump);
	if (!r->is_json)
		printf("\n%s: launches of %lld token%s, %lld positions, %d compute units\n"
		       "%-16s %-12s %-36s %8s %7s %6s %9s %6s | %9s %9s %8s %10s %6s\n",
		       r->code.arch, (long long)a->n_tok, a->n_tok == 1 ? "" : "s",
		       (long long)a->depth, r->chip->n_cu, "model", "part", "kernel",
		       "groups", "threads", "LDS", "groups/CU", "waves", "M slots",
		       "MB loaded", "per byte", "issue GB/s", "x DRAM");
	enum status st = kernel_grids(r->chip, &r->code, &o, print_grid, r, &fail);
	walk_cache_destroy(r->cost.cache);
	free(dir);
	return st == OK ? EXIT_OK : options_fault(set, "%s", fail.text);
}

static bool is_shown(const struct kernels_report_args *a, const struct code_kernel *k)
{
	return !a->match || strstr(k->name, a->match);
}

/* Reads the counts of all kernels, if one of them is to be shown. E_MISSING: nothing can count. */
static enum status read_isa(const struct kernels_report_args *a, struct kernels_report *r,
			    struct fail *fail)
{
	for (size_t i = 0; i < r->code.n; i++)
		if (is_shown(a, &r->code.kernel[i]))
			return isa_read(r->path, &r->code, a->objdump, &r->isa, fail);
	char *tool = a->objdump ? xstrdup(a->objdump) : isa_find_objdump();
	bool is_there = tool != NULL;
	free(tool);
	return is_there ? OK : fail_set(fail, E_MISSING, "llvm-objdump was not found");
}

static int report_file(const struct option_set *set, const struct kernels_report_args *a,
		       const char *path)
{
	struct kernels_report r = {.path = path, .is_json = a->json};
	struct fail fail = {0};
	if (codeobject_open(path, &r.code, &fail) != OK)
		return options_failure("%s", fail.text);
	r.chip = chip_find(r.code.arch);
	enum status st = read_isa(a, &r, &fail);
	r.has_objdump = st == OK;
	if (st != OK) {
		r.isa = NULL;
		fprintf(stderr, "haloctl: no loops are told: %s\n", fail.text);
	}
	if (!a->json)
		print_head(&r);
	for (size_t i = 0; i < r.code.n; i++)
		if (is_shown(a, &r.code.kernel[i]))
			(a->json ? print_kernel_json : print_kernel)(&r, i);
	int rc = EXIT_OK;
	if (a->grids && r.chip)
		rc = report_grids(set, a, &r);
	free(r.isa);
	codeobject_deinit(&r.code);
	if (rc != EXIT_OK)
		return rc;
	return st == OK || st == E_MISSING ? EXIT_OK : EXIT_FAILED;
}

static int report_kernels(const struct option_set *set, const struct kernels_report_args *a)
{
	int rc = EXIT_OK;
	for (const char *p = a->code; *p && rc == EXIT_OK;) {
		size_t n = strcspn(p, ",");
		char *path = xstrndup(p, n);
		rc = report_file(set, a, path);
		free(path);
		p += n + (p[n] == ',');
	}
	return rc;
}

int cmd_kernels_report(int argc, char **argv)
{
	struct kernels_report_args a = {.n_tok = 1, .depth = 1024};
	const struct option_row rows[] = {
		{"code", 'c', OPTION_TEXT, &a.code, 0, 0, "FILE,…",
		 "code objects (all of this build)"},
		{"kernel", 'k', OPTION_TEXT, &a.match, 0, 0, "TEXT",
		 "only kernels with this in their name"},
		{"objdump", 0, OPTION_TEXT, &a.objdump, 0, 0, "FILE",
		 "llvm-objdump to take (the first of PATH)"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "an object per kernel"},
		{"grids", 'g', OPTION_FLAG, &a.grids, 0, 0, NULL,
		 "also the launches of real models, counted instruction by instruction"},
		{"model", 'm', OPTION_TEXT, &a.model, 0, 0, "NAME,…",
		 "grids: only shapes of these models (qwen3-30b-a3b, …)"},
		{"part", 'p', OPTION_TEXT, &a.part, 0, 0, "NAME,…",
		 "grids: only these parts (qkv, experts, …)"},
		{"format", 'f', OPTION_TEXT, &a.format, 0, 0, "NAME,…",
		 "grids: weights in each of these formats (int4, nvfp4, …)"},
		{"tokens", 't', OPTION_INT, &a.n_tok, 1, 8192, "N",
		 "grids: tokens in the step (1)"},
		{"depth", 'd', OPTION_INT, &a.depth, 1, 1 << 20, "N",
		 "grids: positions that attention sees (1024)"},
	};
	struct option_set set = {"kernels report",
				 "Registers, LDS, scratch and occupancy of each kernel, "
				 "and of its innermost loop the\nvector instructions per "
				 "byte loaded and the bandwidth that they allow.\nBytes "
				 "in brackets are not marked as read once.", rows,
				 ARRAY_LEN(rows)};
	struct fail fail = {0};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (a.format) {
		a.n_formats = case_weight_formats(a.format, a.formats, &fail);
		if (!a.n_formats)
			return options_fault(&set, "--format: %s", fail.text);
		a.part = a.part ? a.part : CASE_FORMAT_PARTS;
	}
	if (a.code)
		return report_kernels(&set, &a);
	char *all = chip_code_of_build();
	if (!*all) {
		free(all);
		return options_fault(&set, "--code is needed: this build has no code "
				     "objects");
	}
	a.code = all;
	rc = report_kernels(&set, &a);
	free(all);
	return rc;
}
