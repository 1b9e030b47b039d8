/* SPDX-License-Identifier: Apache-2.0
 *
 * The list is text: a line for each file, "device inode bytes written changed sum". The last
 * lines are the newest, and the oldest go first. A damaged line is no danger: with another
 * sum nothing is found in the folder, and all is computed again.
 */
#include "kv/filesum.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"

#define LIST     "weights.sums"
#define LIST_MAX ((size_t)1 << 16) /* bytes: some hundred files */
#define PIECE    ((size_t)4 << 20)

static void read_list(int folder, struct buf *out)
{
	char piece[4096];
	int fd = openat(folder, LIST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	bool is_ours = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		       file_is_ours(&st) && (size_t)st.st_size <= LIST_MAX;
	for (ssize_t n; is_ours && out->n <= LIST_MAX && (n = read(fd, piece, sizeof piece)) > 0;)
		buf_add(out, piece, (size_t)n);
	if (fd >= 0)
		close(fd);
	buf_add_c(out, '\0');
}

/* A temp file and rename: another daemon reads the old list or the new one. */
static void write_list(int folder, struct str text)
{
	char tmp[64];
	snprintf(tmp, sizeof tmp, LIST ".%ld.tmp", (long)getpid());
	int fd = openat(folder, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	bool is_written = write(fd, text.p, text.n) == (ssize_t)text.n;
	close(fd);
	if (!is_written || renameat(folder, tmp, folder, LIST) != 0)
		unlinkat(folder, tmp, 0);
}

static bool look_up(const char *list, const char *name, uint64_t *out)
{
	size_t n = strlen(name);
	for (const char *line = list; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, n) == 0)
			return sscanf(line + n, "%16" SCNx64, out) == 1;
	}
	return false;
}

static bool sum_file(int fd, uint64_t *out)
{
	char *piece = xmalloc(PIECE);
	uint64_t sum = 0;
	ssize_t n;
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	for (off_t at = 0; (n = pread(fd, piece, PIECE, at)) != 0; at += n > 0 ? n : 0) {
		if (n < 0 && errno != EINTR)
			break;
		if (n > 0)
			sum = hash_bytes(sum, piece, (size_t)n);
	}
	free(piece);
	*out = sum;
	return n == 0;
}

static void name_of(const struct stat *st, char *out, size_t size)
{
	snprintf(out, size, "%llx %llx %lld %lld %lld.%09ld ", (unsigned long long)st->st_dev,
		 (unsigned long long)st->st_ino, (long long)st->st_size,
		 (long long)file_time_ns(st), (long long)st->st_ctim.tv_sec,
		 (long)st->st_ctim.tv_nsec);
}

static void remember_sum(int folder, const struct buf *list, const char *name, uint64_t sum)
{
	struct buf b = {0};
	const char *old = list->p;
	while (strlen(old) > LIST_MAX / 2 && strchr(old, '\n'))
		old = strchr(old, '\n') + 1;
	buf_addf(&b, "%s%s%016" PRIx64 "\n", old, name, sum);
	write_list(folder, buf_str(&b));
	buf_deinit(&b);
}

enum status filesum_get(int folder, const struct filesum_file *f, uint64_t *out,
			struct fail *fail)
{
	struct buf list = {0};
	struct stat st, then;
	char name[160], name_then[160];
	int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	bool is_same = fd >= 0 && fstat(fd, &st) == 0 && st.st_size == f->bytes &&
		       file_time_ns(&st) == f->time_ns;
	if (!is_same) {
		if (fd >= 0)
			close(fd);
		return fail_set(fail, E_IO, "%s is not the file any more that was loaded",
				f->path);
	}
	name_of(&st, name, sizeof name);
	read_list(folder, &list);
	enum status status = OK;
	if (!look_up(list.p, name, out)) {
		bool is_read = sum_file(fd, out) && fstat(fd, &then) == 0;
		if (is_read)
			name_of(&then, name_then, sizeof name_then);
		if (!is_read || strcmp(name, name_then) != 0)
			status = fail_set(fail, E_IO, "%s cannot be read, or changes", f->path);
		else
			remember_sum(folder, &list, name, *out);
	}
	close(fd);
	buf_deinit(&list);
	return status;
}
