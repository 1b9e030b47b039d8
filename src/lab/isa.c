/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the output of llvm-objdump -d. A line is
 *   <tab>v_add_f32 v0, v1, v2         // 00000000C228: 06000501
 *   <tab>s_cbranch_scc1 65493         // 00000000C22C: BFA2FFD5 <kernel+0x1c>
 * A backward branch marks a loop, from its target to the branch. A loop that contains no
 * other is innermost. Compilers lay loops out in this way.
 */
#include "lab/isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"

enum { LINE = 1024 };

struct line {
	uint64_t at, target; /* addresses; target 0: not a branch */
	char name[48];       /* as in "v_add_f32_e32" */
	bool is_nt;
};

struct isa_loop {
	size_t from, to; /* first and last line */
	bool is_innermost;
};

/* The instructions of one kernel. */
struct listing {
	struct line *line;
	size_t n, cap;
};

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Returns false if the line is not an instruction. */
static bool parse_line(char *text, uint64_t kernel_begin, struct line *out)
{
	*out = (struct line){0};
	char *comment = strstr(text, "//");
	if (text[0] != '\t' || !comment ||
	    sscanf(comment, "// %lx", &out->at) != 1)
		return false;
	*comment = '\0';
	if (sscanf(text, " %47s", out->name) != 1)
		return false;
	out->is_nt = strstr(text, " slc") || strstr(text, " th:TH_LOAD_NT");
	char *plus = strstr(comment + 2, "+0x");
	bool is_branch = begins(out->name, "s_cbranch") || begins(out->name, "s_branch");
	if (is_branch)
		out->target = kernel_begin +
			      (plus ? strtoull(plus + 3, NULL, 16) : 0);
	return true;
}

/* Bytes that a lane moves, by the end of the name: b128, dwordx4. */
static int32_t width_of(const char *name)
{
	static const struct {
		const char *end;
		int32_t bytes;
	} ends[] = {{"_b128", 16}, {"_b96", 12}, {"_b64", 8}, {"_b32", 4}, {"_u16", 2},
		    {"_i16", 2}, {"_b16", 2}, {"_u8", 1}, {"_i8", 1}};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (strstr(name, ends[i].end))
			return ends[i].bytes;
	return 4;
}

static bool is_trans(const char *name)
{
	static const char *const names[] = {"v_exp_", "v_log_", "v_rcp_", "v_rsq_",
					    "v_sqrt_", "v_sin_", "v_cos_"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (begins(name, names[i]))
			return true;
	return false;
}

static void add_vector(struct isa_count *c, const char *name)
{
	c->valu++;
	c->trans += is_trans(name);
	c->matrix += begins(name, "v_wmma");
	c->dot2 += strstr(name, "dot2") != NULL;
	c->divide += begins(name, "v_div_");
}

static void add_load(struct isa_count *c, const struct line *l)
{
	int32_t bytes = width_of(l->name);
	c->load++;
	c->load_bytes += bytes;
	if (!l->is_nt)
		return;
	c->nt_bytes += bytes;
	c->nt_narrow += bytes < 16;
}

static void add_line(struct isa_count *c, const struct line *l)
{
	const char *n = l->name;
	if (begins(n, "s_delay_alu") || begins(n, "s_nop") || begins(n, "s_waitcnt") ||
	    begins(n, "s_clause") || begins(n, "s_set_inst") || begins(n, "s_code_end"))
		return;
	c->n++;
	if (begins(n, "v_"))
		add_vector(c, n);
	else if (begins(n, "ds_")) {
		c->lds++;
		c->lds_bytes += width_of(n);
	}
	else if (begins(n, "scratch_"))
		c->scratch++;
	else if (begins(n, "global_load") || begins(n, "buffer_load") ||
		 begins(n, "flat_load"))
		add_load(c, l);
	else if (begins(n, "global_") || begins(n, "buffer_store") ||
		 begins(n, "flat_store"))
		c->store++;
	else if (begins(n, "s_barrier"))
		c->barrier++;
	else
		c->salu++;
}

/* --- loops ------------------------------------------------------------------------ */

static size_t find_loops(const struct listing *k, struct isa_loop *out)
{
	size_t n = 0;
	for (size_t i = 0; i < k->n; i++) {
		uint64_t target = k->line[i].target;
		if (!target || target > k->line[i].at)
			continue;
		size_t from = i;
		while (from > 0 && k->line[from].at > target)
			from--;
		out[n++] = (struct isa_loop){from, i, true};
	}
	for (size_t a = 0; a < n; a++)
		for (size_t b = 0; b < n; b++)
			if (a != b && out[b].from >= out[a].from &&
			    out[b].to <= out[a].to &&
			    out[b].to - out[b].from < out[a].to - out[a].from)
				out[a].is_innermost = false;
	return n;
}

static bool is_hotter(const struct isa_count *a, const struct isa_count *b)
{
	if (a->nt_bytes != b->nt_bytes)
		return a->nt_bytes > b->nt_bytes;
	if (a->load_bytes != b->load_bytes)
		return a->load_bytes > b->load_bytes;
	return a->n > b->n;
}

static void finish_kernel(const struct listing *k, struct isa_kernel *out)
{
	struct isa_loop *loops = xcalloc(k->n + 1, sizeof *loops);
	bool *in_loop = xcalloc(k->n + 1, sizeof *in_loop);
	size_t n = find_loops(k, loops);
	for (size_t i = 0; i < n; i++) {
		struct isa_count c = {0};
		for (size_t l = loops[i].from; l <= loops[i].to; l++) {
			in_loop[l] = true;
			add_line(&c, &k->line[l]);
		}
		if (!loops[i].is_innermost)
			continue;
		out->n_loops++;
		if (is_hotter(&c, &out->hot))
			out->hot = c;
	}
	for (size_t l = 0; l < k->n; l++) {
		add_line(&out->all, &k->line[l]);
		out->loop_divides += in_loop[l] && begins(k->line[l].name, "v_div_scale");
	}
	free(in_loop);
	free(loops);
}

/* --- parsing --------------------------------------------------------------------- */

/* Like isa_read, from the text that objdump printed. */
static enum status parse_listing(FILE *text, const struct codeobject *c, struct isa_kernel *out,
				 struct fail *fail)
{
	char raw[LINE];
	struct listing now = {0};
	const struct code_kernel *k = NULL;
	size_t n_seen = 0;
	memset(out, 0, c->n * sizeof *out);
	for (bool more = true; more;) {
		more = fgets(raw, sizeof raw, text) != NULL;
		struct line l;
		char *open = more && raw[0] != '\t' ? strstr(raw, " <") : NULL;
		char *close = open ? strstr(open, ">:") : NULL;
		if (more && !close) {
			if (!k || !parse_line(raw, k->begin, &l) || l.at >= k->end)
				continue;
			if (now.n == now.cap) {
				now.cap = now.cap ? 2 * now.cap : 1024;
				now.line = xrealloc(now.line, now.cap * sizeof l);
			}
			now.line[now.n++] = l;
			continue;
		}
		if (k) {
			finish_kernel(&now, &out[k - c->kernel]);
			n_seen += now.n > 0;
		}
		now.n = 0;
		if (close)
			*close = '\0';
		k = close ? codeobject_find(c, open + 2) : NULL;
	}
	free(now.line);
	if (n_seen < c->n)
		return fail_set(fail, E_FORMAT, "the disassembly has %zu of %zu kernels",
				n_seen, c->n);
	return OK;
}

char *isa_find_objdump(void)
{
	static const char *const names[] = {"llvm-objdump-19", "llvm-objdump",
					    "llvm-objdump-21", "llvm-objdump-20",
					    "llvm-objdump-18"};
	const char *path = getenv("PATH");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		for (const char *p = path ? path : "/usr/bin"; *p;) {
			size_t n = strcspn(p, ":");
			char *file = xasprintf("%.*s/%s", (int)n, p, names[i]);
			if (access(file, X_OK) == 0)
				return file;
			free(file);
			p += n + (p[n] == ':');
		}
	return access("/opt/rocm/llvm/bin/llvm-objdump", X_OK) == 0
		       ? xstrdup("/opt/rocm/llvm/bin/llvm-objdump") : NULL;
}

enum status isa_read(const char *path, const struct codeobject *c, const char *objdump,
		     struct isa_kernel **out, struct fail *fail)
{
	char *tool = objdump ? xstrdup(objdump) : isa_find_objdump();
	if (!tool)
		return fail_set(fail, E_MISSING, "llvm-objdump was not found");
	if (strchr(path, '\'')) {
		free(tool);
		return fail_set(fail, E_IO, "%s: a quote in its name", path);
	}
	char *command = xasprintf("'%s' -d --mcpu=%s '%s' 2>/dev/null", tool, c->arch,
				  path);
	free(tool);
	FILE *f = popen(command, "r");
	free(command);
	if (!f)
		return fail_set(fail, E_IO, "cannot run llvm-objdump");
	*out = xcalloc(c->n + 1, sizeof **out);
	enum status st = parse_listing(f, c, *out, fail);
	if (pclose(f) != 0 && st == OK)
		st = fail_set(fail, E_IO, "llvm-objdump failed on %s", path);
	if (st != OK)
		free(*out);
	return st;
}
