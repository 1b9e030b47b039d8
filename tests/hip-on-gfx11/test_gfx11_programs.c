/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter on small programs with known results, and on others of which each does
 * what a chip would get wrong: every check is seen to fire. On each instruction set of
 * the host that there is.
 */
#include "tests/hip-on-gfx11/gfx11_wave.h"
#include "tests/tap.h"

#include <string.h>

enum {
	PAGE = 4096,
	OUT_WORDS = 256,
	FIRST_IN = 32,
	N_VGPRS = 32,
	PROGRAM_LDS = 1024,
	MEMORY_PAGES = 3,
	GROUP_IN_S2 = 0x80,
};

struct line {
	const char *text;
	uint32_t words[3];
	int n;
};

struct program {
	uint32_t n_groups;
	const char *name;
	uint32_t n_threads;
	const char *target, *error;
	uint32_t value[64];
};

static struct code_object code;
static uint32_t *memory;

/* Lines into the image; true: each is decoded and written as it stands in the table. */
static bool assemble(const struct program *p, const struct line *line, size_t n,
		     struct code_kernel *k)
{
	bool is_same = true;
	size_t at = 0;
	for (size_t i = 0; i < n; i++) {
		struct inst inst;
		char text[128];
		const char *why = inst_decode(line[i].words, (size_t)line[i].n, 0, &inst);
		inst_text(&inst, text, sizeof text);
		if (why || strcmp(text, line[i].text) != 0 || inst.size != line[i].n) {
			printf("# %s: %s\n", line[i].text, why ? why : text);
			is_same = false;
		}
		memcpy(code.image + PAGE + at, line[i].words, 4 * (size_t)line[i].n);
		at += 4 * (size_t)line[i].n;
	}
	*k = (struct code_kernel){.name = "program", .n_vgprs = N_VGPRS, .n_user_sgprs = 2,
				  .properties = 0x408, .lds_bytes = PROGRAM_LDS,
				  .rsrc2 = p->n_groups > 1 ? GROUP_IN_S2 : 0,
				  .begin = PAGE, .end = PAGE + (uint32_t)at};
	return is_same;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct range *)a)->lo, y = ((const struct range *)b)->lo;
	return x < y ? -1 : x > y;
}

static void check(const struct program *p, const struct line *line, size_t n)
{
	struct code_kernel k;
	bool is_same = assemble(p, line, n, &k);
	uint64_t kernarg = (uint64_t)(uintptr_t)memory;
	/* The device's, the host's, the host's that is not coherent; the argument. */
	struct range range[] = {
		{kernarg, kernarg + 4 * OUT_WORDS, MAY_ALL},
		{kernarg + PAGE, kernarg + PAGE + 4 * OUT_WORDS, MAY_READ | MAY_WRITE},
		{kernarg + 2 * PAGE, kernarg + 2 * PAGE + 4 * OUT_WORDS, 0},
		{(uint64_t)(uintptr_t)&kernarg, (uint64_t)(uintptr_t)(&kernarg + 1), MAY_READ}};
	enum { N_RANGES = sizeof range / sizeof *range };
	qsort(range, N_RANGES, sizeof *range, by_address);
	struct launch l = {.code = &code, .kernel = &k, .grid_x = p->n_groups, .grid_y = 1,
			   .n_threads = p->n_threads, .lds_bytes = k.lds_bytes,
			   .has_trans_hazard = strcmp(p->target, "gfx1100") == 0,
			   .ranges = range, .n_ranges = N_RANGES,
			   .kernarg = (uint64_t)(uintptr_t)&kernarg, .max_insts = 10000,
			   .is_counting = true};
	for (uint32_t i = 0; i < OUT_WORDS; i++)
		memory[i] = i < FIRST_IN ? 0 : 1000 + i - FIRST_IN;
	snprintf(code.arch, sizeof code.arch, "%s", p->target);
	const char *why = kernel_link(&code, &k);
	bool is_good = !why && launch_run(&l);
	const char *error = why ? why : l.error;
	if (p->error) {
		ok(is_same && !is_good && strstr(error, p->error), "%s: %s", p->name, error);
	} else {
		uint32_t bad = 0;
		for (uint32_t i = 0; i < p->n_threads; i++)
			bad += memory[i] != p->value[i];
		ok(is_same && is_good && !bad, "%s%s%s", p->name, is_good ? "" : ": ", error);
		for (uint32_t i = 0; bad && i < p->n_threads; i++)
			printf("# lane %u: %08x, not %08x\n", i, memory[i], p->value[i]);
	}
	free(k.insts);
	free(k.reached);
}

#define PROGRAM(...) PROGRAM_OF(1, __VA_ARGS__)
#define PROGRAM_OF(groups, name, threads, target, error, expression)                        \
	{                                                                                    \
		struct program p = {groups, name, threads, target, error, {0}};              \
		for (uint32_t i = 0; i < threads; i++)                                       \
			p.value[i] = (uint32_t)(expression);                                 \
		static const struct line lines[] = {
#define LINE(text, ...) \
	{text, {__VA_ARGS__}, (int)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))},
#define END                                                                                  \
		};                                                                           \
		check(&p, lines, sizeof lines / sizeof *lines);                              \
	}

static void run_all(void)
{
#include "tests/hip-on-gfx11/gfx11_programs.def"
#include "tests/hip-on-gfx11/gfx11_faults.def"
}

int main(void)
{
	static const struct executor *const all[] = {&executor_avx512, &executor_avx2,
						     &executor_portable};
	char isa[32];
	code.image = aligned_alloc(PAGE, 2 * PAGE);
	code.image_bytes = 2 * PAGE;
	memory = aligned_alloc(PAGE, MEMORY_PAGES * PAGE);
	memset(memory, 0, MEMORY_PAGES * PAGE);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (!all[i]->is_there()) {
			printf("# no %s on this host\n", all[i]->name);
			continue;
		}
		printf("# %s\n", all[i]->name);
		snprintf(isa, sizeof isa, "isa=%s", all[i]->name);
		setenv("HALOD_GFX11", isa, 1);
		run_all();
	}
	free(memory);
	free(code.image);
	return tap_done();
}
