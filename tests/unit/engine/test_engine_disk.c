/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine that ends right behind a long prompt keeps all of it on disk, although that is
 * more than waits for the writer at a time. The graph is a fake whose pages are large. It
 * copies from pinned memory as late as it may, so a buffer that is given back too early shows.
 */
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/engine_disk.h"
#include "engine/engine_fetch.h"
#include "engine/engine_moves.h"
#include "kv/kvdisk.h"
#include "tests/tap.h"

enum {
	V = 16,
	P = 4,
	PAGE_BYTES = 8 << 20,
	RUN_BYTES = 32 << 20, /* of a file */
	PAGES = KVDISK_QUEUE_BYTES / PAGE_BYTES * 7 / 4
};

static atomic_bool disk_stands;

/* A slow disk: it takes the place of libc's, with which the writer ends each file. */
int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	do
		usleep(100000);
	while (atomic_load(&disk_stands));
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

struct fake {
	int page_of[PAGES + 8]; /* the number of a page among those of its prompt */
	int n_wrong, n_moves, n_unpinned;
	bool has_pinned;
	int n_given, n_back;
	struct engine_move waits[2]; /* loads that have begun */
	int n_waiting;
};

static enum status fake_forward(void *ctx, const struct engine_batch *b, float *logits,
				struct fail *fail)
{
	struct fake *f = ctx;
	(void)fail;
	for (int t = 0; t < b->n_tok; t++)
		f->page_of[b->slot[t] / P] = b->position[t] / P;
	memset(logits, 0, (size_t)b->n_logit_rows * V * sizeof *logits);
	return OK;
}

/* A page's bytes are its number. */
static void move_now(struct fake *f, const struct engine_move *m)
{
	for (int i = 0; i < m->n; i++) {
		char *page = (char *)m->host + (size_t)i * PAGE_BYTES;
		if (!m->is_load)
			memset(page, f->page_of[m->at[i]] + 1, PAGE_BYTES);
		else
			f->n_wrong += page[0] != page[PAGE_BYTES - 1] || page[0] < 1;
		if (m->is_load)
			f->page_of[m->at[i]] = page[0] - 1;
	}
}

static enum status fake_move_wait(void *ctx)
{
	struct fake *f = ctx;
	for (int i = 0; i < f->n_waiting; i++)
		move_now(f, &f->waits[i]);
	f->n_waiting = 0;
	return OK;
}

/* at stays as it is: the fetch holds it. */
static enum status fake_move(void *ctx, const struct engine_move *m)
{
	struct fake *f = ctx;
	f->n_moves++;
	f->n_unpinned += !m->is_pinned;
	if (m->is_load && m->is_pinned && f->n_waiting < (int)ARRAY_LEN(f->waits))
		f->waits[f->n_waiting++] = *m;
	else
		move_now(f, m);
	return OK;
}

static void *fake_alloc(void *ctx, size_t n)
{
	struct fake *f = ctx;
	return f->has_pinned && ++f->n_given ? malloc(n) : NULL;
}

static void fake_free(void *ctx, void *p)
{
	((struct fake *)ctx)->n_back++;
	free(p);
}

static struct engine *make(struct fake *f, const char *dir, bool has_pinned)
{
	struct engine_graph g = {.ctx = f, .n_vocab = V, .max_ctx = (PAGES + 4) * P,
				 .forward = fake_forward, .move = fake_move,
				 .move_wait = fake_move_wait, .alloc_pinned = fake_alloc,
				 .free_pinned = fake_free, .page_bytes = PAGE_BYTES};
	struct engine_opts o = {.page_size = P, .max_seqs = 1, .max_batch_tok = PAGES * P,
				.prefix_cache = true};
	struct engine *e;
	struct fail fail = {0};
	memset(f, 0, sizeof *f);
	f->has_pinned = has_pinned;
	if (engine_create_with(&g, &o, PAGES + 8, &e) != OK ||
	    engine_disk_open(e, dir, INT64_C(1) << 32, STR("test"), &fail) != OK) {
		ok(false, "an engine with a folder: %s", fail.text);
		exit(tap_done());
	}
	return e;
}

static void note_room(void *ctx)
{
	atomic_fetch_add((_Atomic int *)ctx, 1);
}

/* The queue is full, so the engine may sleep; it is woken when there is room. */
static void wait_for_room(struct engine *e)
{
	_Atomic int n_told = 0;
	engine_set_on_disk(e, note_room, &n_told);
	atomic_store(&disk_stands, true);
	while (engine_disk_work(e, RUN_BYTES))
		;
	atomic_store(&disk_stands, false);
	for (int i = 0; i < 10000 && atomic_load(&n_told) == 0; i++)
		usleep(1000);
	is_int(atomic_load(&n_told), 1, "it is told once that there is room again");
	engine_set_on_disk(e, NULL, NULL);
}

/* After a restart: with pinned memory, or where the device gives none. */
static void read_again(const char *dir, const int32_t *ids, bool has_pinned)
{
	struct fake f;
	int cached, n_fetched, n_wrong = 0;
	bool has_asked;
	struct engine *e = make(&f, dir, has_pinned);
	_Atomic int n_told = 0;
	engine_set_on_disk(e, note_room, &n_told);
	const struct engine_prompt p = {.tokens = ids, .n = PAGES * P + 1};
	struct engine_fetch *fetch = engine_fetch_begin(e, &p, &has_asked);
	ok(fetch != NULL, "after a restart the disk has some of it");
	for (int i = 0; i < 10000 && atomic_load(&n_told) < 2; i++)
		usleep(1000);
	is_int(engine_fetch_step(e, fetch), ENGINE_FETCH_MOVED, "two reads are over");
	is_int(f.n_moves, 2, "one step takes both");
	while (fetch && engine_fetch_step(e, fetch) != ENGINE_FETCH_OVER)
		usleep(1000);
	n_fetched = engine_fetch_end(e, fetch);
	engine_set_on_disk(e, NULL, NULL);
	is_int(n_fetched, PAGES * P, "the disk has all of it");
	struct engine_seq *s = engine_seq_create(e, ids, PAGES * P + 1, &cached);
	is_int(cached, PAGES * P, "and it is found");
	engine_seq_destroy(e, s);
	for (int i = 0, next = 0; i < PAGES + 8; i++)
		n_wrong += f.page_of[i] != 0 && f.page_of[i] != ++next && next < PAGES;
	is_int(f.n_wrong + n_wrong, 0, "each page has its bytes");
	is_int(f.n_unpinned, has_pinned ? 0 : f.n_moves, "from buffers that are used again");
	engine_destroy(e);
	is_int(f.n_given - f.n_back, 0, "all pinned memory is given back");
}

static void ended_at_once(const char *dir)
{
	static int32_t ids[PAGES * P + 1];
	struct fake f;
	struct engine *e = make(&f, dir, true);
	int cached;
	for (int i = 0; i < PAGES * P + 1; i++)
		ids[i] = i * 7 % V;
	struct engine_seq *s = engine_seq_create(e, ids, PAGES * P, &cached);
	struct engine_slice slice = {.seq = s, .tokens = ids, .n = PAGES * P, .n_logits = 1};
	is_int(engine_seq_reserve(e, s, PAGES * P), OK, "room");
	is_int(engine_step(e, &slice, 1, NULL), OK, "a prompt of %d pages", PAGES);
	engine_seq_destroy(e, s);
	wait_for_room(e);
	engine_destroy(e);
	is_int(f.n_given - f.n_back, 0, "all pinned memory is given back");
	is_int(f.n_moves, PAGES / (RUN_BYTES / PAGE_BYTES),
	       "pages leave the device a run at a time");
	read_again(dir, ids, true);
	read_again(dir, ids, false);
}

int main(void)
{
	char dir[] = "/tmp/halod-test-XXXXXX", command[80];
	if (!mkdtemp(dir))
		return 1;
	ended_at_once(dir);
	snprintf(command, sizeof command, "rm -r %s", dir);
	is_int(system(command), 0, "the folder is removed");
	return tap_done();
}
