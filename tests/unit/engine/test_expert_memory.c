/* SPDX-License-Identifier: Apache-2.0
 *
 * Models whose experts are read from a file have the bits of those whose experts stay in
 * memory, with whatever room; and a step whose experts cannot be read fails by itself.
 * HALOD_CHECK=short, as under a sanitizer: fewer models.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/hip/hip.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/metrics.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "experts/expert_store.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

#define TINY "models/halo-tiny"
#define MODELS "tests/golden/models/"
#define AHEAD MODELS "qwen35moe"

enum { PROMPT = 40, DECODE = 12, HIP_PROMPT = 14, HIP_FEW = 5, HIP_DECODE = 2,
       HIP_DECODE_AHEAD = 14, N_ROWS = 2 + HIP_DECODE_AHEAD };

static char library[4096]; /* the HIP runtime on the CPU */

struct world {
	bool is_hip, reads_ahead; /* reads_ahead: steps enough for that */
	struct model *m;
	struct backend *b;
	struct engine *e;
	struct fail fail;
};

static enum status world_open_on(struct world *w, const char *backend, const char *model,
				 const char *dir, int64_t bytes, bool exact)
{
	bool is_hip = strcmp(backend, "hip") == 0;
	struct backend_opts bo = {.name = backend, .n_threads = 2, .exact = exact,
				  .expert_memory = bytes, .expert_dir = dir,
				  .hip_library = library};
	struct engine_opts eo = {.n_ctx = 64, .max_seqs = 1};
	*w = (struct world){.is_hip = is_hip};
	w->reads_ahead = strcmp(model, AHEAD) == 0 || strcmp(model, TINY) == 0;
	enum status st = model_open(tap_src(model), NULL, &w->m, &w->fail);
	if (st == OK)
		st = backend_create(&bo, &w->b, &w->fail);
	return st == OK ? engine_create(w->m, w->b, &eo, &w->e, &w->fail) : st;
}

static enum status world_open(struct world *w, const char *model, const char *dir,
			      int64_t bytes, bool exact)
{
	return world_open_on(w, "cpu", model, dir, bytes, exact);
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

/* Logits behind a prompt and behind each of some tokens, at most (N_ROWS, V) in out. On HIP the
 * prompt uses tiles, then some tokens together do not, then one after another. */
static enum status run(struct world *w, float *out)
{
	int n_cached, n = 0, n_steps = 1 + DECODE;
	if (w->is_hip)
		n_steps = 2 + (w->reads_ahead ? HIP_DECODE_AHEAD : HIP_DECODE);
	struct engine_seq *seq = engine_seq_create(w->e, NULL, 0, &n_cached);
	size_t n_vocab = (size_t)engine_n_vocab(w->e);
	int32_t tokens[PROMPT + DECODE];
	for (int i = 0; i < PROMPT + DECODE; i++)
		tokens[i] = (i * 37 + i * i % 11) % 90 + 3;
	enum status st = engine_seq_reserve(w->e, seq, PROMPT + DECODE);
	for (int i = 0; i < n_steps && st == OK; i++) {
		struct engine_slice s = {.seq = seq, .tokens = tokens + n, .n_logits = 1};
		s.n = i == 0 ? w->is_hip ? HIP_PROMPT : PROMPT
			     : w->is_hip && i == 1 ? HIP_FEW : 1;
		n += s.n;
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

/* Bytes of a slot. All experts are equally large, and the store's head is small. */
static int64_t slot_bytes(struct world *w, const char *dir)
{
	char *path = store_of(dir);
	struct stat st;
	int n = 0;
	if (sscanf(w->b->experts_note, "%d of", &n) != 1 || stat(path, &st) != 0)
		abort();
	free(path);
	return st.st_size / n / EXPERT_ALIGN * EXPERT_ALIGN;
}

static void test_bits(const char *backend, const char *model)
{
	struct world w;
	char *dir = image_dir();
	if (world_open_on(&w, backend, model, NULL, 0, false) != OK) {
		ok(false, "%s, %s: %s", backend, model, w.fail.text);
		exit(tap_done());
	}
	size_t n = (size_t)engine_n_vocab(w.e) * N_ROWS * sizeof(float);
	float *want = xcalloc(1, n), *got = xcalloc(1, n);
	is_int(run(&w, want), OK, "%s, %s: all in memory", backend, model);
	int32_t n_used = w.m->config.n_experts_used;
	world_close(&w);
	is_int(world_open_on(&w, backend, model, dir, INT64_C(1) << 30, false), OK,
	       "%s, %s: room for all: %s", backend, model, w.fail.text);
	int64_t slot = slot_bytes(&w, dir);
	is_int(run(&w, got), OK, "%s, %s: runs", backend, model);
	ok(memcmp(want, got, n) == 0, "%s, %s: room for all: the same bits",
	   backend, model);
	world_close(&w);
	for (int i = 0; i < (w.is_hip ? 1 : 3); i++) {
		int64_t n_slots = i == 2 ? 2 * n_used + 1 : 2 * n_used + 3 * i;
		is_int(world_open_on(&w, backend, model, dir, n_slots * slot, false), OK,
		       "%s, %s: room for %d: %s", backend, model, (int)n_slots, w.fail.text);
		memset(got, 0, n);
		double missed = metric_get(METRIC_EXPERT_MISSES);
		double ahead = metric_get(METRIC_EXPERT_AHEAD);
		is_int(run(&w, got), OK, "%s, %s: runs: %s", backend, model,
		       w.fail.text);
		ok(metric_get(METRIC_EXPERT_MISSES) > missed, "%s, %s: some experts are read",
		   backend, model);
		ok(!w.reads_ahead || metric_get(METRIC_EXPERT_AHEAD) > ahead,
		   "%s, %s: and some are read ahead", backend, model);
		ok(memcmp(want, got, n) == 0, "%s, %s: room for %d: the same bits",
		   backend, model, (int)n_slots);
		ok(metric_get(METRIC_EXPERT_SLOTS) > 0, "%s, %s: places are counted", backend,
		   model);
		world_close(&w);
		is_int(metric_get(METRIC_EXPERT_SLOTS), 0, "%s, %s: until they are gone", backend,
		       model);
	}
	if (strcmp(backend, "cpu") == 0) {
		is_int(world_open_on(&w, backend, model, dir, slot, false), E_CONFIG,
		       "%s, %s: too little: %s", backend, model, w.fail.text);
		world_close(&w);
	}
	free(want);
	free(got);
	image_remove(dir);
}

/* A prompt reads an expert once for all of its tokens, however few have room. */
static void test_prompt(const char *model, int n_slots)
{
	struct world w;
	char *dir = image_dir();
	int32_t tokens[PROMPT];
	int n_cached;
	if (world_open(&w, model, dir, INT64_C(1) << 30, false) != OK) {
		ok(false, "%s: %s", model, w.fail.text);
		exit(tap_done());
	}
	int64_t slot = slot_bytes(&w, dir);
	world_close(&w);
	is_int(world_open(&w, model, dir, n_slots * slot, false), OK, "%s: room for %d: %s",
	       model, n_slots, w.fail.text);
	double all = (double)slot * w.m->config.n_layers * w.m->config.n_experts;
	double before = metric_get(METRIC_EXPERT_READ_BYTES);
	for (int i = 0; i < PROMPT; i++)
		tokens[i] = (i * 37 + i * i % 11) % 90 + 3;
	struct engine_seq *seq = engine_seq_create(w.e, NULL, 0, &n_cached);
	struct engine_slice s = {.seq = seq, .tokens = tokens, .n = PROMPT, .n_logits = 1};
	is_int(engine_seq_reserve(w.e, seq, PROMPT), OK, "room for %d tokens", PROMPT);
	is_int(engine_step(w.e, &s, 1, &w.fail), OK, "a prompt: %s", w.fail.text);
	double once = metric_get(METRIC_EXPERT_READ_BYTES) - before;
	ok(once > all / 2 && once <= all, "%s: a prompt of %d tokens reads %.0f of %.0f bytes",
	   model, PROMPT, once, all);
	engine_seq_destroy(w.e, seq);
	world_close(&w);
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

/* room: bytes for some experts, not for all. */
static void test_faults(const char *backend, const char *model, int64_t room)
{
	struct world w;
	char *dir = image_dir();
	if (world_open_on(&w, backend, model, dir, room, false) != OK) {
		ok(false, "%s, %s: %s", backend, model, w.fail.text);
		exit(tap_done());
	}
	size_t n = (size_t)engine_n_vocab(w.e) * N_ROWS * sizeof(float);
	float *want = xcalloc(1, n), *got = xcalloc(1, n);
	is_int(run(&w, want), OK, "%s: before the fault", backend);
	char *path = store_of(dir), *kept = xasprintf("%s.kept", path);
	struct stat st;
	copy(path, kept);
	stat(path, &st);
	if (truncate(path, st.st_size / 4) != 0)
		abort();
	is_int(run(&w, got), E_IO, "%s: the file is cut short: %s", backend,
	       w.fail.text);
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
	for (off_t at = st.st_size / 4; at < st.st_size; at += 4096)
		if (pwrite(fd, "?", 1, at) != 1)
			abort();
	close(fd);
	is_int(world_open_on(&w, backend, model, dir, room, false), E_IO,
	       "changed bytes: a start fails: %s", w.fail.text);
	world_close(&w);
	unlink(path);
	is_int(world_open_on(&w, backend, model, dir, room, false), OK,
	       "without the file it is made anew");
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
	is_int(world_open(&w, TINY, NULL, 1 << 20, true), E_CONFIG, "exact: %s", w.fail.text);
	world_close(&w);
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

/* A plan tells how many bytes of experts are in memory: fewer, where other models hold some. */
static void test_plan(void)
{
	const struct backend_opts bo = {.name = "cpu", .n_threads = 1, .expert_memory = -1};
	struct memory_have have = {.total = INT64_C(1) << 30, .free = INT64_C(1) << 30,
				   .device = "a box"};
	struct engine_opts eo = {.n_ctx = 64, .max_seqs = 1, .kv_bytes = 1 << 20, .have = &have};
	struct world w = {0};
	struct memory_plan alone, beside;
	if (model_open(tap_src(TINY), NULL, &w.m, &w.fail) != OK ||
	    backend_create(&bo, &w.b, &w.fail) != OK)
		exit(99);
	is_int(engine_plan(w.m, w.b, &eo, &alone, &w.fail), OK, "a plan");
	is_int(alone.experts, model_expert_bytes(w.m), "all experts fit");
	have.free = alone.taken + alone.reserve - (1 << 20);
	is_int(engine_plan(w.m, w.b, &eo, &beside, &w.fail), OK, "a plan beside others");
	ok(beside.experts > 0 && beside.experts < alone.experts, "%lld of %lld bytes of them",
	   (long long)beside.experts, (long long)alone.experts);
	world_close(&w);
}

int main(void)
{
	static const char *const models[] = {
		TINY, MODELS "qwen3moe-ct-asym", MODELS "mixtral", MODELS "qwen35moe",
		MODELS "deepseekv3-yarn", MODELS "minimaxm2"};
	static const char *const hip_models[] = { /* with zero points, a shared expert that is
						   * one more slot, biases, groups */
		MODELS "qwen3moe-ct-asym", MODELS "qwen35moe", MODELS "gptoss",
		MODELS "deepseekv3-yarn"};
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 getenv("HALOD_BUILDDIR") ? getenv("HALOD_BUILDDIR") : ".");
	size_t step = tap_check("short") ? 4 : 1;
	for (size_t i = 0; i < ARRAY_LEN(models); i += step)
		test_bits("cpu", models[i]);
	for (size_t i = 0; i < ARRAY_LEN(hip_models); i += step)
		test_bits("hip", hip_models[i]);
	test_prompt(TINY, 9);
	test_faults("cpu", TINY, 2 << 20);
	test_faults("hip", MODELS "qwen3moe-ct-asym", 130 << 10);
	test_refusals();
	test_plan();
	return tap_done();
}
