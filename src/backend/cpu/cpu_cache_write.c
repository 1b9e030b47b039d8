/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the cache file while requests are already being served. The thread has low
 * priority and can be stopped. The file has a temporary name until it is complete. It is
 * not flushed to disk: after a crash the checksums detect missing data.
 */
#include "backend/cpu/cpu_cache_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

/* Large and aligned writes, so that the page cache uses huge pages. */
enum { STAGE = 4 * CACHE_HUGE, OLD_TEMPORARY = 3600 /* seconds */ };

struct writing {
	struct cpu_cache *c;
	int fd;
	size_t at;      /* file offset at which the stage will be written */
	uint8_t *stage; /* STAGE bytes */
	size_t n;
};

/* The following functions return false with errno set. */
static bool write_at(struct writing *w, const void *from, size_t n, size_t at)
{
	const char *p = from;
	while (n > 0) {
		ssize_t done = pwrite(w->fd, p, n, (off_t)at);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		p += done;
		n -= (size_t)done;
		at += (size_t)done;
	}
	return true;
}

/* Write the stage. The last write is rounded up to whole huge pages, so that the file
 * ends with one. */
static bool cpu_cache_write_flush(struct writing *w)
{
	if (atomic_load(&w->c->stop)) {
		errno = ECANCELED;
		return false;
	}
	size_t n = ROUND_UP(w->n, CACHE_HUGE);
	memset(w->stage + w->n, 0, n - w->n);
	if (!write_at(w, w->stage, n, w->at))
		return false;
	w->at += n;
	w->n = 0;
	return true;
}

static bool cpu_cache_write_put(struct writing *w, const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t part = MIN(n, STAGE - w->n);
		memcpy(w->stage + w->n, p, part);
		w->n += part;
		p += part;
		n -= part;
		if (w->n == STAGE && !cpu_cache_write_flush(w))
			return false;
	}
	return true;
}

static bool put_item(struct writing *w, struct cache_item *item)
{
	static const uint8_t zeros[CACHE_ALIGN];
	size_t n = item->entry.n_bytes;
	item->entry.at = w->at + w->n;
	item->entry.sum = cpu_cache_sum(NULL, item->p, n);
	return cpu_cache_write_put(w, item->p, n) &&
	       cpu_cache_write_put(w, zeros, ROUND_UP(n, CACHE_ALIGN) - n);
}

/* Write head, key and entries last, because a file without them is invalid. */
static bool write_index(struct writing *w)
{
	struct cpu_cache *c = w->c;
	struct cache_head h = {.key_bytes = c->key.n,
			       .n_entries = c->n_items, .file_bytes = w->at};
	size_t index = cache_index_bytes(c->key.n, c->n_items);
	uint8_t *all = xcalloc(1, sizeof h + index);
	struct cache_entry *e = (void *)(all + cache_entries_at(c->key.n));
	memcpy(h.magic, CACHE_MAGIC, sizeof h.magic);
	memcpy(all + sizeof h, c->key.p, c->key.n);
	for (size_t i = 0; i < c->n_items; i++)
		e[i] = c->items[i].entry;
	h.sum = cpu_cache_sum(NULL, all + sizeof h, index);
	memcpy(all, &h, sizeof h);
	bool good = write_at(w, all, sizeof h + index, 0);
	free(all);
	return good;
}

static bool write_all(struct writing *w)
{
	struct cpu_cache *c = w->c;
	w->at = cache_data_at(c->key.n, c->n_items);
	for (size_t i = 0; i < c->n_items; i++)
		if (!put_item(w, &c->items[i]))
			return false;
	return cpu_cache_write_flush(w) && write_index(w);
}

/* --- whether to write ------------------------------------------------------------- */

static bool has_huge_files(const char *dir)
{
	char *path = file_join(dir, "probe" CPU_CACHE_SUFFIX ".XXXXXX");
	void *zeros = aligned_alloc(CACHE_HUGE, CACHE_HUGE);
	struct writing w = {.fd = mkostemp(path, O_CLOEXEC)};
	bool is_huge = false;
	if (w.fd >= 0 && zeros) {
		memset(zeros, 0, CACHE_HUGE);
		is_huge = write_at(&w, zeros, CACHE_HUGE, 0) && cache_is_huge(w.fd, 0);
	}
	if (w.fd >= 0) {
		unlink(path);
		close(w.fd);
	}
	free(zeros);
	free(path);
	return is_huge;
}

const char *cache_refusal(const struct cpu_cache *c)
{
	struct statvfs s;
	double need = (double)cache_data_at(c->key.n, c->n_items);
	for (size_t i = 0; i < c->n_items; i++)
		need += (double)ROUND_UP(c->items[i].entry.n_bytes, CACHE_ALIGN);
	if (statvfs(c->dir, &s) != 0)
		return strerror(errno);
	if ((double)s.f_bavail - need / (double)s.f_frsize < (double)s.f_blocks / 20)
		return "it would leave less than a twentieth of the disk";
	if (!c->o.small_pages && !has_huge_files(c->dir))
		return "its pages would be small ones (huge ones: Linux 6.16 with ext4, "
		       "5.18 with XFS)";
	return NULL;
}

/* --- files of models that no longer exist --------------------------------------- */

/* True if a model file from which this cache file was made is gone or has changed. */
static bool is_stale(const char *path)
{
	struct buf b = {0};
	struct cache_head h;
	bool is_stale = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && read(fd, &h, sizeof h) == sizeof h &&
	    memcmp(h.magic, CACHE_MAGIC, sizeof h.magic) == 0 && h.key_bytes < 1 << 20) {
		buf_reserve(&b, h.key_bytes);
		ssize_t n = read(fd, b.p, h.key_bytes);
		b.n = n > 0 ? (size_t)n : 0;
		b.p[b.n] = '\0';
	}
	if (fd >= 0)
		close(fd);
	for (char *line = b.p, *end; line && (end = strchr(line, '\n')); line = end + 1) {
		long long n_bytes, ns;
		int name = 0;
		struct stat st;
		*end = '\0';
		if (sscanf(line, "file %lld %lld %n", &n_bytes, &ns, &name) == 2 && name)
			is_stale |= stat(line + name, &st) != 0 ||
				    st.st_size != n_bytes || file_time_ns(&st) != ns;
	}
	buf_deinit(&b);
	return is_stale;
}

static bool is_old_temporary(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && st.st_mtime < time(NULL) - OLD_TEMPORARY;
}

void cache_make_room(const struct cpu_cache *c)
{
	if (!c->map) /* the file has another key or is damaged */
		unlink(c->path);
	DIR *dir = opendir(c->dir);
	struct dirent *d;
	while (dir && (d = readdir(dir))) {
		const char *at = strstr(d->d_name, CPU_CACHE_SUFFIX);
		if (!at)
			continue;
		bool is_whole = strcmp(at, CPU_CACHE_SUFFIX) == 0;
		char *path = file_join(c->dir, d->d_name);
		if (is_whole ? is_stale(path) : is_old_temporary(path))
			unlink(path);
		free(path);
	}
	if (dir)
		closedir(dir);
}

/* --- the thread -------------------------------------------------------------------------- */

static void write_file(struct cpu_cache *c, char *temporary)
{
	struct writing w = {.c = c, .fd = mkostemp(temporary, O_CLOEXEC)};
	if (w.fd >= 0)
		w.stage = aligned_alloc(CACHE_HUGE, STAGE);
	bool good = w.fd >= 0 && w.stage && write_all(&w) &&
		    rename(temporary, c->path) == 0;
	if (!good && errno != ECANCELED)
		log_warn("%s is not written: %s", c->path, strerror(errno));
	if (!good && w.fd >= 0)
		unlink(temporary);
	if (good)
		log_debug("%s is written: %zu bytes", c->path, w.at);
	if (w.fd >= 0)
		close(w.fd);
	free(w.stage);
}

void *cache_write(void *arg)
{
	struct cpu_cache *c = arg;
	/* This thread may have inherited a realtime policy: set the lowest priority for
	 * it alone. */
	if (!c->o.waits) {
		sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
		setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
	}
	char *temporary = xasprintf("%s.XXXXXX", c->path);
	write_file(c, temporary);
	free(temporary);
	return NULL;
}
