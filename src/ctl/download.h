/* SPDX-License-Identifier: Apache-2.0
 *
 * Over HTTP: a small answer into memory, a large file onto the disk. Thread: main.
 */
#pragma once
#include <stdint.h>

#include "base/buf.h"

struct download {
	const char *token; /* bearer; NULL: none. It goes to the first host only. */
	/* Bytes of this file that are there, of all of them. NULL: nobody is told. */
	void (*on_progress)(void *ctx, int64_t done, int64_t total);
	void *ctx;
};

struct download_file {
	const char *url;
	const char *path;     /* where it belongs when it is whole */
	int64_t n_bytes;
	const char *digest;   /* hexadecimal */
	bool is_sha256;       /* else SHA-1 as git has it */
};

/* The body of url, at most 64 MB. E_MISSING for status 404, E_AUTH for 401 and 403,
 * E_IO for all else that is not 200. */
enum status download_text(const struct download *d, const char *url, struct buf *out,
			  struct fail *fail) MUST_USE;

/* Fetches into path.incomplete, going on behind what is there, and renames it when its
 * size and its digest are right. A connection that breaks is made again up to five times
 * in a row without a new byte. E_FORMAT: the digest is wrong, and the file is removed.
 * E_IO: also where another process fetches the same file. */
enum status download_file(const struct download *d, const struct download_file *f,
			  struct fail *fail) MUST_USE;
