/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/kvdisk_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/thread.h"

/* The key of a file: what the bits depend on, and whose they are. */
static void add_full_key(struct buf *out, const char *key, struct str space)
{
	buf_addf(out, "%sspace %zu ", key, space.n);
	buf_add_str(out, space);
}

static char *full_key(const struct kvdisk *d, struct str space, size_t *out_n)
{
	struct buf b = {0};
	add_full_key(&b, d->key, space);
	*out_n = b.n;
	return buf_take(&b);
}

static int32_t *copy_tokens(const int32_t *tokens, int n)
{
	int32_t *copy = xmalloc(sizeof *copy * (size_t)(n + 1));
	memcpy(copy, tokens, sizeof *copy * (size_t)n);
	return copy;
}

/* --- life ------------------------------------------------------------------- */

enum status kvdisk_open_folder(const char *dir, int *out_fd, struct fail *fail)
{
	struct stat st;
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return fail_at(fail, E_CONFIG, "kv_dir", "cannot make %s: %s", dir,
			       strerror(errno));
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		int why = errno;
		if (fd >= 0)
			close(fd);
		return fail_at(fail, E_CONFIG, "kv_dir", "cannot open %s: %s", dir,
			       strerror(why));
	}
	if (!file_is_ours(&st)) {
		close(fd);
		return fail_at(fail, E_CONFIG, "kv_dir", "others may write to %s: give it to the "
			       "user of halod alone, with mode 0700", dir);
	}
	*out_fd = fd;
	return OK;
}

static void start_threads(struct kvdisk *d)
{
	while (d->n_readers < KVDISK_READERS &&
	       thread_start(&d->readers[d->n_readers], "kv-read", kvdisk_io_reader, d) == 0)
		d->n_readers++;
	d->has_writer = thread_start(&d->writer, "kv-write", kvdisk_io_writer, d) == 0;
}

static void make_staging(struct kvdisk *d)
{
	const struct kvdisk_opts *o = &d->o;
	staging_create(&d->read_staging, &o->pinned, KVDISK_READ_BUFFERS, o->read_bytes);
	staging_create(&d->state_staging, &o->pinned, o->read_bytes ? 1 : 0, o->state_bytes);
	staging_create(&d->run_staging, &o->pinned, KVDISK_RUN_BUFFERS, o->run_bytes);
	bool has_all = d->read_staging.is_pinned && d->run_staging.is_pinned &&
		       (d->state_staging.is_pinned || !o->state_bytes);
	if (o->pinned.alloc && !has_all)
		log_warn("kv_dir %s: the device gives no pinned memory: copies between it and "
			 "the disk are slower", o->dir);
}

enum status kvdisk_create(const struct kvdisk_opts *o, struct kvdisk **out, struct fail *fail)
{
	struct kvdisk *d = xcalloc(1, sizeof *d);
	d->o = *o;
	d->dir = xstrdup(o->dir);
	d->key = xstrndup(o->key.p, o->key.n);
	d->fd = -1;
	d->last_read = &d->reads;
	d->last_run = &d->runs;
	kvindex_init(&d->index);
	make_staging(d);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->wake_reader, NULL);
	pthread_cond_init(&d->wake_writer, NULL);
	pthread_cond_init(&d->idle, NULL);
	enum status st = kvdisk_open_folder(d->dir, &d->fd, fail);
	if (st == OK) {
		kvdisk_io_scan(d);
		start_threads(d);
		if (d->n_readers == 0 || !d->has_writer)
			st = fail_set(fail, E_NOMEM, "no thread for %s", d->dir);
	}
	if (st != OK) {
		kvdisk_destroy(d, 0);
		return st;
	}
	*out = d;
	return OK;
}

static struct timespec time_in(int64_t us)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	int64_t ns = t.tv_nsec + us % 1000000 * 1000;
	t.tv_sec += us / 1000000 + ns / 1000000000;
	t.tv_nsec = ns % 1000000000;
	return t;
}

bool kvdisk_await(struct kvdisk *d, int64_t wait_us)
{
	const struct timespec until = time_in(MAX(wait_us, 0));
	pthread_mutex_lock(&d->lock);
	size_t queued = d->queued;
	int err = 0;
	while (d->has_writer && queued > 0 && d->queued == queued && err == 0)
		err = pthread_cond_timedwait(&d->idle, &d->lock, &until);
	bool has_room = d->has_writer && (d->queued != queued || queued == 0);
	pthread_mutex_unlock(&d->lock);
	return has_room;
}

static void stop_threads(struct kvdisk *d, int64_t wait_us)
{
	const struct timespec until = time_in(wait_us);
	pthread_mutex_lock(&d->lock);
	int err = 0;
	while (wait_us > 0 && d->has_writer && d->queued > 0 && err == 0)
		err = pthread_cond_timedwait(&d->idle, &d->lock, &until);
	d->stops = true;
	pthread_cond_broadcast(&d->wake_reader);
	pthread_cond_broadcast(&d->wake_writer);
	pthread_mutex_unlock(&d->lock);
	for (int i = 0; i < d->n_readers; i++)
		pthread_join(d->readers[i], NULL);
	if (d->has_writer)
		pthread_join(d->writer, NULL);
}

void kvdisk_destroy(struct kvdisk *d, int64_t wait_us)
{
	if (!d)
		return;
	stop_threads(d, wait_us);
	while (d->runs) {
		struct kvdisk_run *run = d->runs;
		d->runs = run->next;
		kvdisk_run_destroy(d, run);
	}
	d->queued = 0;
	if (d->fd >= 0)
		kvdisk_io_publish(d);
	while (d->reads) { /* of callers that never ended them */
		struct kvdisk_read *r = d->reads;
		d->reads = r->next;
		if (r->is_dropped)
			kvdisk_read_free(d, r);
	}
	staging_destroy(&d->read_staging, &d->o.pinned);
	staging_destroy(&d->state_staging, &d->o.pinned);
	staging_destroy(&d->run_staging, &d->o.pinned);
	if (d->fd >= 0)
		close(d->fd);
	kvindex_deinit(&d->index);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->wake_reader);
	pthread_cond_destroy(&d->wake_writer);
	pthread_cond_destroy(&d->idle);
	free(d->dir);
	free(d->key);
	free(d);
}

void kvdisk_set_on_read(struct kvdisk *d, void (*on_read)(void *ctx), void *ctx)
{
	pthread_mutex_lock(&d->lock);
	d->o.on_read = on_read;
	d->o.ctx = ctx;
	pthread_mutex_unlock(&d->lock);
}

/* --- what is there ----------------------------------------------------------- */

/* Name of the empty prompt. key "": among the files of other keys. */
static uint64_t root_of(const char *key, struct str space)
{
	struct buf b = {0};
	add_full_key(&b, key, space);
	uint64_t h = kvindex_root(buf_str(&b));
	buf_deinit(&b);
	return h;
}

static uint64_t name_next(const struct kvdisk *d, uint64_t before, const struct kvdisk_prompt *p,
			  int i)
{
	int size = d->o.page_size;
	return kvindex_page(before, p->tokens + (size_t)i * (size_t)size, size);
}

struct kvdisk_path *kvdisk_find(struct kvdisk *d, const struct kvdisk_prompt *p, int first,
				struct kvdisk_known *out)
{
	int size = d->o.page_size, n = p->n / size;
	uint64_t h = root_of(d->key, p->space), *names = xcalloc((size_t)n + 1, sizeof *names);
	*out = (struct kvdisk_known){0};
	for (int i = 0; i < first; i++)
		names[i] = h = name_next(d, h, p, i);
	pthread_mutex_lock(&d->lock);
	for (int i = first; i < n && !d->slow; i++) {
		names[i] = h = name_next(d, h, p, i);
		if (!kvindex_find(&d->index, h, true))
			break;
		out->n_pages++;
		if (kvindex_find(&d->index, kvindex_state(h), true))
			out->state_page = i + 1;
	}
	pthread_mutex_unlock(&d->lock);
	if (out->n_pages == 0) {
		free(names);
		return NULL;
	}
	struct kvdisk_path *path = xcalloc(1, sizeof *path);
	path->key = full_key(d, p->space, &path->key_n);
	path->n_pages = first + out->n_pages;
	path->tokens = copy_tokens(p->tokens, path->n_pages * size);
	path->names = names;
	path->n_users = 1;
	return path;
}

void kvdisk_path_release(struct kvdisk_path *path)
{
	if (!path || atomic_fetch_sub(&path->n_users, 1) > 1)
		return;
	free(path->key);
	free(path->tokens);
	free(path->names);
	free(path);
}

int kvdisk_find_foreign(struct kvdisk *d, const struct kvdisk_prompt *p, int first)
{
	uint64_t h = root_of("", p->space);
	int size = d->o.page_size, n = 0;
	for (int i = 0; i < first; i++)
		h = name_next(d, h, p, i);
	pthread_mutex_lock(&d->lock);
	for (; (first + n + 1) * size <= p->n; n++) {
		h = name_next(d, h, p, first + n);
		if (!kvindex_find(&d->index, h, true))
			break;
	}
	pthread_mutex_unlock(&d->lock);
	return n;
}

void kvdisk_kept(struct kvdisk *d, const struct kvdisk_prompt *p, bool *pages, bool *states)
{
	uint64_t h = root_of(d->key, p->space);
	int size = d->o.page_size;
	pthread_mutex_lock(&d->lock);
	for (int i = 0; (i + 1) * size <= p->n; i++) {
		h = name_next(d, h, p, i);
		pages[i] = kvindex_find(&d->index, h, false) != NULL;
		states[i] = kvindex_find(&d->index, kvindex_state(h), false) != NULL;
	}
	pthread_mutex_unlock(&d->lock);
}

/* --- reading ------------------------------------------------------------------ */

/* Memory for a read past the page cache, a staging buffer if one is free. NULL: no memory. */
static char *take_buffer(struct staging *from, size_t n, bool *out_is_pinned)
{
	char *p = staging_take(from, n);
	*out_is_pinned = p && from->is_pinned;
	return p ? p : aligned_alloc(KVFILE_ALIGN, (n / KVFILE_ALIGN + 1) * KVFILE_ALIGN);
}

static void give_buffer(struct staging *from, char *p)
{
	if (!staging_give(from, p))
		free(p);
}

void kvdisk_read_free(struct kvdisk *d, struct kvdisk_read *r)
{
	give_buffer(&d->read_staging, r->pages);
	give_buffer(&d->state_staging, r->state);
	kvdisk_path_release(r->path);
	free(r);
}

struct kvdisk_read *kvdisk_read_begin(struct kvdisk *d, struct kvdisk_path *path,
				      int first, int n, int state_page)
{
	struct kvdisk_read *r = xcalloc(1, sizeof *r);
	atomic_fetch_add(&path->n_users, 1);
	r->path = path;
	r->n_tok = MAX(first + n, state_page) * d->o.page_size;
	r->first = first;
	r->n = n;
	r->state_page = state_page;
	if (n > 0)
		r->pages = take_buffer(&d->read_staging, (size_t)n * d->o.page_bytes,
				       &r->is_pinned);
	if (state_page > 0)
		r->state = take_buffer(&d->state_staging, d->o.state_bytes, &r->is_state_pinned);
	pthread_mutex_lock(&d->lock);
	*d->last_read = r;
	d->last_read = &r->next;
	pthread_cond_signal(&d->wake_reader);
	pthread_mutex_unlock(&d->lock);
	return r;
}

bool kvdisk_read_done(struct kvdisk *d, const struct kvdisk_read *r, struct kvdisk_got *out)
{
	pthread_mutex_lock(&d->lock);
	bool is_done = r->is_done;
	pthread_mutex_unlock(&d->lock);
	if (is_done)
		*out = (struct kvdisk_got){.pages = r->pages, .n = r->n_good,
					   .state = r->has_state ? r->state : NULL,
					   .is_pinned = r->is_pinned,
					   .is_state_pinned = r->is_state_pinned};
	return is_done;
}

void kvdisk_read_is_slow(struct kvdisk *d, const struct kvdisk_read *r)
{
	pthread_mutex_lock(&d->lock);
	d->slow = r->is_done ? NULL : r;
	pthread_mutex_unlock(&d->lock);
}

void kvdisk_read_end(struct kvdisk *d, struct kvdisk_read *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&d->lock);
	bool is_done = r->is_done;
	r->is_dropped = true; /* then the reader frees it */
	pthread_mutex_unlock(&d->lock);
	if (is_done)
		kvdisk_read_free(d, r);
}

/* --- writing ------------------------------------------------------------------- */

static size_t run_bytes(const struct kvdisk *d, const struct kvdisk_run *r)
{
	return (size_t)r->n_pages * d->o.page_bytes + (size_t)r->n_states * d->o.state_bytes;
}

struct kvdisk_run *kvdisk_run_create(struct kvdisk *d, const struct kvdisk_prompt *p,
				     int first, int n_pages, int n_states)
{
	size_t n = (size_t)n_pages * d->o.page_bytes + (size_t)n_states * d->o.state_bytes;
	pthread_mutex_lock(&d->lock);
	bool has_room = d->queued == 0 || d->queued + n <= KVDISK_QUEUE_BYTES;
	d->was_full |= !has_room;
	pthread_mutex_unlock(&d->lock);
	if (!has_room)
		return NULL;
	struct kvdisk_run *r = xcalloc(1, sizeof *r);
	r->first = first;
	r->n_pages = n_pages;
	r->n_states = n_states;
	r->n_tok = (first + n_pages) * d->o.page_size;
	r->key = full_key(d, p->space, &r->key_n);
	r->tokens = copy_tokens(p->tokens, r->n_tok);
	r->pages = take_buffer(&d->run_staging, n, &r->is_pinned);
	if (!r->pages) {
		kvdisk_run_destroy(d, r);
		return NULL;
	}
	r->states = r->pages + (size_t)n_pages * d->o.page_bytes;
	return r;
}

void kvdisk_run_destroy(struct kvdisk *d, struct kvdisk_run *r)
{
	if (!r)
		return;
	free(r->key);
	free(r->tokens);
	give_buffer(&d->run_staging, r->pages);
	free(r);
}

void kvdisk_write(struct kvdisk *d, struct kvdisk_run *r)
{
	struct kvfile_state at[KVDISK_RUN_STATES] = {{0}};
	for (int i = 0; i < r->n_states; i++)
		at[i].at_tok = r->state_at[i];
	const struct kvfile f = {
		.key = {r->key, r->key_n}, .tokens = r->tokens, .n_tok = (uint32_t)r->n_tok,
		.first_tok = (uint32_t)(r->first * d->o.page_size),
		.page_size = (uint32_t)d->o.page_size, .n_states = (uint32_t)r->n_states,
		.page_bytes = d->o.page_bytes, .state_bytes = d->o.state_bytes, .states = at};
	char id[17];
	random_hex(8, id);
	snprintf(r->name, sizeof r->name, "%s" KVDISK_SUFFIX, id);
	struct kvindex_file *e = kvdisk_io_entry(&f, f.key, r->name);
	e->is_pending = true;
	pthread_mutex_lock(&d->lock);
	kvindex_add(&d->index, e);
	d->queued += run_bytes(d, r);
	metric_share(METRIC_KV_DISK_QUEUED, &d->told_queued, (double)d->queued);
	*d->last_run = r;
	d->last_run = &r->next;
	pthread_cond_signal(&d->wake_writer);
	pthread_mutex_unlock(&d->lock);
}
