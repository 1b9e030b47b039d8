/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of a kvdisk, and all that they do with files.
 *
 * A file is written under a name of its own (NAME.tmp, locked), and renamed when its bytes
 * are on the disk. So a file with a proper name is whole, or its disk has lied, which the
 * sums tell. A .tmp that nobody locks is what a killed daemon has left. Other daemons may
 * work in the same folder: each looks for what has come and gone before it writes.
 */
#include "kv/kvdisk_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"

/* E_IO: the disk cannot read it; E_FORMAT: the file ends before. */
static enum status read_all(int fd, void *out, size_t n, uint64_t at)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = pread(fd, (char *)out + done, n - done, (off_t)(at + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? E_IO : E_FORMAT;
		done += (size_t)got;
	}
	return OK;
}

/* --- one file -------------------------------------------------------------------- */

struct opened {
	int fd;
	struct stat st;
	struct kvfile file;
	char *head;
};

static void close_file(struct opened *o)
{
	if (o->fd >= 0) {
		posix_fadvise(o->fd, 0, 0, POSIX_FADV_DONTNEED);
		close(o->fd);
	}
	free(o->head);
}

/* E_MISSING: the file is gone or not ours; E_IO: it cannot be read; E_FORMAT: it is damaged, or not
 * of this format. */
static enum status open_file(const struct kvdisk *d, const char *name, struct opened *o)
{
	char begin[sizeof(struct kvfile_head)];
	*o = (struct opened){.fd = openat(d->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC |
							       O_NONBLOCK)};
	if (o->fd < 0)
		return errno == EIO ? E_IO : E_MISSING;
	if (fstat(o->fd, &o->st) != 0 || !S_ISREG(o->st.st_mode) || !file_is_ours(&o->st))
		return E_MISSING;
	posix_fadvise(o->fd, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead beyond our reads */
	enum status st = read_all(o->fd, begin, sizeof begin, 0);
	size_t n = st == OK ? kvfile_peek((struct str){begin, sizeof begin}) : 0;
	if (st == OK && n == 0)
		st = E_FORMAT;
	if (st == OK && !(o->head = malloc(n)))
		st = E_MISSING;
	if (st == OK)
		st = read_all(o->fd, o->head, n, 0);
	if (st != OK)
		return st;
	return kvfile_parse((struct str){o->head, n}, (uint64_t)o->st.st_size, &o->file);
}

struct kvindex_file *kvdisk_io_entry(const struct kvfile *f, struct str key, const char *name)
{
	struct kvindex_file *e = xcalloc(1, sizeof *e);
	uint32_t n_pages = kvfile_n_pages(f), size = f->page_size;
	snprintf(e->name, sizeof e->name, "%.*s", (int)sizeof e->name - 1, name);
	e->bytes = (int64_t)kvfile_bytes(f);
	e->first_tok = (int32_t)f->first_tok;
	e->n_tok = (int32_t)f->n_tok;
	for (uint32_t s = 0; s < f->n_states; s++)
		e->state_tok = MAX(e->state_tok, (int32_t)f->states[s].at_tok);
	e->used_s = clock_wall_s();
	e->links = xcalloc((size_t)n_pages + f->n_states + 1, sizeof *e->links);
	uint64_t h = kvindex_root(key);
	for (uint32_t i = 0; i < f->n_tok / size; i++) {
		if (i * size == f->first_tok)
			e->before = i ? h : 0;
		h = kvindex_page(h, f->tokens + (size_t)i * size, (int)size);
		if (i * size >= f->first_tok) {
			e->links[e->n_links].hash = h;
			e->links[e->n_links].i = e->n_links;
			e->n_links++;
		}
		for (uint32_t s = 0; s < f->n_states; s++)
			if (f->states[s].at_tok == (i + 1) * size) {
				/* Links of states come after those of all pages. */
				struct kvindex_link *l = &e->links[n_pages + s];
				*l = (struct kvindex_link){.hash = kvindex_state(h), .i = s};
			}
	}
	if (f->first_tok == f->n_tok)
		e->before = h;
	e->n_links = n_pages + f->n_states;
	return e;
}

/* The part of a file's key from the space's name on; empty: the key has no such part. */
static struct str space_of(struct str key)
{
	const char *p = key.n ? memmem(key.p, key.n, "\nspace ", 7) : NULL;
	return p ? (struct str){p + 1, key.n - (size_t)(p + 1 - key.p)} : (struct str){"", 0};
}

/* An entry for a file of another model, format or version. Its pages are found by their tokens,
 * but only to tell that they exist. */
static struct kvindex_file *foreign_entry(const struct kvdisk *d, const struct kvfile *f,
					  const char *name)
{
	struct str space = space_of(f->key);
	if (f->page_size == (uint32_t)d->o.page_size && space.n)
		return kvdisk_io_entry(f, space, name);
	struct kvindex_file *e = xcalloc(1, sizeof *e);
	snprintf(e->name, sizeof e->name, "%.*s", (int)sizeof e->name - 1, name);
	e->bytes = (int64_t)kvfile_bytes(f);
	e->first_tok = (int32_t)f->first_tok;
	e->n_tok = (int32_t)f->n_tok;
	return e;
}

static void tell_prompt(const struct kvdisk *d, const struct kvfile *f, struct str space)
{
	const char *name = space.n > 6 ? memchr(space.p + 6, ' ', space.n - 6) : NULL;
	if (!name || !d->o.on_prompt)
		return;
	name++;
	const struct kvdisk_prompt p = {{name, space.n - (size_t)(name - space.p)}, f->tokens,
					(int)f->n_tok};
	d->o.on_prompt(d->o.prompt_ctx, &p);
}

/* --- the folder --------------------------------------------------------------------- */

static int64_t change_of(const struct kvdisk *d)
{
	struct stat st;
	return fstat(d->fd, &st) == 0 ? file_time_ns(&st) : 0;
}

/* Lock held. Bytes of the files that are written, without those in the queue. */
static int64_t written(const struct kvdisk *d)
{
	int64_t sum = 0;
	for (int i = 0; i < d->index.n_files; i++)
		sum += d->index.files[i]->is_pending ? 0 : d->index.files[i]->bytes;
	return sum;
}

void kvdisk_io_publish(struct kvdisk *d)
{
	int n = 0;
	for (int i = 0; i < d->index.n_files; i++)
		n += !d->index.files[i]->is_pending;
	metric_set(METRIC_KV_DISK_BYTES, (double)written(d));
	metric_set(METRIC_KV_DISK_FILES, n);
	metric_share(METRIC_KV_DISK_QUEUED, &d->told_queued, (double)d->queued);
}

/* Tells of a file that is of no use. One that is damaged is removed. One that the disk cannot read
 * stays: the next read may succeed, and its fault is not the file's. */
static void blame(struct kvdisk *d, const char *name, enum status st)
{
	/* Two readers may find the same damage. */
	if (st == E_FORMAT && unlinkat(d->fd, name, 0) == 0) {
		log_warn("kv_dir %s: %s is damaged and was removed", d->dir, name);
		metric_add(METRIC_KV_DISK_REFUSED, 1);
	}
	if (st != E_IO)
		return;
	metric_add(METRIC_KV_DISK_UNREAD, 1);
	pthread_mutex_lock(&d->lock);
	bool tells = !d->has_told_unread;
	d->has_told_unread = d->is_unread = true;
	pthread_mutex_unlock(&d->lock);
	if (tells)
		log_warn("kv_dir %s: the disk cannot read %s: it stays, and its prompts are "
			 "computed. Look into the kernel's log", d->dir, name);
}

static void learn(struct kvdisk *d, const char *name)
{
	struct opened o;
	enum status st = open_file(d, name, &o);
	size_t n_key = strlen(d->key);
	if (st != OK) {
		blame(d, name, st);
	} else {
		const struct kvfile *f = &o.file;
		bool is_own = f->key.n >= n_key && memcmp(f->key.p, d->key, n_key) == 0 &&
			      f->page_size == (uint32_t)d->o.page_size &&
			      f->page_bytes == d->o.page_bytes &&
			      f->state_bytes == d->o.state_bytes;
		struct kvindex_file *e = is_own ? kvdisk_io_entry(f, f->key, name)
						: foreign_entry(d, f, name);
		if (is_own && !d->has_writer)
			tell_prompt(d, f, (struct str){f->key.p + n_key, f->key.n - n_key});
		e->used_s = (int64_t)o.st.st_mtime;
		e->is_seen = true;
		pthread_mutex_lock(&d->lock);
		kvindex_add(&d->index, e);
		pthread_mutex_unlock(&d->lock);
	}
	close_file(&o);
}

/* Removes what a daemon left that was killed while it wrote. A living daemon holds a lock
 * on its file. */
static void remove_stale(const struct kvdisk *d, const char *name)
{
	int fd = openat(d->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlinkat(d->fd, name, 0);
	close(fd);
}

static void forget_unseen(struct kvdisk *d)
{
	pthread_mutex_lock(&d->lock);
	for (int i = d->index.n_files - 1; i >= 0; i--) {
		struct kvindex_file *f = d->index.files[i];
		if (!f->is_seen && !f->is_pending)
			kvindex_remove(&d->index, f);
	}
	kvdisk_io_publish(d);
	pthread_mutex_unlock(&d->lock);
}

void kvdisk_io_scan(struct kvdisk *d)
{
	int64_t changed = change_of(d);
	pthread_mutex_lock(&d->lock);
	bool is_due = changed != d->changed_ns || d->is_unread;
	pthread_mutex_unlock(&d->lock);
	int fd = is_due ? openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	pthread_mutex_lock(&d->lock);
	d->is_unread = false;
	for (int i = 0; i < d->index.n_files; i++)
		d->index.files[i]->is_seen = false;
	pthread_mutex_unlock(&d->lock);
	for (struct dirent *e; (e = readdir(dir));) {
		if (str_ends(str_of(e->d_name), STR(KVDISK_SUFFIX ".tmp")))
			remove_stale(d, e->d_name);
		if (strlen(e->d_name) >= sizeof((struct kvindex_file *)0)->name ||
		    !str_ends(str_of(e->d_name), STR(KVDISK_SUFFIX)))
			continue;
		pthread_mutex_lock(&d->lock);
		struct kvindex_file *f = kvindex_named(&d->index, e->d_name);
		if (f)
			f->is_seen = true;
		pthread_mutex_unlock(&d->lock);
		if (!f)
			learn(d, e->d_name);
	}
	closedir(dir);
	forget_unseen(d);
	d->changed_ns = changed;
}

/* --- writing --------------------------------------------------------------------------- */

/* Makes room for so many bytes below the limit, with a twentieth of the disk left to others. */
static bool make_room(struct kvdisk *d, int64_t bytes)
{
	for (;;) {
		struct statvfs v;
		char name[32];
		bool is_tight = fstatvfs(d->fd, &v) == 0 &&
				(double)v.f_bavail * (double)v.f_frsize <
					(double)bytes + (double)v.f_blocks *
							(double)v.f_frsize / 20;
		pthread_mutex_lock(&d->lock);
		bool fits = written(d) + bytes <= d->o.limit && !is_tight;
		struct kvindex_file *f = fits ? NULL
					      : kvindex_least(&d->index, clock_wall_s());
		if (f) {
			snprintf(name, sizeof name, "%s", f->name);
			kvindex_remove(&d->index, f);
		}
		pthread_mutex_unlock(&d->lock);
		if (!f)
			return fits;
		metric_add(METRIC_KV_DISK_EVICTED, 1);
		unlinkat(d->fd, name, 0);
	}
}

static enum status write_file(const struct kvdisk *d, int fd, const struct kvdisk_run *r)
{
	uint64_t *sums = xcalloc((size_t)r->n_pages + 1, sizeof *sums);
	struct kvfile_state states[KVDISK_RUN_STATES] = {{0}};
	size_t page = d->o.page_bytes, state = d->o.state_bytes;
	for (int i = 0; i < r->n_pages; i++)
		sums[i] = hash_bytes(0, r->pages + (size_t)i * page, page);
	for (int i = 0; i < r->n_states; i++)
		states[i] = (struct kvfile_state){
			.at_tok = r->state_at[i],
			.sum = hash_bytes(0, r->states + (size_t)i * state, state)};
	const struct kvfile f = {
		.key = {r->key, r->key_n}, .tokens = r->tokens, .n_tok = (uint32_t)r->n_tok,
		.first_tok = (uint32_t)(r->first * d->o.page_size),
		.page_size = (uint32_t)d->o.page_size, .n_states = (uint32_t)r->n_states,
		.page_bytes = page, .state_bytes = state, .page_sums = sums,
		.states = states};
	size_t n = kvfile_data_at(&f);
	char *head = xmalloc(n);
	kvfile_write_head(&f, head);
	const struct str pages = {(const char *)r->pages, (size_t)r->n_pages * page},
			 saved = {(const char *)r->states, (size_t)r->n_states * state};
	bool is_written = file_write_all(fd, (struct str){head, n}) &&
			  file_write_all(fd, pages) && file_write_all(fd, saved) &&
			  fdatasync(fd) == 0;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (is_written)
		metric_add(METRIC_KV_DISK_WRITTEN, (double)kvfile_bytes(&f));
	free(head);
	free(sums);
	return is_written ? OK : E_IO;
}

static enum status write_run(struct kvdisk *d, const struct kvdisk_run *r, int64_t bytes)
{
	char tmp[40];
	kvdisk_io_scan(d);
	if (!make_room(d, bytes)) {
		errno = ENOSPC;
		return E_IO;
	}
	snprintf(tmp, sizeof tmp, "%s.tmp", r->name);
	int fd = openat(d->fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return E_IO;
	enum status st = flock(fd, LOCK_EX | LOCK_NB) == 0 ? write_file(d, fd, r) : E_IO;
	if (st == OK && renameat(d->fd, tmp, d->fd, r->name) != 0)
		st = E_IO;
	int why = errno;
	if (st != OK)
		unlinkat(d->fd, tmp, 0);
	close(fd);
	errno = why;
	return st;
}

static void end_run(struct kvdisk *d, struct kvdisk_run *r, enum status st, int why)
{
	size_t n = (size_t)r->n_pages * d->o.page_bytes +
		   (size_t)r->n_states * d->o.state_bytes;
	int64_t changed = change_of(d);
	pthread_mutex_lock(&d->lock);
	struct kvindex_file *f = kvindex_named(&d->index, r->name);
	if (f && st == OK)
		f->is_pending = false;
	else if (f)
		kvindex_remove(&d->index, f);
	d->queued -= n;
	d->changed_ns = changed;
	bool tells = st != OK && !d->has_told;
	d->has_told = st != OK;
	kvdisk_io_publish(d);
	pthread_cond_broadcast(&d->idle);
	/* Tells of room while half the queue is still to be written, so that the writer does not
	 * run out of work. */
	bool has_room = d->was_full && d->queued <= KVDISK_QUEUE_BYTES / 2;
	d->was_full &= !has_room;
	if (has_room && d->o.on_read)
		d->o.on_read(d->o.ctx);
	pthread_mutex_unlock(&d->lock);
	if (st != OK)
		metric_add(METRIC_KV_DISK_ERRORS, 1);
	if (tells)
		log_warn("kv_dir %s: cannot write (%s): prompts are kept in memory only", d->dir,
			 strerror(why));
	kvdisk_run_destroy(d, r);
}

void *kvdisk_io_writer(void *arg)
{
	struct kvdisk *d = arg;
	for (;;) {
		pthread_mutex_lock(&d->lock);
		while (!d->runs && !d->stops)
			pthread_cond_wait(&d->wake_writer, &d->lock);
		struct kvdisk_run *r = d->stops ? NULL : d->runs;
		if (r)
			d->runs = r->next;
		if (!d->runs)
			d->last_run = &d->runs;
		struct kvindex_file *f = r ? kvindex_named(&d->index, r->name) : NULL;
		int64_t bytes = f ? f->bytes : 0;
		pthread_mutex_unlock(&d->lock);
		if (!r)
			return NULL;
		enum status st = write_run(d, r, bytes);
		end_run(d, r, st, errno);
	}
}

/* --- reading ---------------------------------------------------------------------------- */

/* How many tokens the file and the prompt have in common, from the first on. 0: the file
 * has another key. */
static int n_alike(const struct kvfile *f, const struct kvdisk_read *r)
{
	const struct kvdisk_path *p = r->path;
	int n = MIN((int)f->n_tok, r->n_tok), i = 0;
	if (f->key.n != p->key_n || memcmp(f->key.p, p->key, p->key_n) != 0)
		return 0;
	if (memcmp(f->tokens, p->tokens, sizeof *p->tokens * (size_t)n) == 0)
		return n;
	while (f->tokens[i] == p->tokens[i])
		i++;
	return i;
}

/* Reads data past the page cache, if the file system and the alignment of all numbers allow it. A
 * long read then has the disk's whole speed, is not copied, and leaves others their cache. */
static enum status read_data(int fd, void *out, size_t n, uint64_t at)
{
	bool fits = (uintptr_t)out % KVFILE_ALIGN == 0 && n % KVFILE_ALIGN == 0 &&
		    at % KVFILE_ALIGN == 0;
	int flags = fcntl(fd, F_GETFL) & ~O_DIRECT;
	if (fits && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0 &&
	    read_all(fd, out, n, at) == OK)
		return OK;
	fcntl(fd, F_SETFL, flags);
	return read_all(fd, out, n, at);
}

/* The file is of no use: takes it out of the index, so that nobody reads it again. */
static void refuse_file(struct kvdisk *d, const char *name, enum status st)
{
	blame(d, name, st);
	pthread_mutex_lock(&d->lock);
	struct kvindex_file *f = kvindex_named(&d->index, name);
	if (f)
		kvindex_remove(&d->index, f);
	kvdisk_io_publish(d);
	pthread_mutex_unlock(&d->lock);
}

/* Finds the file that holds the page or state of this hash, and its place there. False:
 * no file does. */
static bool look_up(struct kvdisk *d, uint64_t hash, char name[32], uint32_t *out_i)
{
	pthread_mutex_lock(&d->lock);
	const struct kvindex_link *l = kvindex_find(&d->index, hash, true);
	if (l) {
		memcpy(name, l->file->name, sizeof l->file->name);
		*out_i = l->i;
		l->file->used_s = clock_wall_s();
	}
	pthread_mutex_unlock(&d->lock);
	return l != NULL;
}

/* Reads pages from page `at` of the prompt on that lie in one file. Returns how many are good. */
static int read_pages(struct kvdisk *d, struct kvdisk_read *r, uint64_t hash, int at)
{
	char name[32];
	uint32_t i;
	struct opened o;
	int n = 0, n_good = 0, size = d->o.page_size;
	size_t bytes = d->o.page_bytes;
	if (!look_up(d, hash, name, &i))
		return 0;
	enum status st = open_file(d, name, &o);
	const struct kvfile *f = &o.file;
	char *to = r->pages + (size_t)(at - r->first) * bytes;
	if (st == OK && i < kvfile_n_pages(f) &&
	    (int)(f->first_tok + i * f->page_size) == at * size)
		n = MIN(MIN(n_alike(f, r) / size, r->first + r->n) - at,
			(int)(kvfile_n_pages(f) - i));
	if (st == OK && n <= 0)
		st = E_MISSING;
	if (st == OK)
		st = read_data(o.fd, to, (size_t)n * bytes, kvfile_page_at(f, i));
	while (st == OK && n_good < n &&
	       hash_bytes(0, to + (size_t)n_good * bytes, bytes) ==
		       f->page_sums[i + (uint32_t)n_good])
		n_good++;
	if (st == OK && n_good < n)
		st = E_FORMAT;
	if (st == OK)
		futimens(o.fd, (struct timespec[2]){{.tv_nsec = UTIME_OMIT},
						    {.tv_nsec = UTIME_NOW}});
	close_file(&o);
	if (st != OK)
		refuse_file(d, name, st);
	return n_good;
}

static bool read_state(struct kvdisk *d, struct kvdisk_read *r, uint64_t page)
{
	char name[32];
	uint32_t i;
	struct opened o;
	int tok = r->state_page * d->o.page_size;
	if (!r->state || !look_up(d, kvindex_state(page), name, &i))
		return false;
	enum status st = open_file(d, name, &o);
	const struct kvfile *f = &o.file;
	if (st == OK && (i >= f->n_states || (int)f->states[i].at_tok != tok ||
			 n_alike(f, r) < tok))
		st = E_MISSING;
	if (st == OK)
		st = read_data(o.fd, r->state, d->o.state_bytes, kvfile_state_at(f, i));
	if (st == OK && hash_bytes(0, r->state, d->o.state_bytes) != f->states[i].sum)
		st = E_FORMAT;
	close_file(&o);
	if (st != OK)
		refuse_file(d, name, st);
	return st == OK;
}

static void read_run(struct kvdisk *d, struct kvdisk_read *r)
{
	const uint64_t *names = r->path->names;
	int n = 0;
	for (int got = 1; r->pages && n < r->n && got > 0; n += got)
		got = read_pages(d, r, names[r->first + n], r->first + n);
	r->n_good = n;
	r->has_state = r->state_page && read_state(d, r, names[r->state_page - 1]);
	metric_add(METRIC_KV_DISK_READ, (double)n * (double)d->o.page_bytes +
		   (r->has_state ? (double)d->o.state_bytes : 0));
}

void *kvdisk_io_reader(void *arg)
{
	struct kvdisk *d = arg;
	for (;;) {
		pthread_mutex_lock(&d->lock);
		while (!d->reads && !d->stops)
			pthread_cond_wait(&d->wake_reader, &d->lock);
		struct kvdisk_read *r = d->stops ? NULL : d->reads;
		if (r)
			d->reads = r->next;
		if (!d->reads)
			d->last_read = &d->reads;
		bool is_dropped = r && r->is_dropped;
		pthread_mutex_unlock(&d->lock);
		if (!r)
			return NULL;
		if (!is_dropped)
			read_run(d, r);
		pthread_mutex_lock(&d->lock);
		r->is_done = true;
		if (d->slow == r)
			d->slow = NULL;
		is_dropped = r->is_dropped;
		void (*tell)(void *ctx) = d->o.on_read;
		void *ctx = d->o.ctx;
		if (tell && !is_dropped)
			tell(ctx);
		pthread_mutex_unlock(&d->lock);
		if (is_dropped)
			kvdisk_read_free(d, r);
	}
}
