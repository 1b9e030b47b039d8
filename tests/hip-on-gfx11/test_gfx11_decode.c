/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder against llvm-objdump: every instruction of every code object that the build
 * made and disassembled, and the loader against both: where kernels begin and end. Skipped,
 * and said so, where there is no code object or was no llvm-objdump.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/hip-on-gfx11/gfx11_code.h"
#include "tests/tap.h"

struct tally {
	long n, n_bad, n_padding; /* padding: outside of kernels */
	const struct code_object *code;
	const struct code_kernel *kernel; /* of the last instruction that had one */
};

static bool is_inside(const struct code_kernel *k, uint64_t address)
{
	return k && address >= k->begin && address < k->end;
}

/* Does the loader know an instruction there? */
static bool is_in_kernel(struct tally *t, uint64_t address)
{
	for (size_t i = 0; i < t->code->n_kernels && !is_inside(t->kernel, address); i++)
		t->kernel = &t->code->kernels[i];
	return is_inside(t->kernel, address) &&
	       t->kernel->insts[(address - t->kernel->begin) / 4].size != 0;
}

static bool is_padding(const char *text)
{
	return strcmp(text, "s_code_end") == 0 || strcmp(text, "s_nop 0") == 0;
}

/* "\ttext  // address: words": one instruction; anything else is passed over. */
static void compare(char *line, struct tally *t)
{
	char *comment = strstr(line, "// "), *end = comment;
	uint32_t words[4];
	size_t n = 0;
	if (line[0] != '\t' || !comment)
		return;
	while (end > line && end[-1] == ' ')
		end--;
	*end = '\0';
	char *p = comment + 3;
	uint64_t address = strtoull(p, &p, 16);
	for (p++; n < 4; n++) {
		char *next;
		words[n] = (uint32_t)strtoul(p, &next, 16);
		if (next == p)
			break;
		p = next;
	}
	for (char *c = line + 1; *c; c++)
		*c = *c == '\t' ? ' ' : *c;
	struct inst inst;
	char text[256];
	const char *why = inst_decode(words, n, address, &inst);
	if (why)
		snprintf(text, sizeof text, "%s", why);
	else
		inst_text(&inst, text, sizeof text);
	t->n++;
	bool is_missed = !is_in_kernel(t, address);
	t->n_padding += is_missed;
	is_missed &= !is_padding(line + 1);
	if (is_missed || why || inst.size != n || strcmp(text, line + 1) != 0)
		if (t->n_bad++ < 10)
			printf("# %llx %08x: llvm-objdump says '%s', the decoder '%s'%s\n",
			       (unsigned long long)address, words[0], line + 1, text,
			       is_missed ? ", in no kernel" : "");
}

/* Decodes all kernels. NULL, or why not. n: instructions. */
static const char *load(const char *path, struct code_object *code, long *n)
{
	const char *why = code_load(path, code);
	for (size_t i = 0; !why && i < code->n_kernels; i++) {
		struct code_kernel *k = &code->kernels[i];
		why = code_decode(code, k);
		for (uint32_t j = 0; !why && j < (k->end - k->begin) / 4; j++)
			*n += k->insts[j].size != 0;
	}
	return why;
}

static void check(const char *target)
{
	const char *dir = getenv("HALOD_BUILDDIR");
	char path[4096], line[1024];
	struct code_object code = {0};
	struct tally t = {.code = &code};
	long n_loaded = 0;
	snprintf(path, sizeof path, "%s/kernels/%s.hsaco", dir ? dir : ".", target);
	if (access(path, R_OK) != 0) {
		ok(true, "%s # SKIP the build made no code object", target);
		return;
	}
	const char *why = load(path, &code, &n_loaded);
	snprintf(path, sizeof path, "%s/kernels/%s.dis", dir ? dir : ".", target);
	FILE *in = why ? NULL : fopen(path, "r");
	if (!in) {
		ok(false, "%s: %s", target, why ? why : "was not disassembled");
		return;
	}
	if (!fgets(line, sizeof line, in)) {
		ok(true, "%s # SKIP there was no llvm-objdump", target);
		return;
	}
	while (fgets(line, sizeof line, in))
		compare(line, &t);
	fclose(in);
	ok(t.n > 1000 && t.n_bad == 0, "%s: %ld instructions, %ld decoded otherwise", target,
	   t.n, t.n_bad);
	ok(n_loaded == t.n - t.n_padding, "%s: %ld instructions in %zu kernels, %ld of padding",
	   target, n_loaded, code.n_kernels, t.n_padding);
	code_unload(&code);
}

int main(void)
{
#define GPU_TARGET(arch, ...) check(#arch);
#include "backend/hip/gpu_targets.def"
	return tap_done();
}
