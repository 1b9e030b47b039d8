/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights from a file of packed ones: logits are those without it, bit by bit, whatever has
 * happened to the file; and what is in the folder afterwards.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "backend/cpu/cpu_cache_private.h"
#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

#define TINY "models/halo-tiny"
#define MODELS "tests/golden/models/"

/* --- a run ------------------------------------------------------------------------- */

struct outcome {
	float *logits; /* of the last of a few tokens */
	size_t n_bytes;
	char note[400];
};

struct how {
	const char *model, *isa, *cache;
	bool gives_up; /* does not wait for the file */
	bool huge_only;
};

static struct outcome run(struct how how)
{
	static const int32_t tokens[] = {5, 17, 3, 40, 8};
	struct outcome out = {0};
	struct fail fail = {0};
	struct model *m;
	struct backend *b;
	struct engine *e;
	struct backend_opts bo = {.name = "cpu", .n_threads = 2, .cpu_isa = how.isa,
				  .weight_cache = how.cache, .cache_waits = !how.gives_up,
				  .checks = {.small_pages = !how.huge_only}};
	struct engine_opts eo = {.n_ctx = 64, .max_seqs = 1};
	const char *dir = *how.model == '/' ? how.model : tap_src(how.model);
	if (model_open(dir, NULL, &m, &fail) != OK ||
	    backend_create(&bo, &b, &fail) != OK ||
	    engine_create(m, b, &eo, &e, &fail) != OK) {
		ok(false, "%s: %s", how.model, fail.text);
		exit(tap_done());
	}
	int n_cached;
	struct engine_seq *seq = engine_seq_create(e, NULL, 0, &n_cached);
	struct engine_slice slice = {seq, tokens, ARRAY_LEN(tokens), 1, 1, 0};
	if (engine_seq_reserve(e, seq, ARRAY_LEN(tokens)) != OK ||
	    engine_step(e, &slice, 1, &fail) != OK) {
		ok(false, "%s: a step: %s", how.model, fail.text);
		exit(tap_done());
	}
	out.n_bytes = (size_t)engine_n_vocab(e) * sizeof *out.logits;
	out.logits = xmalloc(out.n_bytes);
	memcpy(out.logits, engine_logits(e, 0), out.n_bytes);
	memcpy(out.note, b->weights_note, sizeof out.note);
	engine_seq_destroy(e, seq);
	engine_destroy(e);
	backend_destroy(b);
	model_close(m);
	return out;
}

/* The same logits, and a note that has `note` in it. */
static void check(const struct outcome *plain, struct how how, const char *note,
		  const char *what)
{
	struct outcome o = run(how);
	ok(o.n_bytes == plain->n_bytes && memcmp(o.logits, plain->logits, o.n_bytes) == 0,
	   "%s: the same logits", what);
	if (!ok(strstr(o.note, note), "%s: %s", what, note))
		printf("# note: %s\n", o.note);
	free(o.logits);
}

/* --- the folder ----------------------------------------------------------------------- */

/* How many names in dir have `part` in them; *out_path, where not NULL: one of them. */
static int count(const char *dir, const char *part, char **out_path)
{
	DIR *d = opendir(dir);
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!strstr(e->d_name, part))
			continue;
		if (out_path && n == 0)
			*out_path = file_join(dir, e->d_name);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

static char *only_file(const char *dir)
{
	char *path = NULL;
	is_int(count(dir, CPU_CACHE_SUFFIX, &path), 1, "one file");
	if (!path)
		exit(tap_done());
	return path;
}

static void copy_model(const char *from, const char *to)
{
	DIR *d = opendir(from);
	for (struct dirent *e; d && (e = readdir(d));) {
		struct buf b = {0};
		char *path = file_join(from, e->d_name);
		if (e->d_name[0] != '.' && file_read(path, 1 << 26, &b, NULL) == OK)
			image_write(to, e->d_name, buf_str(&b));
		buf_deinit(&b);
		free(path);
	}
	if (d)
		closedir(d);
}

/* --- models ------------------------------------------------------------------------------ */

static void test_formats(void)
{
	static const struct {
		const char *path;
		bool is_bf16; /* stays as it is but for AVX-512 */
	} models[] = {{TINY, false}, {MODELS "qwen3-awq", false},
		      {MODELS "qwen3-gptq", false}, {MODELS "qwen3-nvfp4", false},
		      {MODELS "qwen3moe-ct-asym", false}, {MODELS "qwen3-bf16", true},
		      {MODELS "gptoss", true}, {MODELS "deepseekv3-yarn", true}};
	static const char *const sets[] = {"avx512_bf16", "avx512", "avx2", "portable"};
	char *cache = image_dir();
	int n_files = 0;
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		struct backend_opts bo = {.name = "cpu", .n_threads = 1, .cpu_isa = sets[i]};
		struct backend *b;
		if (backend_create(&bo, &b, NULL) != OK)
			continue; /* not this processor's */
		backend_destroy(b);
		for (size_t j = 0; j < ARRAY_LEN(models); j++) {
			char what[120];
			snprintf(what, sizeof what, "%s, %s", models[j].path, sets[i]);
			struct outcome plain = run((struct how){.model = models[j].path,
								.isa = sets[i]});
			is_str(plain.note, "", "%s: no note without a folder", what);
			struct how how = {.model = models[j].path, .isa = sets[i],
					  .cache = cache};
			bool has_file = strncmp(sets[i], "avx512", 6) == 0 ||
					!models[j].is_bf16;
			n_files += has_file;
			check(&plain, how, has_file ? "packed; " : "", what);
			is_int(count(cache, CPU_CACHE_SUFFIX, NULL), n_files,
			       "%s: a file more where there is something to keep", what);
			check(&plain, how, has_file ? " mapped from " : "", what);
			free(plain.logits);
		}
	}
	is_int(count(cache, CPU_CACHE_SUFFIX ".", NULL), 0, "nothing else is left");
	image_remove(cache);
}

/* Floats that are read as they lie, which small models have none of. */
static void test_floats(void)
{
	enum { N = 512, K = 1024 };
	char *dir = image_dir(), *cache = image_dir(), *path = file_join(dir, "floats");
	struct buf b = {0};
	for (int i = 0; i < N * K; i++) {
		float v = (float)(i % 1009);
		buf_add(&b, &v, sizeof v);
	}
	image_write(dir, "floats", buf_str(&b));
	for (int i = 0; i < 3; i++) { /* the last time, what is between has changed */
		struct file_view view;
		struct model *m;
		struct backend *be;
		struct fail fail = {0};
		struct backend_opts bo = {.name = "cpu", .n_threads = 2, .cache_waits = true,
					  .weight_cache = cache, .checks = {.small_pages = true}};
		if (i == 2)
			b.p[0] ^= 1;
		image_write(dir, "floats", buf_str(&b));
		if (file_view_open(path, true, NULL, &view, &fail) != OK ||
		    model_open(tap_src(TINY), NULL, &m, &fail) != OK ||
		    backend_create(&bo, &be, &fail) != OK)
			exit(tap_done());
		struct weight out, w = {.name = "floats", .quant = QUANT_F32, .n = N, .k = K,
					.q = view.p, .is_mapped = true};
		be->ops->load_begin(be, m);
		is_int(be->ops->load_weight(be, &w, &out, &fail), OK, "floats: loaded");
		if (be->ops->load_end(be, NULL) != OK)
			abort();
		ok(out.q != w.q && memcmp(out.q, b.p, b.n) == 0, "floats: a copy of them");
		ok(strstr(be->weights_note, i == 1 ? "mapped from" : "packed"), "floats: %s",
		   be->weights_note);
		backend_destroy(be);
		model_close(m);
		file_view_close(&view);
	}
	buf_deinit(&b);
	free(path);
	image_remove(dir);
	image_remove(cache);
}

/* --- damage ------------------------------------------------------------------------------- */

struct image {
	uint8_t *p; /* the file, writable */
	size_t n;
	struct cache_head *head;
	struct cache_entry *entries;
};

static struct image image_map(const char *path)
{
	struct image f = {0};
	struct stat st;
	int fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &st) != 0)
		abort();
	f.n = (size_t)st.st_size;
	f.p = mmap(NULL, f.n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (f.p == MAP_FAILED)
		abort();
	f.head = (void *)f.p;
	f.entries = (void *)(f.p + cache_entries_at(f.head->key_bytes));
	return f;
}

/* As if it had been written so. */
static void image_seal(struct image *f)
{
	for (size_t i = 0; i < f->head->n_entries; i++)
		f->entries[i].sum = cpu_cache_sum(NULL, f->p + f->entries[i].at,
						  f->entries[i].n_bytes);
	f->head->sum = cpu_cache_sum(NULL, f->p + sizeof *f->head,
				     cache_index_bytes(f->head->key_bytes,
						       f->head->n_entries));
}

enum damage {
	EMPTY, HALF, LONGER, MAGIC, KEY, ENTRY, FIRST_BYTE, LAST_BYTE,
	OTHER_PACKING, OTHER_LAST, OTHER_NAME, OTHER_VERSION, FOLDER, N_DAMAGES
};
static const char *const damage_names[] = {
	"an empty file", "half of it", "a byte more", "another magic", "a letter of the key",
	"an entry", "the first byte of the weights", "their last byte",
	"a first panel packed otherwise", "a last panel packed otherwise",
	"a weight of another name", "another version", "a folder in its place"};

/* What the log says of it. */
static const char *const damage_words[] = {
	"was empty", "was damaged", "was damaged", "was damaged", "was damaged",
	"was damaged", "was damaged", "was damaged", "next start", "next start",
	"was damaged", "was of another model or version", ""};

static void damage_file(const char *path, enum damage d)
{
	struct image f = image_map(path);
	struct cache_entry *last = &f.entries[f.head->n_entries - 1];
	size_t n = f.n;
	switch (d) {
	case EMPTY: n = 0; break;
	case HALF: n /= 2; break;
	case LONGER: n++; break;
	case MAGIC: f.p[0] ^= 1; break;
	case KEY: f.p[sizeof *f.head + 20] ^= 1; break;
	case ENTRY: last->at -= 64; break;
	case FIRST_BYTE: case OTHER_PACKING: f.p[f.entries[0].at] ^= 0x80; break;
	case LAST_BYTE: f.p[last->at + last->n_bytes - 1] ^= 0x80; break;
	case OTHER_LAST: f.p[f.entries[0].at + f.entries[0].n_bytes - 1] ^= 0x80; break;
	case OTHER_NAME: f.entries[1].what ^= 1; break;
	case OTHER_VERSION: f.p[sizeof *f.head + 7] ^= 1; break;
	default: break;
	}
	if (d >= OTHER_PACKING)
		image_seal(&f);
	munmap(f.p, f.n);
	if (d < MAGIC && truncate(path, (off_t)n) != 0)
		abort();
	if (d == FOLDER && (unlink(path) != 0 || mkdir(path, 0700) != 0))
		abort();
}

static void test_damage(void)
{
	char *cache = image_dir();
	struct how how = {.model = TINY, .cache = cache};
	struct outcome plain = run((struct how){.model = TINY});
	check(&plain, how, "packed; ", "new");
	for (enum damage d = 0; d < N_DAMAGES; d++) {
		char *path = only_file(cache);
		damage_file(path, d);
		check(&plain, how, d == FOLDER ? "packed; " : damage_words[d],
		      damage_names[d]);
		if (d == FOLDER)
			rmdir(path);
		else
			check(&plain, how, " mapped from ", damage_names[d]);
		free(path);
	}
	is_int(count(cache, CPU_CACHE_SUFFIX, NULL), 0, "no file took the folder's name");
	free(plain.logits);
	image_remove(cache);
}

/* Every byte of a small file: what is found is right, or nothing is. */
static void test_every_byte(void)
{
	static const char data[3][100] = {"first", "second", "third"};
	char *cache = image_dir();
	struct model *m;
	if (model_open(tap_src(MODELS "qwen3-bf16"), NULL, &m, NULL) != OK)
		exit(tap_done());
	struct cpu_cache_opts o = {.dir = cache, .isa = "none", .model = m,
				   .small_pages = true, .waits = true};
	struct cpu_cache *c = cpu_cache_open(&o);
	for (uint64_t i = 0; i < 3; i++)
		cpu_cache_add(c, (struct cpu_cache_id){2 * i, i, sizeof data[i]}, data[i]);
	cpu_cache_keep(c);
	cpu_cache_close(c);
	c = cpu_cache_open(&o);
	ok(!cpu_cache_find(c, (struct cpu_cache_id){1, 1, sizeof data[1]}) &&
		   cpu_cache_find(c, (struct cpu_cache_id){2, 1, sizeof data[1]}),
	   "what lies one further is not what is asked for");
	cpu_cache_close(c);
	char *path = only_file(cache);
	struct image f = image_map(path);
	size_t index = sizeof *f.head +
		       cache_index_bytes(f.head->key_bytes, f.head->n_entries);
	size_t ends[] = {0, f.entries[0].at}, sizes[] = {index, 3 * 128};
	int n_found = 0, n_missed = 0, n_wrong = 0;
	for (int part = 0; part < 2; part++)
		for (size_t at = ends[part]; at < ends[part] + sizes[part]; at++) {
			f.p[at] ^= 1 << at % 8;
			c = cpu_cache_open(&o);
			for (uint64_t i = 0; i < 3; i++) {
				const char *p = cpu_cache_find(
					c, (struct cpu_cache_id){2 * i, i, sizeof data[i]});
				n_found += p != NULL;
				n_missed += !p;
				n_wrong += p && memcmp(p, data[i], sizeof data[i]) != 0;
			}
			cpu_cache_close(c);
			f.p[at] ^= 1 << at % 8;
		}
	is_int(n_wrong, 0, "no byte changed is a wrong weight");
	/* All of an index that is damaged; of a weight that is, that one, and none where the
	 * byte is between them. */
	is_int(n_missed, 3 * index + 3 * sizeof data[0], "missed: what has a byte changed");
	is_int(n_found, 3 * (index + 3 * 128) - (size_t)n_missed, "found: all else");
	munmap(f.p, f.n);
	free(path);
	model_close(m);
	image_remove(cache);
}

/* --- models that change or go ---------------------------------------------------------------- */

static void set_age(const char *dir, const char *name, time_t age)
{
	char *path = file_join(dir, name);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= age;
	if (utimensat(AT_FDCWD, path, (struct timespec[]){now, now}, 0) != 0)
		abort();
	free(path);
}

static void test_changes(void)
{
	char *cache = image_dir(), *dir = image_dir();
	/* int4: other weights are packed for AVX-512 only */
	copy_model(tap_src(MODELS "qwen3-awq"), dir);
	struct how how = {.model = dir, .cache = cache};
	struct outcome plain = run((struct how){.model = dir});
	check(&plain, how, "packed; ", "a model");
	check(&plain, how, " mapped from ", "a model");
	set_age(dir, "model.safetensors", 1000);
	check(&plain, how, "packed; ", "its file is another one");
	free(only_file(cache));
	check(&plain, how, " mapped from ", "its file is another one");
	char *file = file_join(dir, "model.safetensors");
	unlink(file);
	free(file);
	image_write(cache, "foreign" CPU_CACHE_SUFFIX, STR("not one of ours"));
	image_write(cache, "old" CPU_CACHE_SUFFIX ".abcdef", STR("a crash left it"));
	image_write(cache, "new" CPU_CACHE_SUFFIX ".abcdef", STR("is being written"));
	set_age(cache, "old" CPU_CACHE_SUFFIX ".abcdef", 7200);
	free(plain.logits);
	plain = run((struct how){.model = MODELS "qwen3-awq"});
	how.model = MODELS "qwen3-awq";
	check(&plain, how, "packed; ", "another model");
	is_int(count(cache, "qwen3-awq", NULL), 1, "the other model's file is there");
	is_int(count(cache, "foreign", NULL), 1, "a file that is not ours stays");
	is_int(count(cache, "old", NULL), 0, "what a crash left is gone");
	is_int(count(cache, "new", NULL), 1, "what another process writes stays");
	is_int(count(cache, CPU_CACHE_SUFFIX, NULL), 3, "that of the lost model is gone");
	free(plain.logits);
	image_remove(cache);
	image_remove(dir);
}

/* As a backup does it. */
static void read_with_small_pages(const char *path)
{
	char some[1 << 16];
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
		abort();
	while (read(fd, some, sizeof some) > 0)
		;
	close(fd);
}

/* The file's last 2 MiB. */
static bool is_huge(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	bool is_huge = fd >= 0 && fstat(fd, &st) == 0 &&
		       cache_is_huge(fd, (size_t)st.st_size - CACHE_HUGE);
	close(fd);
	return is_huge;
}

static void test_owner(void)
{
	char *cache = image_dir();
	struct how how = {.model = TINY, .cache = cache};
	struct outcome plain = run((struct how){.model = TINY});
	check(&plain, how, "packed; ", "a file of ours");
	char *path = only_file(cache);
	if (chown(path, 12345, (gid_t)-1) == 0)
		check(&plain, how, "packed; ", "another user's file");
	else
		printf("# only root can give a file away\n");
	check(&plain, how, " mapped from ", "it is ours again");
	free(plain.logits);
	free(path);
	image_remove(cache);
}

static void test_refusals(void)
{
	char *cache = image_dir(), *file = file_join(cache, "file");
	image_write(cache, "file", STR("x"));
	char *below = file_join(file, "cache");
	struct how how = {.model = TINY, .cache = below};
	struct outcome plain = run((struct how){.model = how.model});
	check(&plain, how, "Not a directory", "a folder that cannot be made");
	how.cache = file;
	check(&plain, how, "Not a directory", "a file for a folder");
	/* With huge pages there is a file afterwards, without there is none. */
	how = (struct how){.model = how.model, .cache = cache, .huge_only = true};
	check(&plain, how, "packed; ", "huge pages only");
	bool has_file = count(cache, CPU_CACHE_SUFFIX, NULL);
	printf("# files %s huge pages here\n", has_file ? "have" : "do not have");
	check(&plain, how, has_file ? " mapped from " : "small ones",
	      "huge pages only, again");
	if (has_file) {
		char *path = only_file(cache);
		read_with_small_pages(path);
		printf("# reading it makes %s pages\n", is_huge(path) ? "huge" : "small");
		check(&plain, how, " mapped from ", "after somebody has read the file");
		free(path);
	}
	free(plain.logits);
	how = (struct how){.model = MODELS "qwen3-awq", .cache = cache, .gives_up = true};
	plain = run((struct how){.model = how.model});
	check(&plain, how, "packed; ", "stopped at once");
	is_int(count(cache, CPU_CACHE_SUFFIX ".", NULL), 0, "nothing half written is left");
	free(plain.logits);
	free(below);
	free(file);
	image_remove(cache);
}

static void test_sum(void)
{
	enum { N = 300001 };
	uint8_t *p = xcalloc(N, 1);
	struct pool *pool = pool_create(3);
	uint64_t sum = cpu_cache_sum(NULL, p, N);
	int n_same = 0;
	ok(cpu_cache_sum(pool, p, N) == sum, "the sum is the same by three threads");
	for (size_t i = 0; i < N; i += 997) {
		p[i] = 1;
		n_same += cpu_cache_sum(pool, p, N) == sum;
		p[i] = 0;
	}
	n_same += cpu_cache_sum(NULL, p, N - 1) == sum;
	is_int(n_same, 0, "and another one of other bytes, or fewer");
	pool_destroy(pool);
	free(p);
}

int main(void)
{
	test_sum();
	test_formats();
	test_floats();
	test_damage();
	test_every_byte();
	test_changes();
	test_owner();
	test_refusals();
	return tap_done();
}
