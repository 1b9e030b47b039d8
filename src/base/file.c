/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/mapped.h"

#define HUGE_PAGE ((size_t)2 << 20)
/* Most bytes of one read: few enough that a slow disk shows progress. Linux reads less than 2
 * GiB in one call. */
#define READ_MAX ((size_t)64 << 20)

static enum status fail_errno(struct fail *fail, const char *path,
			      const char *what)
{
	return fail_set(fail, E_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* Read n bytes from the start of fd into p. */
static enum status read_all(int fd, const char *path, char *p, size_t n,
			    const struct file_watch *watch, struct fail *fail)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = pread(fd, p + done, MIN(n - done, READ_MAX),
				    (off_t)done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail_errno(fail, path, "cannot read");
		if (got == 0)
			return fail_set(fail, E_IO, "%s: became shorter while "
					"it was read", path);
		done += (size_t)got;
		if (watch && watch->on_read)
			watch->on_read(watch->ctx, (size_t)got);
	}
	return OK;
}

static enum status view_read(int fd, const char *path, size_t n,
			     const struct file_watch *watch, struct file_view *out,
			     struct fail *fail)
{
	void *p;
	if (posix_memalign(&p, HUGE_PAGE, n) != 0)
		return fail_set(fail, E_NOMEM, "%s: no memory for its %zu bytes",
				path, n);
	madvise(p, n, MADV_HUGEPAGE); /* a hint to the kernel: fewer page faults and TLB
				       * misses */
	enum status s = read_all(fd, path, p, n, watch, fail);
	if (s != OK) {
		free(p);
		return s;
	}
	*out = (struct file_view){p, n, false};
	return OK;
}

static enum status view_fd(int fd, const char *path, bool use_mmap,
			   const struct file_watch *watch, struct file_view *out,
			   struct fail *fail)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return fail_errno(fail, path, "cannot stat");
	if (!S_ISREG(st.st_mode))
		return fail_set(fail, E_IO, "%s: not a regular file", path);
	size_t n = (size_t)st.st_size;
	if (n == 0) { /* mmap refuses an empty range */
		*out = (struct file_view){"", 0, false};
		return OK;
	}
	if (!use_mmap)
		return view_read(fd, path, n, watch, out, fail);
	void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED && errno == ENOMEM)
		return fail_set(fail, E_NOMEM, "%s: cannot map its %zu bytes",
				path, n);
	if (p == MAP_FAILED)
		return fail_errno(fail, path, "cannot map");
	*out = (struct file_view){p, n, true};
	return OK;
}

enum status file_view_open(const char *path, bool use_mmap,
			   const struct file_watch *watch, struct file_view *out,
			   struct fail *fail)
{
	/* O_NONBLOCK: opening a FIFO must fail below and not wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fail_errno(fail, path, "cannot open");
	enum status s = view_fd(fd, path, use_mmap, watch, out, fail);
	close(fd);
	if (s == OK && out->is_mapped)
		mapped_add(out->p, out->n, path);
	return s;
}

void file_view_close(struct file_view *v)
{
	if (v->is_mapped) {
		mapped_remove(v->p);
		munmap((void *)v->p, v->n);
	}
	if (!v->is_mapped && v->n > 0)
		free((void *)v->p);
	*v = (struct file_view){0};
}

/* Read until the end of fd, because pipes and files in /proc do not report a size. */
static enum status read_to_end(int fd, const char *path, size_t max_bytes,
			       struct buf *out, struct fail *fail)
{
	size_t start = out->n;
	for (;;) {
		if (!buf_try(out, 16384))
			return fail_set(fail, E_NOMEM, "%s: no memory to read it", path);
		ssize_t got = read(fd, out->p + out->n, 16384);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail_errno(fail, path, "cannot read");
		if (got == 0)
			return OK;
		if (out->n - start + (size_t)got > max_bytes)
			return fail_set(fail, E_LIMIT,
					"%s: longer than %zu bytes", path,
					max_bytes);
		out->n += (size_t)got;
		out->p[out->n] = '\0';
	}
}

enum status file_read(const char *path, size_t max_bytes, struct buf *out,
		      struct fail *fail)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(fail, path, "cannot open");
	size_t start = out->n;
	enum status s = read_to_end(fd, path, max_bytes, out, fail);
	close(fd);
	if (s != OK)
		out->n = start;
	if (out->p)
		out->p[out->n] = '\0';
	return s;
}

int64_t file_time_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

bool file_is_lfs_pointer(struct str bytes, const char *path, struct fail *fail)
{
	/* The first line of every git-lfs pointer begins with these words; the version number
	 * follows. */
	if (!str_starts(bytes, STR("version https://git-lfs.")))
		return false;
	fail_set(fail, E_FORMAT, "%s: a pointer of git-lfs, not the file itself; in its "
		 "folder, type: git lfs pull", path);
	return true;
}

char *file_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);
	const char *slash = n > 0 && dir[n - 1] != '/' ? "/" : "";
	return xasprintf("%s%s%s", dir, slash, name);
}

bool file_write_all(int fd, struct str bytes)
{
	while (bytes.n > 0) {
		ssize_t n = write(fd, bytes.p, bytes.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			return false;
		bytes = (struct str){bytes.p + n, bytes.n - (size_t)n};
	}
	return true;
}

bool file_is_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & 022);
}

char *file_without_slashes(const char *path)
{
	size_t n = strlen(path);
	while (n > 0 && path[n - 1] == '/')
		n--;
	return xstrndup(path, n);
}

/* The folder that holds this program's executable, malloc'ed; "." if it is unknown. */
static char *program_dir(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	if (n <= 0)
		return xstrdup(".");
	path[n] = '\0';
	char *slash = strrchr(path, '/');
	return slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
}

char *file_beside_program(const char *const *places, size_t n_places)
{
	char *dir = program_dir();
	char *found = NULL;
	for (size_t i = 0; !found && i < n_places; i++) {
		char *path = file_join(dir, places[i]);
		if (file_exists(path))
			found = path;
		else
			free(path);
	}
	free(dir);
	return found;
}
