/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose experts are read from a file have the bits of those whose experts stay in
 * memory, with whatever room; and a step whose experts cannot be read fails by itself.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "experts/expert_store.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

#define TINY "models/halo-tiny"
#define MODELS "tests/golden/models/"

enum { PROMPT = 40, DECODE = 12 };

struct world {
	struct model *m;
	struct backend *b;
	struct engine *e;
	struct fail fail;
};

static enum status world_open(struct world *w, const char *model, const char *dir,
			      int64_t bytes, bool exact)
{
	struct backend_opts bo = {.name = "cpu", .n_threads = 2, .exact = exact,
				  .expert_memory = bytes, .expert_dir = dir};
	struct engine_opts eo = {.n_ctx = 64, .max_seqs = 1};
	*w = (struct world){0};
	enum status st = model_open(tap_src(model), NULL, &w->m, &w->fail);
	if (st == OK)
		st = backend_create(&bo, &w->b, &w->fail);
	return st == OK ? engine_create(w->m, w->b, &eo, &w->e, &w->fail) : st;
}

static void world_close(struct world *w)
{
	if (w->e)
		engine_destroy(w->e);
	if (w->b)
		backend_destroy(w->b);
	if (w->m)
		model_close(w->m);
}

/* Logits behind a prompt and behind each of some tokens, (1 + DECODE, V) in out. */
static enum status run(struct world *w, float *out)
{
	int n_cached;
	struct engine_seq *seq = engine_seq_create(w->e, NULL, 0, &n_cached);
	size_t n_vocab = (size_t)engine_n_vocab(w->e);
	int32_t tokens[PROMPT + DECODE];
	for (int i = 0; i < PROMPT + DECODE; i++)
		tokens[i] = (i * 37 + i * i % 11) % 90 + 3;
	enum status st = engine_seq_reserve(w->e, seq, PROMPT + DECODE);
	for (int i = 0; i <= DECODE && st == OK; i++) {
		struct engine_slice s = {.seq = seq, .n_logits = 1};
		s.tokens = i ? &tokens[PROMPT + i - 1] : tokens;
		s.n = i ? 1 : PROMPT;
		st = engine_step(w->e, &s, 1, &w->fail);
		if (st == OK)
			memcpy(out + (size_t)i * n_vocab, engine_logits(w->e, 0),
			       n_vocab * sizeof *out);
	}
	engine_seq_destroy(w->e, seq);
	return st;
}

/* Path of the only store in dir, malloc'ed. */
static char *store_of(const char *dir)
{
	DIR *d = opendir(dir);
	char *path = NULL;
	for (struct dirent *e; d && (e = readdir(d));)
		if (str_ends(str_of(e->d_name), str_of(EXPERT_STORE_SUFFIX)))
			path = file_join(dir, e->d_name);
	closedir(d);
	if (!path)
		abort();
	return path;
}

/* Bytes of a slot: the largest expert of the store. */
static int64_t slot_bytes(struct world *w)
{
	double mb = 0;
	const char *at = strstr(w->b->experts_note, " experts of ");
	if (!at || sscanf(at, " experts of %lf MB", &mb) != 1)
		abort();
	return (int64_t)(mb * 1e6 / EXPERT_ALIGN + 0.9) * EXPERT_ALIGN + EXPERT_ALIGN;
}

static void test_bits(const char *model)
{
	struct world w;
	char *dir = image_dir();
	if (world_open(&w, model, NULL, 0, false) != OK) {
		ok(false, "%s: %s", model, w.fail.text);
		exit(tap_done());
	}
	size_t n = (size_t)engine_n_vocab(w.e) * (1 + DECODE) * sizeof(float);
	float *want = xcalloc(1, n), *got = xcalloc(1, n);
	is_int(run(&w, want), OK, "%s: all in memory", model);
	int32_t n_used = w.m->config.n_experts_used;
	world_close(&w);
	is_int(world_open(&w, model, dir, INT64_C(1) << 30, false), OK, "%s: room for all: %s",
	       model, w.fail.text);
	int64_t slot = slot_bytes(&w);
	is_int(run(&w, got), OK, "%s: runs", model);
	ok(memcmp(want, got, n) == 0, "%s: room for all: the same bits", model);
	world_close(&w);
	for (int i = 0; i < 3; i++) {
		int64_t n_slots = i == 2 ? 2 * n_used + 1 : 2 * n_used + 3 * i;
		is_int(world_open(&w, model, dir, n_slots * slot, false), OK,
		       "%s: room for %d: %s", model, (int)n_slots, w.fail.text);
		memset(got, 0, n);
		is_int(run(&w, got), OK, "%s: runs: %s", model, w.fail.text);
		ok(memcmp(want, got, n) == 0, "%s: room for %d: the same bits", model,
		   (int)n_slots);
		world_close(&w);
	}
	is_int(world_open(&w, model, dir, slot, false), E_CONFIG, "%s: too little: %s", model,
	       w.fail.text);
	world_close(&w);
	free(want);
	free(got);
	image_remove(dir);
}

static void copy(const char *from, const char *to)
{
	struct buf b = {0};
	if (file_read(from, 1 << 28, &b, NULL) != OK)
		abort();
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, b.p, b.n) != (ssize_t)b.n)
		abort();
	close(fd);
	buf_deinit(&b);
}

static void test_faults(void)
{
	struct world w;
	char *dir = image_dir();
	if (world_open(&w, TINY, dir, 2 << 20, false) != OK)
		abort();
	size_t n = (size_t)engine_n_vocab(w.e) * (1 + DECODE) * sizeof(float);
	float *want = xcalloc(1, n), *got = xcalloc(1, n);
	is_int(run(&w, want), OK, "before the fault");
	char *path = store_of(dir), *kept = xasprintf("%s.kept", path);
	struct stat st;
	copy(path, kept);
	stat(path, &st);
	if (truncate(path, st.st_size / 4) != 0)
		abort();
	is_int(run(&w, got), E_IO, "the file is cut short: %s", w.fail.text);
	ok(strstr(w.fail.text, "shorter") && !strstr(w.fail.text, dir),
	   "the message says so, and names no path");
	is_int(run(&w, got), E_IO, "and again");
	copy(kept, path); /* the same file: its bytes are back */
	memset(got, 0, n);
	is_int(run(&w, got), OK, "the bytes are back: %s", w.fail.text);
	ok(memcmp(want, got, n) == 0, "and so are the bits");
	world_close(&w);

	/* A store whose bytes changed: opened, since its head is good, and never believed. */
	int fd = open(path, O_RDWR);
	for (off_t at = 1 << 16; at < st.st_size; at += 4096)
		if (pwrite(fd, "?", 1, at) != 1)
			abort();
	close(fd);
	is_int(world_open(&w, TINY, dir, 2 << 20, false), E_IO,
	       "changed bytes: a start fails: %s", w.fail.text);
	world_close(&w);
	unlink(path);
	is_int(world_open(&w, TINY, dir, 2 << 20, false), OK, "without the file it is made anew");
	memset(got, 0, n);
	is_int(run(&w, got), OK, "and runs");
	ok(memcmp(want, got, n) == 0, "with the same bits");
	world_close(&w);
	free(want);
	free(got);
	free(path);
	free(kept);
	image_remove(dir);
}

static void test_refusals(void)
{
	struct world w;
	struct fail fail = {0};
	struct backend *b;
	struct backend_opts hip = {.name = "hip", .expert_memory = 1 << 20};
	is_int(world_open(&w, TINY, NULL, 1 << 20, true), E_CONFIG, "exact: %s", w.fail.text);
	world_close(&w);
	is_int(backend_create(&hip, &b, &fail), E_CONFIG, "hip: %s", fail.text);
	is_str(fail.param, "expert_memory", "names the setting");
	is_int(world_open(&w, TINY, "/nowhere/at/all", 2 << 20, false), E_IO,
	       "a folder that is not there: %s", w.fail.text);
	world_close(&w);
	is_int(world_open(&w, MODELS "qwen3-bf16", "/nowhere", 1 << 20, false), OK,
	       "a model without experts wants none: %s", w.fail.text);
	world_close(&w);
	is_int(world_open(&w, MODELS "gptoss", "/nowhere", 1 << 20, false), E_UNSUPPORTED,
	       "experts that are no panels: %s", w.fail.text);
	is_str(w.fail.param, "expert_memory", "names the setting");
	world_close(&w);
	is_int(world_open(&w, TINY, "/nowhere", -1, false), OK,
	       "auto: what fits stays in memory: %s", w.fail.text);
	is_str(w.b->experts_note, "", "and there is no file");
	world_close(&w);
}

int main(void)
{
	static const char *const models[] = {
		TINY, MODELS "qwen3moe-ct-asym", MODELS "mixtral", MODELS "qwen35moe",
		MODELS "deepseekv3-yarn", MODELS "minimaxm2"};
	for (size_t i = 0; i < ARRAY_LEN(models); i++)
		test_bits(models[i]);
	test_faults();
	test_refusals();
	return tap_done();
}
