/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files of one folder. The kernel itself refuses a path that leaves the folder, also
 * through links (openat2, Linux 5.6).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fetch/fetch_private.h"

enum { PIECE = 1 << 16 };

/* The part of path below f->dir; "": path is not below it. */
static const char *rest_of(const struct fetch *f, const char *path)
{
	size_t n = strlen(f->dir);
	return strncmp(path, f->dir, n) == 0 && path[n] == '/' ? path + n + 1 : "";
}

static int open_below(const struct fetch *f, const char *rest)
{
	/* O_NONBLOCK: opening a pipe does not wait for a writer. A pipe is then refused. */
	const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				     .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int dir = open(f->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	int fd = (int)syscall(SYS_openat2, dir, rest, &how, sizeof how);
	int error = errno;
	close(dir);
	errno = error;
	return fd;
}

static enum status read_all(const struct fetch *f, enum fetch_kind kind, int fd, struct buf *out,
			    struct fail *fail)
{
	size_t begin = out->n;
	for (;;) {
		if (!buf_try(out, PIECE))
			return fail_default(fail, E_NOMEM);
		ssize_t n = read(fd, out->p + out->n, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_set(fail, E_INVAL, "cannot be read: %s", strerror(errno));
		if (n == 0)
			return OK;
		out->n += (size_t)n;
		if (out->n - begin > (size_t)f->max_bytes[kind])
			return fetch_fail_long(f, kind, fail);
	}
}

static enum status read_below(const struct fetch *f, enum fetch_kind kind, const char *rest,
			      struct buf *out, struct fail *fail)
{
	struct stat st;
	int fd = open_below(f, rest);
	if (fd < 0 && errno == EXDEV)
		return fail_set(fail, E_INVAL, "is a link that leads out of image_dir");
	if (fd < 0)
		return fail_set(fail, E_INVAL, "cannot be read: %s", strerror(errno));
	enum status s = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
				? read_all(f, kind, fd, out, fail)
				: fail_set(fail, E_INVAL, "is no file");
	close(fd);
	return s;
}

enum status fetch_file(const struct fetch *f, const struct fetch_ask *ask, struct buf *out,
		       struct fail *fail)
{
	char *path = fetch_url_file(ask->url);
	if (!path)
		return fail_set(fail, E_INVAL, "is no file: write its whole path, as in "
				"file:///folder/name.png, with %%XX for what is not ASCII");
	const char *rest = rest_of(f, path);
	enum status st = *rest ? read_below(f, ask->kind, rest, out, fail)
			       : fail_set(fail, E_INVAL, "is not below image_dir");
	free(path);
	return st;
}
