/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/expert_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"

#define MAGIC "halodex3"
enum { MAX_KEY = 1 << 20 };

struct store_head {
	char magic[8];
	uint64_t key_bytes, n, file_bytes;
	uint64_t sum; /* hash_bytes of the stored key and entries */
};

static uint64_t entries_at(uint64_t key_bytes)
{
	return ROUND_UP(sizeof(struct store_head) + key_bytes, 8);
}

static uint64_t head_bytes(uint64_t key_bytes, uint64_t n)
{
	return ROUND_UP(entries_at(key_bytes) + n * sizeof(struct expert_entry), EXPERT_ALIGN);
}

static uint64_t head_sum(const uint8_t *head, uint64_t key_bytes, uint64_t n)
{
	return hash_bytes(0, head + sizeof(struct store_head),
			 entries_at(key_bytes) + n * sizeof(struct expert_entry) -
				 sizeof(struct store_head));
}

/* Open the file so that reads bypass the page cache, if the file system can. *out_direct says
 * whether it can. */
static int open_direct(const char *path, int flags, bool *out_direct)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_DIRECT, 0644);
	*out_direct = fd >= 0;
	if (fd < 0 && errno == EINVAL)
		fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0644);
	return fd;
}

static bool transfer(int fd, bool is_write, void *p, size_t n, uint64_t at)
{
	for (size_t done = 0; done < n;) {
		void *to = (char *)p + done;
		off_t from = (off_t)(at + done);
		ssize_t got = is_write ? pwrite(fd, to, n - done, from)
				       : pread(fd, to, n - done, from);
		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			errno = is_write ? ENOSPC : ENODATA;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/* --- reading the head --------------------------------------------------------------- */

static bool are_entries_inside(const struct expert_store *s, uint64_t file_bytes)
{
	for (int32_t i = 0; i < s->n; i++) {
		const struct expert_entry *e = &s->entries[i];
		if (e->at % EXPERT_ALIGN || e->n_bytes % EXPERT_ALIGN || e->at > file_bytes ||
		    e->n_bytes > file_bytes - e->at)
			return false;
	}
	return true;
}

/* head: head_bytes from the beginning of a file of file_bytes. Returns what is wrong with it,
 * or NULL. */
static const char *take_head(const uint8_t *head, uint64_t file_bytes, struct str key,
			     struct expert_store *s)
{
	struct store_head h;
	memcpy(&h, head, sizeof h);
	if (memcmp(h.magic, MAGIC, sizeof h.magic) != 0)
		return "it is no expert store";
	if (h.key_bytes != key.n || h.n != (uint64_t)s->n ||
	    memcmp(head + sizeof h, key.p, key.n) != 0)
		return "it is of another model or version";
	if (h.file_bytes != file_bytes)
		return "it was cut short";
	if (h.sum != head_sum(head, h.key_bytes, h.n))
		return "its head is damaged";
	memcpy(s->entries, head + entries_at(key.n), h.n * sizeof *s->entries);
	return are_entries_inside(s, file_bytes) ? NULL : "its head is damaged";
}

enum status expert_store_open(const char *path, struct str key, int32_t n,
			      struct expert_store *out, struct fail *fail)
{
	struct expert_store s = {.n = n};
	struct stat st;
	size_t n_head = head_bytes(key.n, (uint64_t)n);
	s.fd = open_direct(path, O_RDONLY, &s.is_direct);
	if (s.fd < 0)
		return fail_set(fail, errno == ENOENT ? E_MISSING : E_IO, "%s: %s", path,
				strerror(errno));
	const char *why = NULL;
	uint8_t *head = aligned_alloc(EXPERT_ALIGN, n_head);
	s.entries = xcalloc((size_t)n + 1, sizeof *s.entries);
	if (!head || fstat(s.fd, &st) != 0 || !S_ISREG(st.st_mode))
		why = "it is no file that can be read";
	else if (st.st_uid != geteuid() && st.st_uid != 0)
		why = "it is another user's, who could change it"; /* checksums do not protect
								    * against forgery */
	else if ((uint64_t)st.st_size < n_head || !transfer(s.fd, false, head, n_head, 0))
		why = "it is of another model or was cut short";
	else
		why = take_head(head, (uint64_t)st.st_size, key, &s);
	free(head);
	if (why) {
		expert_store_close(&s);
		return fail_set(fail, E_FORMAT, "%s: %s", path, why);
	}
	if (!s.is_direct) /* the kernel must not read ahead */
		posix_fadvise(s.fd, 0, 0, POSIX_FADV_RANDOM);
	s.path = xstrdup(path);
	*out = s;
	return OK;
}

uint64_t expert_store_key(const struct expert_store *s)
{
	return hash_bytes(0, s->entries, (size_t)s->n * sizeof *s->entries);
}

void expert_store_close(struct expert_store *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->entries);
	free(s->path);
	*s = (struct expert_store){.fd = -1};
}

/* --- making ------------------------------------------------------------------------- */

struct store_making {
	const struct expert_store_plan *p;
	int fd;
	uint8_t *head, *stage; /* head: head_bytes; stage: room for the largest expert */
	uint64_t n_head, n_stage, n_file;
};

static enum status check_room(const struct store_making *m, struct fail *fail)
{
	struct statvfs v;
	if (fstatvfs(m->fd, &v) != 0)
		return fail_set(fail, E_IO, "%s: %s", m->p->path, strerror(errno));
	double left = (double)v.f_bavail * (double)v.f_frsize - (double)m->n_file;
	if (left >= (double)v.f_blocks * (double)v.f_frsize / 20)
		return OK;
	return fail_set(fail, E_IO, "%s needs %.2f GB, and the disk has %.2f GB of which a "
			"twentieth stays free: name another folder with expert_dir",
			m->p->path, (double)m->n_file * 1e-9,
			(double)v.f_bavail * (double)v.f_frsize * 1e-9);
}

static enum status write_experts(struct store_making *m, struct fail *fail)
{
	struct expert_entry *e = (void *)(m->head + entries_at(m->p->key.n));
	uint64_t at = m->n_head;
	for (int32_t i = 0; i < m->p->n; i++) {
		size_t n = m->p->n_bytes[i];
		e[i] = (struct expert_entry){.at = at, .n_bytes = n};
		if (n == 0)
			continue;
		memset(m->stage, 0, n);
		enum status st = m->p->fill(m->p->ctx, i, m->stage, fail);
		if (st != OK)
			return st;
		e[i].sum = expert_reader_sum(m->stage, n);
		if (!transfer(m->fd, true, m->stage, n, at))
			return fail_set(fail, E_IO, "%s.tmp: %s", m->p->path, strerror(errno));
		at += n;
	}
	return OK;
}

/* Writes the head last: a file without a head is no store. */
static enum status write_head(struct store_making *m, const char *temporary, struct fail *fail)
{
	struct store_head h = {.key_bytes = m->p->key.n,
			       .n = (uint64_t)m->p->n, .file_bytes = m->n_file};
	memcpy(h.magic, MAGIC, sizeof h.magic);
	memcpy(m->head + sizeof h, m->p->key.p, m->p->key.n);
	h.sum = head_sum(m->head, h.key_bytes, h.n);
	memcpy(m->head, &h, sizeof h);
	if (!transfer(m->fd, true, m->head, m->n_head, 0) || fsync(m->fd) != 0 ||
	    rename(temporary, m->p->path) != 0)
		return fail_set(fail, E_IO, "%s: %s", m->p->path, strerror(errno));
	return OK;
}

static enum status make_file(struct store_making *m, const char *temporary, struct fail *fail)
{
	bool is_direct;
	m->fd = open_direct(temporary, O_RDWR | O_CREAT, &is_direct);
	if (m->fd < 0)
		return fail_set(fail, E_IO, "%s: %s; name a folder that can be written with "
				"expert_dir", temporary, strerror(errno));
	if (flock(m->fd, LOCK_EX | LOCK_NB) != 0)
		return fail_set(fail, E_IO, "%s: another process is making it now; wait for "
				"that", temporary);
	m->head = aligned_alloc(EXPERT_ALIGN, m->n_head);
	m->stage = aligned_alloc(EXPERT_ALIGN, MAX(m->n_stage, EXPERT_ALIGN));
	if (!m->head || !m->stage)
		return fail_default(fail, E_NOMEM);
	memset(m->head, 0, m->n_head);
	if (ftruncate(m->fd, 0) != 0) /* remove what a killed process may have left */
		return fail_set(fail, E_IO, "%s: %s", temporary, strerror(errno));
	enum status st = check_room(m, fail);
	if (st == OK)
		st = write_experts(m, fail);
	if (st == OK)
		st = write_head(m, temporary, fail);
	if (st != OK)
		unlink(temporary);
	return st;
}

enum status expert_store_make(const struct expert_store_plan *p, struct fail *fail)
{
	struct store_making m = {.p = p, .fd = -1, .n_head = head_bytes(p->key.n, (uint64_t)p->n)};
	char *temporary = xasprintf("%s.tmp", p->path);
	m.n_file = m.n_head;
	for (int32_t i = 0; i < p->n; i++) {
		m.n_stage = MAX(m.n_stage, p->n_bytes[i]);
		m.n_file += p->n_bytes[i];
	}
	enum status st = p->key.n > MAX_KEY ? fail_default(fail, E_LIMIT)
					    : make_file(&m, temporary, fail);
	if (m.fd >= 0)
		close(m.fd);
	free(m.head);
	free(m.stage);
	free(temporary);
	return st;
}

/* --- beside it ---------------------------------------------------------------------- */

bool expert_store_keep(const char *path, struct str bytes)
{
	char *temporary = xasprintf("%s.%ld.tmp", path, (long)getpid());
	int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	bool good = fd >= 0 && write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n;
	if (fd >= 0)
		good = close(fd) == 0 && good;
	good = good && rename(temporary, path) == 0;
	if (!good)
		unlink(temporary);
	free(temporary);
	return good;
}
