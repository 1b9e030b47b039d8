/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping. A sequence that ends leaves a job: its tokens and the names of its pages. Between
 * steps a job copies what the disk lacks into a run, a few megabytes at a time, and gives
 * the run to the writer. A page may have been evicted meanwhile: its name then says so, and
 * the job ends there. So nothing is held for the disk's sake, and no token waits for it.
 *
 * Fetching. Pages come into the KV cache as if a sequence had computed and left them: they
 * are published, and the prompt then finds them like any others. Some reads are under way at
 * once, and what they bring is taken in their order.
 */
#include "engine/engine_disk.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engine/engine_fetch.h"
#include "engine/engine_private.h"
#include "engine/rope.h"
#include "kv/filesum.h"
#include "kv/kvdisk.h"
#include "model/tensors.h"

#define RUN_BYTES  ((size_t)32 << 20) /* bytes of one file, about */
#define READ_BYTES ((size_t)16 << 20) /* bytes of one read */
#define READS      2 /* reads at once: one is copied while the next is under way */
#define EXIT_US    10000000
#define JOBS_MAX   256

struct disk_job {
	struct disk_job *next;
	char *space;
	size_t space_n;
	int n_pages, at;      /* at: page to look at next */
	int32_t *tokens;      /* (n_pages * P) */
	int32_t *pages;       /* (n_pages) */
	kvcache_prefix *after; /* (n_pages) */
	bool *has_page, *has_state; /* (n_pages) on disk; NULL: not asked yet */
};

struct engine_disk {
	struct kvdisk *d;
	struct disk_job *jobs, **last;
	int n_jobs;
	/* The run of the first job that is being filled; NULL: none. Below: how many pages and
	 * states it will have. */
	struct kvdisk_run *run;
	int run_pages, run_states;
};

int64_t engine_disk_bytes(int n_prompts, size_t state_bytes)
{
	/* A read or a state has a buffer, or memory of its own until it is copied. The buffers of
	 * runs are within the queue's bytes. */
	return KVDISK_QUEUE_BYTES +
	       (int64_t)READ_BYTES * (READS * n_prompts + KVDISK_READ_BUFFERS) +
	       (int64_t)state_bytes * (n_prompts + 1);
}

/* Pages of about so many bytes, as far as there are so many. */
static int pages_in(const struct engine *e, size_t bytes)
{
	size_t n = MAX(bytes / e->graph.page_bytes, (size_t)1);
	return (int)MIN(n, (size_t)kvcache_total(e->kv));
}

/* --- the key ----------------------------------------------------------------- */

/* The sum of each file of weights, whatever it is called and wherever it lies. */
static enum status add_files(const struct model *m, int folder, struct buf *out,
			     struct fail *fail)
{
	struct buf files = {0};
	enum status st = OK;
	tensors_list_files(m->tensors, &files);
	buf_add_z(&files, "");
	char *rest = files.p, *line;
	while (st == OK && rest && (line = strsep(&rest, "\n"))) {
		long long bytes, time_ns;
		int path = 0;
		uint64_t sum;
		if (sscanf(line, "file %lld %lld %n", &bytes, &time_ns, &path) != 2 || !path)
			continue;
		const struct filesum_file f = {line + path, bytes, time_ns};
		st = filesum_get(folder, &f, &sum, fail);
		buf_addf(out, "file %lld %016llx\n", bytes, (unsigned long long)sum);
	}
	buf_deinit(&files);
	return st;
}

static void add_config(const struct model *m, struct buf *out)
{
	struct buf config = {0};
	char *path = file_join(m->dir, "config.json");
	if (file_exists(path) && file_read(path, 16 << 20, &config, NULL) == OK)
		buf_addf(out, "config %016llx\n",
			 (unsigned long long)hash_bytes(0, config.p, config.n));
	buf_deinit(&config);
	free(path);
}

enum status engine_disk_key(const struct model *m, const struct backend *b,
			    const struct engine_opts *o, struct buf *out, struct fail *fail)
{
	int folder;
	enum status st = kvdisk_open_folder(o->kv_dir, &folder, fail);
	if (st != OK)
		return st;
	st = add_files(m, folder, out, fail);
	close(folder);
	add_config(m, out);
	struct file_view self;
	uint64_t program = 0;
	/* All arithmetic of the host is in the program: another build is another version. */
	if (file_view_open("/proc/self/exe", true, NULL, &self, NULL) == OK) {
		program = hash_bytes(0, self.p, self.n);
		file_view_close(&self);
	}
	buf_addf(out, "program %016llx libc %s\n", (unsigned long long)program,
		 gnu_get_libc_version());
	buf_addf(out, "backend %s device %s arithmetic %s\n", b->name, b->device,
		 b->arithmetic);
	/* Which factors of longrope rotated the keys. */
	if (rope_is_long(&m->config.ropes[0], o->n_ctx))
		buf_addf(out, "long rope\n");
	buf_addf(out, "act %d kv %d few %d head %d page %d mtp %d\n", (int)b->act_type,
		 (int)(o->int8_kv ? DTYPE_I8 : b->kv_type), (int)b->few_tok, b->int8_head,
		 o->page_size, o->mtp && m->config.mtp);
	return st;
}

/* --- life ----------------------------------------------------------------------- */

/* Remembers a prompt that an earlier run of the daemon was asked. */
static void remember_prompt(void *ctx, const struct kvdisk_prompt *p)
{
	histories_add(((struct engine *)ctx)->histories, p->space, p->tokens, p->n);
}

enum status engine_disk_open(struct engine *e, const char *dir, int64_t limit,
			     struct str key, struct fail *fail)
{
	const struct engine_graph *g = &e->graph;
	if (!g->move || g->page_bytes == 0 || !kvcache_keeps(e->kv))
		return fail_set(fail, E_UNSUPPORTED, "there are no pages to keep");
	struct engine_disk *k = xcalloc(1, sizeof *k);
	k->last = &k->jobs;
	const struct kvdisk_opts o = {
		.dir = dir, .limit = limit, .key = key, .page_size = engine_page_size(e),
		.page_bytes = g->page_bytes, .state_bytes = g->state_bytes,
		.read_bytes = (size_t)pages_in(e, READ_BYTES) * g->page_bytes,
		.run_bytes = (size_t)pages_in(e, RUN_BYTES) * g->page_bytes + g->state_bytes,
		.pinned = {g->alloc_pinned, g->free_pinned, g->ctx},
		.on_prompt = remember_prompt, .prompt_ctx = e};
	enum status st = kvdisk_create(&o, &k->d, fail);
	if (st != OK) {
		free(k);
		return st;
	}
	e->disk = k;
	return OK;
}

static void job_free(struct disk_job *j)
{
	free(j->space);
	free(j->tokens);
	free(j->pages);
	free(j->after);
	free(j->has_page);
	free(j->has_state);
	free(j);
}

static void drop_job(struct engine_disk *k)
{
	struct disk_job *j = k->jobs;
	k->jobs = j->next;
	if (!k->jobs)
		k->last = &k->jobs;
	k->n_jobs--;
	job_free(j);
}

void engine_disk_close(struct engine *e)
{
	struct engine_disk *k = e->disk;
	if (!k)
		return;
	int64_t until_us = clock_now_us(&clock_monotonic) + EXIT_US, left = EXIT_US;
	/* The queue is short: a long prompt leaves more than it holds. */
	while (k->jobs && left > 0) {
		if (!engine_disk_work(e, RUN_BYTES) && k->jobs && !kvdisk_await(k->d, left))
			break;
		left = until_us - clock_now_us(&clock_monotonic);
	}
	kvdisk_run_destroy(k->d, k->run);
	while (k->jobs)
		drop_job(k);
	kvdisk_destroy(k->d, MAX(left, 0));
	free(k);
	e->disk = NULL;
}

void engine_set_on_disk(struct engine *e, void (*fn)(void *ctx), void *ctx)
{
	if (e->disk)
		kvdisk_set_on_read(e->disk->d, fn, ctx);
}

/* --- keeping ---------------------------------------------------------------------- */

void engine_disk_keep(struct engine *e, const struct engine_seq *s)
{
	struct engine_disk *k = e->disk;
	int size = engine_page_size(e), n = s->length / size;
	if (!k || n == 0 || s->is_lost || k->n_jobs >= JOBS_MAX)
		return;
	struct disk_job *j = xcalloc(1, sizeof *j);
	j->n_pages = n;
	j->space = xstrndup(s->space ? s->space : "", s->space_n);
	j->space_n = s->space_n;
	j->tokens = xmalloc(sizeof *j->tokens * (size_t)n * (size_t)size);
	j->pages = xmalloc(sizeof *j->pages * (size_t)n);
	j->after = xmalloc(sizeof *j->after * (size_t)n);
	for (int i = 0; i < n; i++) {
		j->pages[i] = s->pages[i];
		memcpy(j->tokens + (size_t)i * (size_t)size,
		       kvcache_tokens(e->kv, s->pages[i]), sizeof *j->tokens * (size_t)size);
	}
	/* If a twin of a page was published first, the prefix has the twin's name. Then the twin
	 * stands for the page. */
	kvcache_prefix before = spaces_root(e->spaces, (struct str){j->space, j->space_n});
	for (int i = 0; i < n; i++) {
		int32_t page = kvcache_find(e->kv, before, j->tokens + (size_t)i * (size_t)size,
					    &j->after[i]);
		if (page < 0) {
			j->n_pages = i;
			break;
		}
		j->pages[i] = page;
		before = j->after[i];
	}
	*k->last = j;
	k->last = &j->next;
	k->n_jobs++;
}

static struct kvdisk_prompt prompt_of(const struct engine *e, const struct disk_job *j)
{
	return (struct kvdisk_prompt){{j->space, j->space_n}, j->tokens,
				      j->n_pages * engine_page_size(e)};
}

static bool wants_state(const struct engine *e, const struct disk_job *j, int i)
{
	return e->states && !j->has_state[i] && states_find(e->states, j->after[i]) >= 0;
}

/* Finds the next run of the job: where it begins, its pages and states. False: nothing is left. */
static bool next_run(const struct engine *e, struct disk_job *j, int *out_first, int *out_pages,
		     int *out_states)
{
	int most = pages_in(e, RUN_BYTES);
	while (j->at < j->n_pages && j->has_page[j->at] && !wants_state(e, j, j->at))
		j->at++;
	if (j->at >= j->n_pages)
		return false;
	*out_states = *out_pages = 0;
	if (j->has_page[j->at]) { /* the page is on disk: the run has its state alone */
		*out_first = j->at + 1;
		*out_states = 1;
		return true;
	}
	*out_first = j->at;
	for (int i = j->at; i < j->n_pages && !j->has_page[i] && *out_pages < most; i++) {
		++*out_pages;
		*out_states += wants_state(e, j, i);
		if (*out_states == KVDISK_RUN_STATES)
			break;
	}
	return true;
}

static bool engine_disk_take(struct engine *e, const struct engine_move *m)
{
	return m->n == 0 || e->graph.move(e->graph.ctx, m) == OK;
}

/* Begin the job's next run. False: it has to wait for the writer. Afterwards the job may be
 * over. */
static bool begin_run(struct engine *e, struct engine_disk *k)
{
	struct disk_job *j = k->jobs;
	const struct kvdisk_prompt p = prompt_of(e, j);
	int first, n_pages, n_states;
	if (!j->has_page && j->n_pages > 0) {
		j->has_page = xcalloc((size_t)j->n_pages, sizeof *j->has_page);
		j->has_state = xcalloc((size_t)j->n_pages, sizeof *j->has_state);
		kvdisk_kept(k->d, &p, j->has_page, j->has_state);
	}
	if (!next_run(e, j, &first, &n_pages, &n_states)) {
		drop_job(k);
		return true;
	}
	struct kvdisk_run *r = kvdisk_run_create(k->d, &p, first, n_pages, n_states);
	if (!r)
		return false;
	k->run = r;
	k->run_pages = n_pages;
	k->run_states = n_states;
	r->n_pages = r->n_states = 0;
	return true;
}

/* Copy pages of the run, as far as they are still there, about max_bytes of them, and all at
 * once: each copy is waited for. False: the next one has been evicted. */
static bool copy_pages(struct engine *e, struct engine_disk *k, size_t max_bytes,
		       size_t *io_done)
{
	const struct disk_job *j = k->jobs;
	struct kvdisk_run *r = k->run;
	size_t page = e->graph.page_bytes;
	int at = r->first + r->n_pages, n = 0;
	bool is_there = true;
	while (r->n_pages + n < k->run_pages && *io_done + (size_t)n * page < max_bytes) {
		is_there = kvcache_name(e->kv, j->pages[at + n]) == j->after[at + n];
		if (!is_there)
			break;
		n++;
	}
	const struct engine_move m = {.at = j->pages + at, .n = n,
				      .host = r->pages + (size_t)r->n_pages * page,
				      .is_pinned = r->is_pinned};
	if (!engine_disk_take(e, &m))
		return false;
	r->n_pages += n;
	*io_done += (size_t)n * page;
	return is_there;
}

/* Called when the run has its pages: adds its states, and gives it to the writer. */
static void end_run(struct engine *e, struct engine_disk *k, size_t *io_done)
{
	struct disk_job *j = k->jobs;
	struct kvdisk_run *r = k->run;
	size_t state = e->graph.state_bytes;
	bool is_whole = r->n_pages == k->run_pages;
	r->n_tok = (r->first + r->n_pages) * engine_page_size(e);
	for (int i = k->run_pages ? r->first : r->first - 1; i < r->first + r->n_pages; i++) {
		if (r->n_states == k->run_states || !wants_state(e, j, i))
			continue;
		int32_t slot = states_find(e->states, j->after[i]);
		const struct engine_move m = {.is_state = true, .at = &slot, .n = 1,
					      .host = r->states + (size_t)r->n_states * state,
					      .is_pinned = r->is_pinned};
		if (!engine_disk_take(e, &m))
			break;
		r->state_at[r->n_states++] = (uint32_t)((i + 1) * engine_page_size(e));
		*io_done += state;
	}
	j->at = r->first + k->run_pages;
	k->run = NULL;
	if (r->n_pages + r->n_states > 0) {
		metric_add(METRIC_KV_DISK_MADE, (double)((size_t)r->n_pages * e->graph.page_bytes +
							 (size_t)r->n_states * state));
		kvdisk_write(k->d, r);
	} else {
		kvdisk_run_destroy(k->d, r);
	}
	if (!is_whole) /* the rest was evicted */
		drop_job(k);
}

bool engine_disk_work(struct engine *e, size_t max_bytes)
{
	struct engine_disk *k = e->disk;
	size_t done = 0;
	while (k && k->jobs && done < max_bytes) {
		if (!k->run && !begin_run(e, k))
			return false;
		if (k->run && (!copy_pages(e, k, max_bytes, &done) ||
			       k->run->n_pages == k->run_pages))
			end_run(e, k, &done);
	}
	return k && k->jobs;
}

int32_t engine_disk_foreign(const struct engine *e, const struct engine_prompt *p, int from)
{
	int size = engine_page_size(e);
	if (!e->disk)
		return 0;
	int32_t *own;
	const struct kvdisk_prompt prompt = {p->space, engine_image_words(e, p, &own), p->n};
	int n = kvdisk_find_foreign(e->disk->d, &prompt, from / size);
	free(own);
	return n ? from + n * size : 0;
}

/* --- fetching ------------------------------------------------------------------------- */

struct engine_fetch {
	struct kvdisk_prompt p;
	char *space;
	int32_t *tokens;
	int at, asked, end;   /* pages: in memory; asked for; to be in memory in the end */
	int n_fetched, state_page;
	bool has_all_asked, is_over;
	kvcache_prefix before;
	int32_t *held;        /* (at) pages that it holds … */
	kvcache_prefix *after; /* … and the prefixes that end with them */
	struct kvdisk_path *path;
	struct kvdisk_read *reads[READS]; /* (n_reads), the first is taken first */
	int n_want[READS];    /* pages that each read asks for */
	int n_reads;
	struct kvdisk_read *copied; /* the device copies from its buffer; NULL: none */
};

/* Holds the pages that memory has. Returns how many can be used: with states, up to the last
 * state there. */
static int hold_known(struct engine *e, struct engine_fetch *f)
{
	int size = engine_page_size(e), state = 0;
	while ((f->at + 1) * size < f->p.n) {
		int32_t page = kvcache_find(e->kv, f->before, f->tokens + f->at * size,
					    &f->before);
		if (page < 0)
			break;
		kvcache_hold(e->kv, page);
		f->after[f->at] = f->before;
		f->held[f->at++] = page;
		if (e->states && states_find(e->states, f->before) >= 0)
			state = f->at;
	}
	return e->states ? state : f->at;
}

/* Finds how far the disk's pages go, and which of its states to read. */
static void look_at_disk(struct engine *e, struct engine_fetch *f, int useful)
{
	struct kvdisk_known disk;
	/* The last token always runs, so the page that ends with it is of no use. */
	const struct kvdisk_prompt p = {f->p.space, f->tokens, f->p.n - 1};
	f->path = kvdisk_find(e->disk->d, &p, e->states ? 0 : f->at, &disk);
	f->end = e->states ? disk.state_page : f->at + disk.n_pages;
	f->state_page = e->states ? disk.state_page : 0;
	f->is_over = f->end <= useful;
}

/* Asks the disk for the next pages. The state comes with the last pages, or alone. */
static void read_on(struct engine *e, struct engine_fetch *f)
{
	int most = pages_in(e, READ_BYTES);
	while (f->n_reads < READS && !f->has_all_asked) {
		int n = MAX(0, MIN(most, f->end - f->asked));
		f->has_all_asked = f->asked + n >= f->end;
		int state = f->has_all_asked ? f->state_page : 0;
		if (n == 0 && state == 0)
			break;
		f->n_want[f->n_reads] = n;
		f->reads[f->n_reads++] =
			kvdisk_read_begin(e->disk->d, f->path, f->asked, n, state);
		f->asked += n;
	}
	f->is_over |= f->n_reads == 0;
}

struct engine_fetch *engine_fetch_begin(struct engine *e, const struct engine_prompt *p,
					bool *out_has_asked)
{
	*out_has_asked = true;
	if (!e->disk)
		return NULL;
	struct engine_fetch *f = xcalloc(1, sizeof *f);
	int n_pages = p->n / engine_page_size(e);
	f->space = xstrndup(p->space.n ? p->space.p : "", p->space.n);
	f->tokens = xmalloc(sizeof *f->tokens * ((size_t)p->n + 1));
	int32_t *own;
	memcpy(f->tokens, engine_image_words(e, p, &own), sizeof *f->tokens * (size_t)p->n);
	free(own);
	f->p = (struct kvdisk_prompt){{f->space, p->space.n}, f->tokens, p->n};
	f->held = xmalloc(sizeof *f->held * ((size_t)n_pages + 1));
	f->after = xmalloc(sizeof *f->after * ((size_t)n_pages + 1));
	f->before = spaces_root(e->spaces, p->space);
	int useful = hold_known(e, f);
	f->asked = f->at;
	look_at_disk(e, f, useful);
	if (!f->is_over && kvcache_available(e->kv) < f->end - f->at + e->max_seqs + 1)
		*out_has_asked = false;
	else if (!f->is_over)
		read_on(e, f);
	if (*out_has_asked && !f->is_over)
		return f;
	engine_fetch_end(e, f);
	return NULL;
}

/* The device has what it was copying, so the buffer may be read into again. */
static void end_copy(struct engine *e, struct engine_fetch *f)
{
	if (!f->copied)
		return;
	(void)!e->graph.move_wait(e->graph.ctx); /* a failure fails the next step too */
	kvdisk_read_end(e->disk->d, f->copied);
	f->copied = NULL;
}

/* Pages as if they had just been computed. Returns how many there was room for. */
static int put_pages(struct engine *e, struct engine_fetch *f, const struct kvdisk_got *got)
{
	int size = engine_page_size(e), room = kvcache_available(e->kv) - e->max_seqs;
	int32_t *pages = f->held + f->at;
	int n = MAX(MIN(got->n, room), 0);
	for (int i = 0; i < n; i++)
		pages[i] = engine_new_page(e);
	const struct engine_move m = {.is_load = true, .at = pages, .n = n,
				      .host = (void *)(uintptr_t)got->pages,
				      .is_pinned = got->is_pinned};
	if (n > 0 && e->graph.move(e->graph.ctx, &m) != OK) {
		while (n > 0)
			kvcache_release(e->kv, pages[--n]);
		return 0;
	}
	for (int i = 0; i < n; i++, f->at++) {
		const int32_t *tokens = f->tokens + f->at * size;
		memcpy(kvcache_tokens(e->kv, pages[i]), tokens, sizeof *tokens * (size_t)size);
		f->before = kvcache_publish(e->kv, pages[i], f->before);
		f->after[f->at] = f->before;
	}
	return n;
}

static void put_state(struct engine *e, const struct engine_fetch *f,
		      const struct kvdisk_got *got)
{
	kvcache_prefix prefix = f->after[f->state_page - 1];
	int32_t slot = states_find(e->states, prefix) >= 0 ? -1 : states_alloc(e->states);
	if (slot < 0)
		return; /* the state is in memory, or there is no room for it */
	const struct engine_move m = {.is_load = true, .is_state = true, .at = &slot, .n = 1,
				      .host = (void *)(uintptr_t)got->state,
				      .is_pinned = got->is_state_pinned};
	if (e->graph.move(e->graph.ctx, &m) == OK)
		states_keep(e->states, slot, prefix);
	states_release(e->states, slot);
}

/* What the first read has brought. */
static enum engine_fetch_is take_read(struct engine *e, struct engine_fetch *f)
{
	struct kvdisk_got got;
	int want = f->n_want[0];
	if (f->is_over)
		return ENGINE_FETCH_OVER;
	struct kvdisk_read *read = f->reads[0];
	if (!kvdisk_read_done(e->disk->d, read, &got))
		return ENGINE_FETCH_WAITS;
	end_copy(e, f); /* its buffer is the next read's */
	f->n_reads--;
	for (int i = 0; i < f->n_reads; i++) {
		f->reads[i] = f->reads[i + 1];
		f->n_want[i] = f->n_want[i + 1];
	}
	if (got.n == want) /* and while these are copied, the disk is at others */
		read_on(e, f);
	int put = put_pages(e, f, &got);
	f->n_fetched += put;
	f->is_over |= put < want;
	if (got.state && f->at >= f->state_page)
		put_state(e, f, &got);
	if (got.is_pinned || got.is_state_pinned)
		f->copied = read;
	else /* it is there already */
		kvdisk_read_end(e->disk->d, read);
	return f->is_over ? ENGINE_FETCH_OVER : ENGINE_FETCH_MOVED;
}

/* All that has been read meanwhile: the next step of other streams may be long. */
enum engine_fetch_is engine_fetch_step(struct engine *e, struct engine_fetch *f)
{
	enum engine_fetch_is first = take_read(e, f), is = first;
	for (int i = 1; i < READS && is == ENGINE_FETCH_MOVED; i++)
		is = take_read(e, f);
	return is == ENGINE_FETCH_WAITS ? first : is;
}

void engine_fetch_give_up(struct engine *e, const struct engine_fetch *f)
{
	metric_add(METRIC_KV_DISK_SLOW, 1);
	if (f->n_reads > 0)
		kvdisk_read_is_slow(e->disk->d, f->reads[0]);
}

int engine_fetch_end(struct engine *e, struct engine_fetch *f)
{
	if (!f)
		return 0;
	int n_tok = f->n_fetched * engine_page_size(e);
	end_copy(e, f);
	while (f->n_reads > 0)
		kvdisk_read_end(e->disk->d, f->reads[--f->n_reads]);
	while (f->at > 0)
		kvcache_release(e->kv, f->held[--f->at]);
	kvdisk_path_release(f->path);
	free(f->held);
	free(f->after);
	free(f->tokens);
	free(f->space);
	free(f);
	return n_tok;
}
