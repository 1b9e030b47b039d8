/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of experts and what reads it: what was stored comes back, and whatever happens
 * to the file or the disk is an error and never wrong bytes.
 */
#include "experts/expert_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "experts/expert_ahead.h"
#include "experts/expert_depth.h"
#include "experts/expert_memory.h"
#include "tests/tap.h"

enum { N = 9, EMPTY = 4, LARGE = 6, LARGE_PAGES = 170 };

/* LARGE has pieces of 2, 1, 1, 1 and a part of a unit. */

static char dir[] = "/tmp/test-experts-XXXXXX";
static char *path;
static uint64_t sizes[N];
static int n_made;

static uint8_t byte_of(int32_t i, size_t at)
{
	return (uint8_t)((size_t)i * 31 + at * 7 + at / 4096);
}

static enum status fill(void *ctx, int32_t i, uint8_t *out, struct fail *fail)
{
	n_made++;
	if (ctx && i == *(int32_t *)ctx)
		return fail_set(fail, E_FORMAT, "this one not");
	for (size_t k = 0; k < sizes[i]; k++)
		out[k] = byte_of(i, k);
	return OK;
}

static enum status make(const char *key, int32_t *bad, struct fail *fail)
{
	return expert_store_make(&(struct expert_store_plan){
		.path = path, .key = str_of(key), .n = N, .n_bytes = sizes, .fill = fill,
		.ctx = bad}, fail);
}

static bool is_right(const uint8_t *p, int32_t i)
{
	for (size_t k = 0; k < sizes[i]; k++)
		if (p[k] != byte_of(i, k))
			return false;
	return true;
}

static void change(off_t at, char byte)
{
	int fd = open(path, O_RDWR);
	if (fd < 0 || pwrite(fd, &byte, 1, at) != 1)
		abort();
	close(fd);
}

static void test_file(void)
{
	struct expert_store s;
	struct fail fail = {0};
	struct stat st;
	int32_t bad = 7;
	is_int(expert_store_open(path, str_of("a"), N, &s, &fail), E_MISSING, "none yet");
	is_int(make("a", &bad, &fail), E_FORMAT, "what making an expert returns");
	ok(!file_exists(path) && access(dir, F_OK) == 0, "leaves nothing");
	is_int(make("a", NULL, &fail), OK, "it is made");
	is_int(expert_store_open(path, str_of("a"), N, &s, &fail), OK, "and opened");
	is_int(s.entries[EMPTY].n_bytes, 0, "an expert that is none has no bytes");
	ok(s.entries[1].at % EXPERT_ALIGN == 0, "the others begin on a page");
	expert_store_close(&s);
	is_int(expert_store_open(path, str_of("b"), N, &s, &fail), E_FORMAT, "another key");
	ok(strstr(fail.text, "another model") != NULL, "says so: %s", fail.text);
	is_int(expert_store_open(path, str_of("a"), N - 1, &s, &fail), E_FORMAT,
	       "another number");
	stat(path, &st);
	if (truncate(path, st.st_size - 1) != 0)
		abort();
	is_int(expert_store_open(path, str_of("a"), N, &s, &fail), E_FORMAT, "cut short");
	ok(strstr(fail.text, "cut short") != NULL, "says so: %s", fail.text);
	for (int at = 0; at < 260; at += 37) {
		if (make("a", NULL, NULL) != OK)
			abort();
		change(at, 0x55);
		is_int(expert_store_open(path, str_of("a"), N, &s, &fail), E_FORMAT,
		       "a byte of the head has changed, at %d", at);
	}
	if (make("a", NULL, NULL) != OK)
		abort();
}

/* --- faults of a disk ---------------------------------------------------------------- */

enum fault { NO_FAULT, IN_PIECES, ENDS, ENDS_MIDWAY, BREAKS, LIES };
static const char *const fault_names[] = {"no fault", "pieces and signals", "the end",
					  "the end within a page", "an error", "other bytes"};
static _Atomic enum fault fault;
static _Atomic int n_calls;

static ssize_t bad_pread(void *ctx, int fd, void *to, size_t n, off_t at)
{
	(void)ctx;
	int i = atomic_fetch_add(&n_calls, 1);
	switch (atomic_load(&fault)) {
	case IN_PIECES:
		if (i % 2) {
			errno = EINTR;
			return -1;
		}
		return pread(fd, to, EXPERT_ALIGN, at);
	case ENDS: return 0;
	case ENDS_MIDWAY: return 100;
	case BREAKS: errno = EIO; return -1;
	case LIES: memset(to, 0x5A, n); return (ssize_t)n;
	default: return pread(fd, to, n, at);
	}
}

/* ThreadSanitizer does not see what io_uring orders: there only threads read. */
static bool races_only(void) { return tap_check("races") != NULL; }

static struct expert_memory *memory(int32_t n_slots, bool no_uring, bool is_bad,
				    const char *use)
{
	struct expert_store s;
	struct fail fail = {0};
	struct expert_memory *m = NULL;
	struct expert_memory_opts o = {.n_slots = n_slots, .slot_bytes = LARGE_PAGES * EXPERT_ALIGN,
				       .use_path = use,
				       .reader = {.no_uring = no_uring || races_only(),
						  .depth = 3,
						  .piece = 2 * EXPERT_READ_PIECE,
						  .pread = is_bad ? bad_pread : NULL}};
	if (expert_store_open(path, str_of("a"), N, &s, &fail) != OK ||
	    expert_memory_create(&s, &o, &m, &fail) != OK) {
		ok(false, "memory: %s", fail.text);
		exit(tap_done());
	}
	printf("# %s\n", expert_memory_note(m));
	return m;
}

static void test_faults(void)
{
	struct expert_memory *m = memory(4, true, true, NULL);
	static const int32_t two[] = {1, 3};
	for (enum fault f = IN_PIECES; f <= LIES; f++) {
		struct fail fail = {0};
		atomic_store(&fault, f);
		is_int(expert_memory_ask(m, two, 2, 2), 2, "%s: two are held", fault_names[f]);
		enum status st = expert_memory_wait(m, 1, &fail);
		is_int(st, f == IN_PIECES ? OK : E_IO, "%s: %s", fault_names[f], fail.text);
		expert_memory_release(m, two, 2);
		atomic_store(&fault, NO_FAULT);
		is_int(expert_memory_ask(m, two, 2, 2), 2, "%s: asked again", fault_names[f]);
		is_int(expert_memory_wait(m, 1, NULL), OK, "%s: it is read again",
		       fault_names[f]);
		ok(expert_memory_wait(m, 3, NULL) == OK && is_right(expert_memory_at(m, 1), 1) &&
		   is_right(expert_memory_at(m, 3), 3), "%s: the right bytes", fault_names[f]);
		expert_memory_release(m, two, 2);
		/* drive them out, so that the next fault meets them */
		static const int32_t others[] = {0, 2, 5, 6};
		expert_memory_ask(m, others, 4, 4);
		expert_memory_release(m, others, 4);
	}
	expert_memory_destroy(m);
}

/* --- slots ------------------------------------------------------------------------- */

static void test_waves(bool no_uring)
{
	const char *how = no_uring ? "threads" : "io_uring where there is one";
	struct expert_memory *m = memory(3, no_uring, false, NULL);
	static const int32_t all[] = {0, 1, 2, 3, 5, 6, 7, 8};
	struct expert_memory_stats s;
	int n = (int)ARRAY_LEN(all), n_right = 0;
	for (int round = 0; round < 20; round++) {
		expert_memory_use(m, all, n, true);
		for (int at = 0; at < n;) {
			int held = expert_memory_ask(m, all + at, n - at, n);
			is_int(held, MIN(3, n - at), "%s: as many as there are slots", how);
			for (int i = at; i < at + held; i++)
				n_right += expert_memory_wait(m, all[i], NULL) == OK &&
					   is_right(expert_memory_at(m, all[i]), all[i]);
			expert_memory_release(m, all + at, held);
			at += held;
		}
	}
	is_int(n_right, 20 * n, "%s: every expert is what was stored", how);
	expert_memory_stats(m, &s);
	ok(s.n_hits + s.n_misses == 20u * (unsigned)n && s.n_hits > 0 && s.n_bytes > 0,
	   "%s: counted: %d hits of %d", how, (int)s.n_hits, 20 * n);
	expert_memory_destroy(m);
}

/* The file becomes shorter, or is replaced, under an open store. */
static void test_under(bool no_uring)
{
	const char *how = no_uring ? "threads" : "io_uring where there is one";
	struct expert_memory *m = memory(2, no_uring, false, NULL);
	struct fail fail = {0};
	static const int32_t first[] = {0}, last[] = {8};
	struct stat st;
	stat(path, &st);
	change(st.st_size - 5000, 0x77);
	is_int(expert_memory_ask(m, last, 1, 1), 1, "%s: held", how);
	is_int(expert_memory_wait(m, 8, &fail), E_IO, "%s: a byte changed: %s", how, fail.text);
	expert_memory_release(m, last, 1);
	if (truncate(path, st.st_size - 5000) != 0)
		abort();
	expert_memory_ask(m, last, 1, 1);
	is_int(expert_memory_wait(m, 8, &fail), E_IO, "%s: cut short: %s", how, fail.text);
	ok(strstr(fail.text, "shorter") != NULL, "%s: says so", how);
	expert_memory_release(m, last, 1);
	expert_memory_ask(m, first, 1, 1);
	is_int(expert_memory_wait(m, 0, NULL), OK, "%s: what is left can be read", how);
	expert_memory_release(m, first, 1);
	if (make("a", NULL, NULL) != OK) /* a new file under the same name */
		abort();
	expert_memory_ask(m, last, 1, 1);
	is_int(expert_memory_wait(m, 8, &fail), E_IO, "%s: the old file stays open", how);
	expert_memory_release(m, last, 1);
	expert_memory_destroy(m);
}

/* The kernel refuses to read: here since the file is open for writing only. */
static void test_refused(bool no_uring)
{
	uint8_t *p = aligned_alloc(EXPERT_ALIGN, EXPERT_ALIGN);
	struct expert_read x = {.to = p, .n = EXPERT_ALIGN}, *list[] = {&x};
	struct expert_reader_opts o = {.fd = open(path, O_WRONLY), .slots = p,
				       .slots_bytes = EXPERT_ALIGN, .slot_bytes = EXPERT_ALIGN,
				       .no_uring = no_uring || races_only()};
	if (!p || o.fd < 0)
		abort();
	struct expert_reader *r = expert_reader_create(&o);
	for (int i = 0; i < 3; i++) {
		expert_reader_submit(r, list, 1);
		expert_reader_wait(r, &x);
		is_int(atomic_load(&x.state), EXPERT_READ_ERROR, "%s: refused",
		       expert_reader_note(r));
		is_int(atomic_load(&x.error), EBADF, "the kernel's reason: %s",
		       expert_read_fault(&x));
	}
	expert_reader_destroy(r);
	close(o.fd);
	free(p);
}

/* Two layers of four in turn, always the same ones: each predicts the other rightly. */
static void test_ahead(bool no_uring)
{
	const char *how = no_uring ? "threads" : "io_uring where there is one";
	static const int32_t layer[2][4] = {{0, 1, 2, 3}, {5, 6, 7, 8}};
	struct expert_memory *m = memory(7, no_uring, no_uring, NULL);
	struct expert_memory_stats s;
	int n_right = 0, n_rounds = 3 * EXPERT_AHEAD_TRIAL;
	for (int round = 0; round < n_rounds; round++)
		for (int l = 0; l < 2; l++) {
			expert_memory_use(m, layer[l], 4, l == 0);
			for (int at = 0, held; at < 4; at += held) {
				held = expert_memory_ask(m, layer[l] + at, 4 - at, 4);
				if (at == 0 && expert_memory_wants(m))
					expert_memory_prefetch(m, layer[!l], 4);
				for (int i = at; i < at + held; i++)
					n_right += expert_memory_wait(m, layer[l][i], NULL) ==
							   OK &&
						   is_right(expert_memory_at(m, layer[l][i]),
							    layer[l][i]);
				expert_memory_release(m, layer[l] + at, held);
			}
		}
	is_int(n_right, n_rounds * 8, "%s: with reads ahead every expert is right", how);
	expert_memory_stats(m, &s);
	ok(s.n_ahead > 0, "%s: %d were read ahead", how, (int)s.n_ahead);
	ok(s.n_ahead_used == s.n_ahead || s.n_ahead_used + 1 == s.n_ahead,
	   "%s: and used, but for the last: %d", how, (int)s.n_ahead_used);
	if (no_uring) { /* a fault of what is read ahead is one of who asks for it, only */
		static const int32_t first[] = {0, 1};
		atomic_store(&fault, BREAKS);
		expert_memory_use(m, layer[1], 4, false);
		expert_memory_prefetch(m, layer[0], 4);
		expert_memory_prefetch(m, layer[1], 4);
		atomic_store(&fault, NO_FAULT);
		for (int i = 0; i < 2; i++) {
			is_int(expert_memory_ask(m, first, 2, 2), 2, "%s: asked for", how);
			enum status st = expert_memory_wait(m, 0, NULL);
			ok(i == 0 || st == OK, "%s: there at the second try at the latest", how);
			expert_memory_release(m, first, 2);
		}
	}
	expert_memory_prefetch(m, layer[0], 4); /* its reads may still run */
	expert_memory_destroy(m);
}

static void test_use(void)
{
	char *use = file_join(dir, "use");
	static const int32_t often[] = {6}, seldom[] = {2};
	struct expert_memory *m = memory(2, true, false, use);
	ok(strstr(expert_memory_note(m), "; 0 ahead") != NULL, "at first none is read ahead");
	for (int i = 0; i < 5; i++)
		expert_memory_use(m, i ? often : seldom, 1, true);
	expert_memory_destroy(m);
	m = memory(2, true, false, use);
	ok(strstr(expert_memory_note(m), "; 2 ahead") != NULL, "then those that were used");
	struct expert_memory_stats s;
	expert_memory_use(m, often, 1, true);
	expert_memory_stats(m, &s);
	is_int(s.n_hits, 1, "the first use finds its expert");
	expert_memory_destroy(m);
	if (truncate(use, 30) != 0)
		abort();
	m = memory(2, true, false, use);
	ok(strstr(expert_memory_note(m), "; 0 ahead") != NULL, "a damaged file is not used");
	expert_memory_destroy(m);
	unlink(use);
	free(use);
}

/* The sum notices pieces that changed places. */
static void test_sum(void)
{
	size_t n = (size_t)LARGE_PAGES * EXPERT_ALIGN;
	uint8_t *p = xcalloc(1, n);
	for (size_t i = 0; i < 3; i++)
		p[i * EXPERT_READ_PIECE] = (uint8_t)(i + 1);
	uint64_t sum = expert_reader_sum(p, n);
	p[0] = 2;
	p[EXPERT_READ_PIECE] = 1;
	ok(expert_reader_sum(p, n) != sum, "pieces that changed places change the sum");
	free(p);
}

static bool keep_note(const char *note, unsigned long long key, int depth, int piece)
{
	char *text = xasprintf("store %016llx depth %d piece %d", key, depth, piece);
	bool is_kept = expert_store_keep(note, str_of(text));
	free(text);
	return is_kept;
}

/* What was kept is not believed, so the store is read. */
static void is_measured(const struct expert_store *s, struct expert_reader_opts o,
			const char *note, bool is_kept, const char *what)
{
	atomic_store(&n_calls, 0);
	expert_depth_find(s, &o, note);
	ok(is_kept && (!s->is_direct || atomic_load(&n_calls) > 0), "%s: %d reads", what,
	   atomic_load(&n_calls));
}

static void test_depth(void)
{
	static const int depths[] = {1, 2, 4, 8};
	is_int(expert_depth_choose(depths, (const double[]){1, 2, 3, 3.05}, 4), 4,
	       "a deeper queue for a sixtieth is not worth it");
	is_int(expert_depth_choose(depths, (const double[]){1, 2, 3, 3.5}, 4), 8,
	       "for a sixth it is");
	is_int(expert_depth_choose(depths, (const double[]){5, 2, 3, 4}, 4), 1,
	       "one is enough for a disk that does one thing after another");
	char *note = file_join(dir, "m" EXPERT_DEPTH_SUFFIX);
	struct expert_store s;
	size_t slot = (size_t)LARGE_PAGES * EXPERT_ALIGN;
	uint8_t *slots = aligned_alloc(EXPERT_ALIGN, 4 * slot);
	if (!slots || expert_store_open(path, str_of("a"), N, &s, NULL) != OK)
		abort();
	struct expert_reader_opts o = {.fd = s.fd, .is_direct = s.is_direct, .slots = slots,
				       .slots_bytes = 4 * slot, .slot_bytes = slot,
				       .no_uring = races_only()};
	expert_depth_find(&s, &o, note);
	ok(!s.is_direct || (o.depth >= 1 && o.depth <= EXPERT_READ_MAX_DEPTH),
	   "a depth is found: %d", o.depth);
	ok(!s.is_direct || (o.piece > 0 && o.piece % EXPERT_READ_PIECE == 0),
	   "and a size of pieces: %zu", o.piece);
	is_int(file_exists(note), s.is_direct, "and kept where it was measured");
	unsigned long long key = expert_store_key(&s);
	bool is_other = keep_note(note, key, 5, 2 * EXPERT_READ_PIECE);
	expert_depth_find(&s, &o, note);
	ok(is_other && (!s.is_direct || (o.depth == 5 && o.piece == 2 * EXPERT_READ_PIECE)),
	   "what was kept is believed: %d of %zu", o.depth, o.piece);
	o.pread = bad_pread;
	o.no_uring = true;
	is_measured(&s, o, note, keep_note(note, key ^ 1, 5, EXPERT_READ_PIECE),
		    "another store's is not");
	is_measured(&s, o, note, keep_note(note, key, 5, EXPERT_READ_PIECE + 4096),
		    "pieces that no sum fits are not");
	is_measured(&s, o, note, keep_note(note, key, 5, 2 * EXPERT_READ_MAX_PIECE),
		    "too large ones are not");
	atomic_store(&fault, BREAKS);
	expert_depth_find(&s, &o, NULL);
	ok(o.depth == 0 && o.piece == 0, "a broken disk has no depth");
	atomic_store(&fault, NO_FAULT);
	expert_store_close(&s);
	unlink(note);
	free(slots);
	free(note);
}

int main(void)
{
	if (!mkdtemp(dir))
		abort();
	path = file_join(dir, "m" EXPERT_STORE_SUFFIX);
	for (int i = 0; i < N; i++)
		sizes[i] = i == EMPTY ? 0 : (uint64_t)EXPERT_ALIGN * (uint64_t)(1 + i % 5);
	sizes[LARGE] = (uint64_t)LARGE_PAGES * EXPERT_ALIGN;
	test_file();
	test_faults();
	test_waves(true);
	test_waves(false);
	test_under(true);
	test_under(false);
	test_refused(true);
	test_refused(false);
	test_ahead(true);
	test_ahead(false);
	test_use();
	test_sum();
	test_depth();
	unlink(path);
	is_int(rmdir(dir), 0, "nothing else was left");
	free(path);
	return tap_done();
}
