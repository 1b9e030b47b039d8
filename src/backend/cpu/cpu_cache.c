/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#include "backend/cpu/cpu_cache_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mapped.h"
#include "base/thread.h"

/* --- checksums ------------------------------------------------------------------------ */

enum { PIECE = 1 << 17 };

struct summing {
	const uint8_t *p;
	size_t n;
	_Atomic uint64_t sum;
};

static void sum_pieces(void *arg, int begin, int end)
{
	struct summing *s = arg;
	uint64_t sum = 0;
	for (size_t i = (size_t)begin; i < (size_t)end; i++)
		sum += hash_bytes(i, s->p + i * PIECE, MIN(s->n - i * PIECE, PIECE));
	atomic_fetch_add(&s->sum, sum);
}

uint64_t cpu_cache_sum(struct pool *pool, const void *p, size_t n)
{
	struct summing s = {.p = p, .n = n};
	pool_for(pool, (int)DIV_UP(n, PIECE), 1, sum_pieces, &s);
	return s.sum;
}

/* --- pages ---------------------------------------------------------------------------- */

/* Map n bytes of the file, read-only, from offset `at`, a multiple of 2 MiB. The address
 * is a multiple of 2 MiB too. NULL: see errno. Unmap by munmap(p, n). */
static void *map_huge(int fd, size_t at, size_t n)
{
	/* Reserve a huge page more, so that the address can be rounded up; unmap the
	 * rest. */
	size_t room = n + CACHE_HUGE;
	char *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	size_t before = (size_t)(-(uintptr_t)p % CACHE_HUGE);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), end = before + ROUND_UP(n, page);
	void *out = mmap(p + before, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)at);
	if (out == MAP_FAILED) {
		int why = errno;
		munmap(p, room);
		errno = why;
		return NULL;
	}
	if (before)
		munmap(p, before);
	if (end < room)
		munmap(p + end, room - end);
	madvise(out, n, MADV_HUGEPAGE); /* best effort: the kernel may not know this advice */
	return out;
}

/* KiB in huge pages of a file for the mapping at p, from /proc/self/smaps. */
static long huge_kib(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[256], start[32];
	long kib = 0;
	bool is_it = false;
	size_t n = (size_t)snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)p);
	while (f && fgets(line, sizeof line, f)) {
		is_it |= strncmp(line, start, n) == 0;
		if (is_it && sscanf(line, "FilePmdMapped: %ld kB", &kib) == 1)
			break;
		if (is_it && strncmp(line, "VmFlags", 7) == 0)
			break; /* an older kernel does not report it */
	}
	if (f)
		fclose(f);
	return kib;
}

bool cache_is_huge(int fd, size_t at)
{
	volatile char *p = map_huge(fd, at, CACHE_HUGE);
	if (!p)
		return false;
	(void)p[0];
	bool is_huge = huge_kib((void *)(uintptr_t)p) > 0;
	munmap((void *)(uintptr_t)p, CACHE_HUGE);
	return is_huge;
}

/* --- finding the file ----------------------------------------------------------- */

/* Append the name part of a model's path: "/srv/models/Qwen3 8B/" gives "Qwen3_8B". */
static void add_model_name(struct buf *out, const char *path)
{
	size_t n = strlen(path);
	while (n > 0 && path[n - 1] == '/')
		n--;
	size_t start = n;
	while (start > 0 && path[start - 1] != '/' && n - start < 80)
		start--;
	for (size_t i = start; i < n; i++) {
		char c = path[i];
		bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
				(c >= 'a' && c <= 'z') || c == '.' || c == '-';
		buf_add_c(out, is_plain && !(c == '.' && i == start) ? c : '_');
	}
}

static char *path_of(const struct cpu_cache_opts *o)
{
	struct buf name = {0};
	char *real = realpath(o->model->dir, NULL);
	const char *path = real ? real : o->model->dir;
	add_model_name(&name, path);
	buf_addf(&name, "-%08x-%s" CPU_CACHE_SUFFIX,
		 (unsigned)(cpu_cache_sum(NULL, path, strlen(path)) >> 32), o->isa);
	char *out = file_join(o->dir, name.p);
	buf_deinit(&name);
	free(real);
	return out;
}

/* Check the file's header, sizes and checksum of the index. */
static bool is_whole(const struct cpu_cache *c)
{
	struct cache_head h;
	size_t n = c->map_bytes;
	if (n < sizeof h)
		return false;
	memcpy(&h, c->map, sizeof h);
	if (memcmp(h.magic, CACHE_MAGIC, sizeof h.magic) != 0 || h.file_bytes != n ||
	    h.key_bytes > n - sizeof h ||
	    h.n_entries > (n - sizeof h - h.key_bytes) / sizeof(struct cache_entry))
		return false;
	size_t index = cache_index_bytes(h.key_bytes, h.n_entries);
	if (index > n - sizeof h ||
	    cpu_cache_sum(NULL, c->map + sizeof h, index) != h.sum)
		return false;
	const struct cache_entry *e =
		(const void *)(c->map + cache_entries_at(h.key_bytes));
	for (size_t i = 0; i < h.n_entries; i++)
		if (e[i].at % CACHE_ALIGN || e[i].at > n || e[i].n_bytes > n - e[i].at)
			return false;
	return true;
}

static bool has_key(const struct cpu_cache *c)
{
	struct cache_head h;
	memcpy(&h, c->map, sizeof h);
	return h.key_bytes == c->key.n &&
	       memcmp(c->map + sizeof h, c->key.p, c->key.n) == 0;
}

static void unmap(struct cpu_cache *c)
{
	mapped_remove(c->map);
	if (c->map)
		munmap((void *)(uintptr_t)c->map, c->map_bytes);
	c->map = NULL;
	c->entries = NULL;
	c->n_entries = c->next = 0;
}

static void give_up(struct cpu_cache *c, const char *why)
{
	snprintf(c->note, sizeof c->note, "packed; no use is made of %s: %s",
		 c->path ? c->path : c->dir, why);
	free(c->path);
	c->path = NULL;
}

static bool comes_huge(const struct cpu_cache *c, int fd)
{
	struct cache_head h;
	memcpy(&h, c->map, sizeof h);
	size_t first = cache_data_at(h.key_bytes, h.n_entries);
	size_t last = c->map_bytes / CACHE_HUGE * CACHE_HUGE;
	return c->o.small_pages ||
	       (last > first && cache_is_huge(fd, first) &&
		cache_is_huge(fd, last - CACHE_HUGE));
}

/* Map the file; true if it belongs to this model and is valid. */
static bool map_file(struct cpu_cache *c, int fd, size_t n)
{
	c->map_bytes = n;
	c->map = map_huge(fd, 0, n);
	if (c->map)
		mapped_add(c->map, n, c->path);
	bool is_good = c->map && is_whole(c);
	if (is_good && has_key(c))
		return true;
	c->fault = !c->map ? "could not be mapped"
		   : is_good ? "was of another model or version" : "was damaged";
	unmap(c);
	return false;
}

/* Only trust files of this user or root: another user could forge sums too. */
static bool is_ours(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_uid == geteuid() || st->st_uid == 0);
}

static void open_file(struct cpu_cache *c, int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0 || !is_ours(&st)) {
		c->fault = "was not a file of this user";
		return;
	}
	if (st.st_size == 0) {
		c->fault = "was empty";
		return;
	}
	if (!map_file(c, fd, (size_t)st.st_size))
		return;
	bool is_huge = comes_huge(c, fd);
	if (!is_huge) {
		/* Another reader, such as a backup, has put the file into the page cache
		 * in small pages. Drop these; mapping reads the file again, in huge
		 * pages. */
		unmap(c);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (!map_file(c, fd, (size_t)st.st_size))
			return;
		is_huge = comes_huge(c, fd);
	}
	if (is_huge) {
		struct cache_head h;
		memcpy(&h, c->map, sizeof h);
		c->entries = (const void *)(c->map + cache_entries_at(h.key_bytes));
		c->n_entries = h.n_entries;
	} else {
		unmap(c);
		give_up(c, "its pages are small ones here");
	}
}

struct cpu_cache *cpu_cache_open(const struct cpu_cache_opts *o)
{
	struct cpu_cache *c = xcalloc(1, sizeof *c);
	c->o = *o;
	c->dir = xstrdup(o->dir ? o->dir : "");
	if (!*c->dir)
		return c;
	if (mkdir(c->dir, 0777) != 0 && errno != EEXIST) {
		give_up(c, strerror(errno));
		return c;
	}
	buf_addf(&c->key, "halod %s\nisa %s\n", PACKAGE_VERSION, o->isa);
	tensors_list_files(o->model->tensors, &c->key);
	c->path = path_of(o);
	int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		open_file(c, fd);
		close(fd);
	} else if (errno != ENOENT) {
		give_up(c, strerror(errno));
	}
	return c;
}

/* --- loading a model ------------------------------------------------------------ */

static void add_item(struct cpu_cache *c, const struct cache_entry *e, const void *p)
{
	if (c->n_items == c->cap_items) {
		c->cap_items = 2 * c->cap_items + 64;
		c->items = xrealloc(c->items, c->cap_items * sizeof *c->items);
	}
	c->items[c->n_items++] = (struct cache_item){*e, p};
}

const void *cpu_cache_find(struct cpu_cache *c, struct cpu_cache_id id)
{
	while (c->next < c->n_entries && c->entries[c->next].i < id.i)
		c->next++;
	if (c->next == c->n_entries)
		return NULL;
	const struct cache_entry *e = &c->entries[c->next];
	const uint8_t *p = c->map + e->at;
	if (e->i != id.i)
		return NULL;
	if (e->what != id.what || e->n_bytes != id.n_bytes ||
	    cpu_cache_sum(c->o.pool, p, id.n_bytes) != e->sum) {
		c->fault = "was damaged";
		return NULL;
	}
	add_item(c, e, p);
	return p;
}

void cpu_cache_add(struct cpu_cache *c, struct cpu_cache_id id, const void *p)
{
	struct cache_entry e = {.i = id.i, .what = id.what, .n_bytes = id.n_bytes};
	if (!c->path)
		return;
	/* The entry was found, but the caller refused it: replace it. */
	if (c->n_items && c->items[c->n_items - 1].entry.i == id.i)
		c->n_items--;
	add_item(c, &e, p);
	c->is_new = true;
}

void cpu_cache_keep(struct cpu_cache *c)
{
	double bytes = 0;
	for (size_t i = 0; i < c->n_items; i++)
		bytes += (double)c->items[i].entry.n_bytes;
	if (!c->path || c->n_items == 0)
		return;
	if (!c->is_new) {
		snprintf(c->note, sizeof c->note, "%.2f GB mapped from %s", bytes / 1e9,
			 c->path);
		return;
	}
	cache_make_room(c);
	const char *refusal = cache_refusal(c);
	if (refusal) {
		give_up(c, refusal);
		return;
	}
	snprintf(c->note, sizeof c->note, "packed; %.2f GB go to %s for the next start%s%s",
		 bytes / 1e9, c->path, c->fault ? "; the file that was there " : "",
		 c->fault ? c->fault : "");
	c->is_writing = thread_start(&c->writer, "weight-cache", cache_write, c) == 0;
}

const char *cpu_cache_note(const struct cpu_cache *c)
{
	return c->note;
}

void cpu_cache_close(struct cpu_cache *c)
{
	if (!c)
		return;
	atomic_store(&c->stop, !c->o.waits);
	if (c->is_writing)
		pthread_join(c->writer, NULL);
	unmap(c);
	free(c->items);
	buf_deinit(&c->key);
	free(c->path);
	free(c->dir);
	free(c);
}
