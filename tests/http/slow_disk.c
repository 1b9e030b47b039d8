/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded into halod by LD_PRELOAD: a disk that is slow or broken, for files *.halodkv and
 * *.halodkv.tmp only. It looks at a folder for files whose names are orders:
 *
 *   SLOW_DISK=DIR   DIR/hold-reads    reads wait as long as this file is there
 *                   DIR/hold-writes   writes do
 *                   DIR/break-reads   reads fail with EIO
 *                   DIR/break-writes  writes fail with EIO
 *                   DIR/fill          writes fail with ENOSPC
 *
 * DIR/read and DIR/written come to be when a call begins to wait.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef ssize_t pread_fn(int fd, void *p, size_t n, off_t at);
typedef ssize_t write_fn(int fd, const void *p, size_t n);
ssize_t pread(int fd, void *p, size_t n, off_t at);
ssize_t pread64(int fd, void *p, size_t n, off_t at);

static bool is_there(const char *order)
{
	char path[4096];
	const char *dir = getenv("SLOW_DISK");
	snprintf(path, sizeof path, "%s/%s", dir ? dir : "", order);
	return dir && access(path, F_OK) == 0;
}

static void leave(const char *name)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", getenv("SLOW_DISK"), name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static bool is_kept(int fd)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = '\0';
	return strstr(path, ".halodkv") != NULL;
}

/* True: the call is to fail. */
static bool obey(int fd, const char *hold, const char *broken, const char *mark)
{
	if (!is_kept(fd))
		return false;
	for (bool has_told = false; is_there(hold); usleep(1000)) {
		if (!has_told)
			leave(mark);
		has_told = true;
	}
	if (is_there(broken))
		errno = EIO;
	return is_there(broken);
}

ssize_t pread64(int fd, void *p, size_t n, off_t at)
{
	union { void *p; pread_fn *fn; } real = {dlsym(RTLD_NEXT, "pread64")};
	return obey(fd, "hold-reads", "break-reads", "read") ? -1 : real.fn(fd, p, n, at);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
	return pread64(fd, p, n, at);
}

ssize_t write(int fd, const void *p, size_t n)
{
	union { void *p; write_fn *fn; } real = {dlsym(RTLD_NEXT, "write")};
	if (obey(fd, "hold-writes", "break-writes", "written"))
		return -1;
	if (!is_kept(fd) || !is_there("fill"))
		return real.fn(fd, p, n);
	errno = ENOSPC;
	return -1;
}
