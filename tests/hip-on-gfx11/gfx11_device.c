/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind tests/hip-on-cpu/device.h: the kernels of a code object, executed instruction by
 * instruction. README.md has the options of HALOD_GFX11.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/hip-on-cpu/device.h"
#include "tests/hip-on-gfx11/gfx11_wave.h"

enum { MAX_BLOCKS = 1 << 17, KERNARG_BYTES = 4096 };

static struct {
	pthread_once_t once;
	struct code_object code;
	struct kernel_entry *entries;
	uint64_t max_insts;
	FILE *counts;
	pthread_mutex_t lock; /* of blocks, and of the sorted ones but for arguments */
	struct range block[MAX_BLOCKS]; /* sorted */
	size_t n_blocks;
	bool is_sorted;
	struct range sorted[MAX_BLOCKS + 2]; /* of a launch */
	size_t n_sorted, kernarg_at; /* kernarg_at: which of them holds arguments */
	uint64_t n_insts;
	double seconds;
} D = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static const char *target(void)
{
	const char *t = gfx11_option("target");
	return t ? t : "gfx1151";
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "hip-on-gfx11: %s: %s\n", what, why);
	abort();
}

/* --- coverage ------------------------------------------------------------------------- */

/* A line a kernel: chip, name, launches, the address of its first instruction, and a digit
 * (enum reached) for each instruction in order. coverage.py merges the lines. Processes may
 * share the file; the first one also writes of the kernels that it did not launch. */
static void write_coverage(void)
{
	const char *path = gfx11_option("coverage");
	FILE *out = path ? fopen(path, "a") : NULL;
	if (D.n_insts && gfx11_option("speed"))
		fprintf(stderr, "hip-on-gfx11: %" PRIu64 " wave instructions, %.2f M a "
			"second of a thread\n",
			D.n_insts, 1e-6 * (double)D.n_insts / D.seconds);
	if (!out)
		return;
	flock(fileno(out), LOCK_EX);
	bool is_first = fseek(out, 0, SEEK_END) == 0 && ftell(out) == 0;
	for (size_t i = 0; i < D.code.n_kernels; i++) {
		struct code_kernel *k = &D.code.kernels[i];
		if (!k->n_launches && (!is_first || code_decode(&D.code, k) != NULL))
			continue;
		fprintf(out, "%s %s %" PRIu64 " %x ", D.code.arch, k->name, k->n_launches,
			k->begin);
		for (size_t j = 0; j < (k->end - k->begin) / 4; j++)
			if (k->insts[j].size && k->insts[j].op != OP_s_code_end)
				putc('0' + k->reached[j], out);
		putc('\n', out);
	}
	fflush(out);
	flock(fileno(out), LOCK_UN);
	fclose(out);
}

/* --- the code object ------------------------------------------------------------------- */

/* Words of the instructions, by their addresses in hexadecimal, become s_nop. */
static void remove_words(const char *text)
{
	unsigned address, n;
	int used;
	for (; sscanf(text, "%x:%u%n", &address, &n, &used) == 2; text += *text == '+') {
		for (const uint32_t nop = 0xBF800000; n--; address += 4) {
			if (address < D.code.text || address + 4 > D.code.image_bytes)
				die("nops", "no instruction is there");
			memcpy(D.code.image + address, &nop, sizeof nop);
		}
		text += used;
	}
	if (*text)
		die("nops", "is not ADDRESS:N+...");
}

static void start(void)
{
	const char *dir = getenv("HALOD_BUILDDIR"), *option;
	char path[4096];
	snprintf(path, sizeof path, "%s/kernels/%s.hsaco", dir ? dir : ".", target());
	if ((option = gfx11_option("code")))
		snprintf(path, sizeof path, "%s", option);
	const char *why = code_load(path, &D.code);
	if (why)
		die(path, why);
	if (strcmp(D.code.arch, target()) != 0)
		die(path, "is for another chip than the option target says");
	if ((option = gfx11_option("nops")))
		remove_words(option);
	adder_open();
	option = gfx11_option("max_insts");
	D.max_insts = option ? strtoull(option, NULL, 10) : 1ull << 32;
	D.entries = calloc(D.code.n_kernels, sizeof *D.entries);
	for (size_t i = 0; i < D.code.n_kernels; i++) {
		struct code_kernel *k = &D.code.kernels[i];
		size_t *bytes = calloc(MAX_CODE_ARGS, sizeof *bytes);
		int n = 0;
		for (int j = 0; j < k->n_args; j++)
			if (k->args[j].kind == ARG_EXPLICIT)
				bytes[n++] = k->args[j].size;
		D.entries[i] = (struct kernel_entry){k->name, NULL, n, bytes};
	}
	if ((option = gfx11_option("counts")) && !(D.counts = fopen(option, "a")))
		die(option, "cannot be written");
	atexit(write_coverage);
}

const char *device_name(void)
{
	return "gfx11 by an interpreter";
}

const char *device_arch(void)
{
	return target();
}

const struct kernel_entry *kernels_find(const char *name)
{
	pthread_once(&D.once, start);
	for (size_t i = 0; i < D.code.n_kernels; i++)
		if (strcmp(D.code.kernels[i].name, name) == 0)
			return &D.entries[i];
	return NULL;
}

/* --- memory ----------------------------------------------------------------------------- */

/* Where an address belongs among n sorted ranges. */
static size_t place_of(const struct range *r, size_t n, uint64_t lo)
{
	size_t a = 0, b = n;
	while (a < b) {
		size_t m = a + (b - a) / 2;
		if (r[m].lo < lo)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

/* Adds to n sorted ranges, where there is room for one more; returns its place. */
static size_t insert(struct range *r, size_t n, struct range more)
{
	size_t at = place_of(r, n, more.lo);
	memmove(r + at + 1, r + at, (n - at) * sizeof *r);
	r[at] = more;
	return at;
}

void device_memory(void *p, size_t n_bytes, enum memory_kind kind)
{
	static const unsigned allows[] = {[MEMORY_DEVICE] = MAY_ALL,
					  [MEMORY_COHERENT] = MAY_READ | MAY_WRITE,
					  [MEMORY_PINNED] = 0};
	uint64_t lo = (uint64_t)(uintptr_t)p;
	pthread_mutex_lock(&D.lock);
	D.is_sorted = false;
	if (kind != MEMORY_GONE) {
		if (D.n_blocks == MAX_BLOCKS)
			die("memory", "too many blocks");
		insert(D.block, D.n_blocks++, (struct range){lo, lo + n_bytes, allows[kind]});
	} else {
		size_t at = place_of(D.block, D.n_blocks, lo);
		if (at < D.n_blocks && D.block[at].lo == lo)
			memmove(D.block + at, D.block + at + 1,
				(--D.n_blocks - at) * sizeof *D.block);
	}
	pthread_mutex_unlock(&D.lock);
}

/* Of a launch: blocks, its arguments, and the image before its instructions. Copied again
 * only where blocks came or went: another thread may add some while a kernel runs. */
static void sort_ranges(struct launch *l)
{
	uint64_t image = (uint64_t)(uintptr_t)D.code.image;
	struct range kernarg = {l->kernarg, l->kernarg + l->kernel->kernarg_bytes,
				MAY_READ};
	pthread_mutex_lock(&D.lock);
	if (!D.is_sorted) {
		size_t n = D.n_blocks;
		memcpy(D.sorted, D.block, n * sizeof *D.sorted);
		insert(D.sorted, n++, (struct range){image, image + D.code.text, MAY_READ});
		D.kernarg_at = insert(D.sorted, n++, kernarg);
		D.n_sorted = n;
		D.is_sorted = true;
	}
	pthread_mutex_unlock(&D.lock);
	D.sorted[D.kernarg_at] = kernarg;
	l->ranges = D.sorted;
	l->n_ranges = D.n_sorted;
}

/* --- launches --------------------------------------------------------------------------- */

static const char *fill_arguments(const struct code_kernel *k, void **args,
				  const struct device_launch *d, unsigned char *out)
{
	memset(out, 0xFF, KERNARG_BYTES);
	if (k->kernarg_bytes > KERNARG_BYTES)
		return "too many arguments";
	for (int i = 0, at = 0; i < k->n_args; i++) {
		const struct code_arg *a = &k->args[i];
		const uint32_t values[] = {
			[ARG_BLOCK_COUNT_X] = d->grid_x, [ARG_BLOCK_COUNT_Y] = d->grid_y,
			[ARG_BLOCK_COUNT_Z] = 1, [ARG_GROUP_SIZE_X] = d->n_threads,
			[ARG_GROUP_SIZE_Y] = 1, [ARG_GROUP_SIZE_Z] = 1, [ARG_ZERO] = 0};
		if (a->kind == ARG_UNKNOWN || (uint64_t)a->offset + a->size > k->kernarg_bytes)
			return "an argument of a kind that is not known";
		if (a->kind == ARG_EXPLICIT) {
			memcpy(out + a->offset, args[at++], a->size);
		} else {
			memset(out + a->offset, 0, a->size);
			memcpy(out + a->offset, &values[a->kind], a->size < 4 ? a->size : 4);
		}
	}
	return NULL;
}

static void write_counts(const struct launch *l)
{
	const struct counts *c = &l->counts;
	fprintf(D.counts, "{\"kernel\":\"%s\",\"target\":\"%s\",\"grid\":[%u,%u],\"threads\":%u,"
		"\"vgprs\":%u,\"lds\":%u,\"waves\":%u", l->kernel->name, D.code.arch, l->grid_x,
		l->grid_y, l->n_threads, l->kernel->n_vgprs, l->lds_bytes,
		l->grid_x * l->grid_y * ((l->n_threads + LANES - 1) / LANES));
	for (int i = 0; i < N_CLASSES; i++)
		fprintf(D.counts, ",\"%s\":%" PRIu64, class_names[i], c->issued[i]);
	fprintf(D.counts, ",\"load_bytes\":%" PRIu64 ",\"stream_bytes\":%" PRIu64
		",\"store_bytes\":%" PRIu64 ",\"scalar_bytes\":%" PRIu64 ",\"lines\":%" PRIu64
		",\"store_lines\":%" PRIu64 ",\"lds_bytes\":%" PRIu64 ",\"lds_cycles\":%" PRIu64
		",\"lds_ideal\":%" PRIu64 ",\"wmma_cycles\":%" PRIu64 "}\n", c->load_bytes,
		c->stream_bytes, c->store_bytes, c->scalar_bytes, c->lines, c->store_lines,
		c->lds_bytes, c->lds_cycles, c->lds_ideal, c->wmma_cycles);
	fflush(D.counts);
}

bool device_run(const struct kernel_entry *entry, void **args, const struct device_launch *d)
{
	static unsigned char kernarg[KERNARG_BYTES] __attribute__((aligned(64)));
	struct code_kernel *k = &D.code.kernels[entry - D.entries];
	struct launch l = {
		.code = &D.code, .kernel = k, .grid_x = d->grid_x, .grid_y = d->grid_y,
		.n_threads = d->n_threads, .lds_bytes = k->lds_bytes + (uint32_t)d->lds_bytes,
		.is_reversed = d->is_reversed, .kernarg = (uint64_t)(uintptr_t)kernarg,
		.has_trans_hazard = strcmp(D.code.arch, "gfx1100") == 0,
		.max_insts = D.max_insts, .is_counting = D.counts != NULL,
	};
	const char *why = l.lds_bytes > LDS_BYTES ? "more LDS than there is" : NULL;
	if (!why)
		why = kernel_link(&D.code, k);
	if (!why)
		why = fill_arguments(k, args, d, kernarg);
	if (why) {
		fprintf(stderr, "hip-on-gfx11: %s: %s\n", k->name, why);
		return false;
	}
	sort_ranges(&l);
	k->n_launches++;
	bool is_good = launch_run(&l);
	D.seconds += l.seconds;
	D.n_insts += l.n_insts;
	if (!is_good)
		fprintf(stderr, "hip-on-gfx11: %s\n", l.error);
	if (D.counts)
		write_counts(&l);
	return is_good;
}
