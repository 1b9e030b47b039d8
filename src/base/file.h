/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files, mapped or read. Thread: any.
 */
#pragma once
#include <sys/stat.h>

#include "base/buf.h"

struct file_view {
	const char *p; /* read-only bytes */
	size_t n;
	bool is_mapped;
};

/* on_read gets the bytes of each piece that was read. */
struct file_watch {
	void (*on_read)(void *ctx, size_t n_bytes);
	void *ctx;
};

/* Map the file (use_mmap), or read it into memory aligned to 2 MiB. Some kernels make
 * ROCm fail on mapped files, hence --no-mmap. Fails with E_IO and the path, or with
 * E_NOMEM if the file does not fit. watch may be NULL; a mapped file calls nothing. */
enum status file_view_open(const char *path, bool use_mmap,
			   const struct file_watch *watch, struct file_view *out,
			   struct fail *fail) MUST_USE;
void file_view_close(struct file_view *v);

/* Append the whole file to *out; E_LIMIT if the file is longer than max_bytes. */
enum status file_read(const char *path, size_t max_bytes, struct buf *out,
		      struct fail *fail) MUST_USE;
bool file_exists(const char *path);
/* True if bytes are a git-lfs pointer: the small text that stands for a file not yet
 * fetched. Then *fail names the path and the command to type. */
bool file_is_lfs_pointer(struct str bytes, const char *path, struct fail *fail);
/* Time of the last write, in nanoseconds since 1970. */
struct stat;
int64_t file_time_ns(const struct stat *st);
/* Returns "dir/name", malloc'ed. */
char *file_join(const char *dir, const char *name);
/* The path, or URL, without slashes at its end, malloc'ed: "" for "/". */
char *file_without_slashes(const char *path);
/* Writes all of it. False: errno says why. */
bool file_write_all(int fd, struct str bytes);
/* Is this this process's user's, and may nobody else write to it? */
bool file_is_ours(const struct stat *st);
/* The first of these paths that exists, malloc'ed. Each path is relative to the folder of
 * this program. NULL if none exists. */
char *file_beside_program(const char *const *places, size_t n_places);
