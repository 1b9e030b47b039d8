/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder against llvm-objdump: every instruction of every code object that the build
 * made, and the loader against both: where kernels begin and end. Skipped, and said so,
 * where there is no llvm-objdump or no code object.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/hip-on-gfx11/gfx11_code.h"
#include "tests/tap.h"

static const char *find_objdump(void)
{
	static const char *const names[] = {"llvm-objdump-19", "llvm-objdump",
					    "llvm-objdump-20", "llvm-objdump-21",
					    "/opt/rocm/llvm/bin/llvm-objdump"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char command[128];
		snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", names[i]);
		if (system(command) == 0)
			return names[i];
	}
	return NULL;
}

struct tally {
	long n, n_bad, n_padding; /* padding: outside of kernels */
	const struct code_object *code;
};

/* Does the loader know an instruction there? */
static bool is_in_kernel(const struct code_object *code, uint64_t address)
{
	for (size_t i = 0; i < code->n_kernels; i++) {
		const struct code_kernel *k = &code->kernels[i];
		if (address >= k->begin && address < k->end)
			return k->insts[(address - k->begin) / 4].size != 0;
	}
	return false;
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
	bool is_missed = !is_in_kernel(t->code, address);
	t->n_padding += is_missed;
	is_missed &= !is_padding(line + 1);
	if (is_missed || why || inst.size != n || strcmp(text, line + 1) != 0)
		if (t->n_bad++ < 10)
			printf("# %llx %08x: llvm-objdump says '%s', the decoder '%s'%s\n",
			       (unsigned long long)address, words[0], line + 1, text,
			       is_missed ? ", in no kernel" : "");
}

static void check(const char *objdump, const char *target)
{
	const char *dir = getenv("HALOD_BUILDDIR");
	char path[4096], command[4200], line[1024];
	struct code_object code = {0};
	struct tally t = {.code = &code};
	long n_loaded = 0;
	snprintf(path, sizeof path, "%s/kernels/%s.hsaco", dir ? dir : ".", target);
	if (access(path, R_OK) != 0) {
		ok(true, "%s # SKIP the build made no code object", target);
		return;
	}
	const char *why = code_load(path, &code);
	for (size_t i = 0; !why && i < code.n_kernels; i++) {
		struct code_kernel *k = &code.kernels[i];
		why = code_decode(&code, k);
		for (uint32_t j = 0; !why && j < (k->end - k->begin) / 4; j++)
			n_loaded += k->insts[j].size != 0;
	}
	if (why) {
		ok(false, "%s: %s", target, why);
		return;
	}
	snprintf(command, sizeof command, "%s -d '%s'", objdump, path);
	FILE *in = popen(command, "r");
	while (in && fgets(line, sizeof line, in))
		compare(line, &t);
	int rc = in ? pclose(in) : -1;
	ok(rc == 0 && t.n > 1000 && t.n_bad == 0, "%s: %ld instructions, %ld decoded otherwise",
	   target, t.n, t.n_bad);
	ok(n_loaded == t.n - t.n_padding, "%s: %ld instructions in %zu kernels, %ld of padding",
	   target, n_loaded, code.n_kernels, t.n_padding);
	code_unload(&code);
}

int main(void)
{
	const char *objdump = find_objdump();
	if (!objdump) {
		puts("1..0 # SKIP no llvm-objdump");
		return 0;
	}
#define GPU_TARGET(arch, ...) check(objdump, #arch);
#include "backend/hip/gpu_targets.def"
	return tap_done();
}
