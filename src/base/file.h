/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files, mapped or read. Thread: any.
 */
#pragma once
#include "base/buf.h"

struct file_view {
	const char *p; /* read-only */
	size_t n;
	bool is_mapped;
};

/* Map the file (use_mmap) or read it with pread into 2 MiB aligned memory (users
 * of ROCm on some kernels need --no-mmap). E_IO with the
 * path on failure; E_NOMEM when it does not fit. */
enum status file_view_open(const char *path, bool use_mmap,
			   struct file_view *out, struct fail *fail) MUST_USE;
void file_view_close(struct file_view *v);

/* Append the file to *out; E_LIMIT when it is longer than max_bytes. */
enum status file_read(const char *path, size_t max_bytes, struct buf *out,
		      struct fail *fail) MUST_USE;
bool file_exists(const char *path);
/* Are these the bytes that git-lfs leaves in the place of a file that it has not fetched?
 * Then *fail says so of the path, and what to type. */
bool file_is_lfs_pointer(struct str bytes, const char *path, struct fail *fail);
/* When it was last written, in ns since 1970. */
struct stat;
int64_t file_time_ns(const struct stat *st);
/* "dir/name", malloc'ed. */
char *file_join(const char *dir, const char *name);
/* The first of these paths that exists, each below the folder that this program lies
 * in; malloc'ed. NULL when none does. */
char *file_beside_program(const char *const *places, size_t n_places);
