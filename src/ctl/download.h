/* SPDX-License-Identifier: Apache-2.0
 *
 * Downloads over HTTP: a small answer into memory, a large file onto the disk. Thread: main.
 */
#pragma once
#include <stdint.h>

#include "base/buf.h"

struct download {
	const char *token; /* bearer; NULL: none. It is sent to the first host only, not after a
			    * redirect. */
	/* Receives the bytes of this file that are there, and of the whole file. NULL: not
	 * called. */
	void (*on_progress)(void *ctx, int64_t done, int64_t total);
	void *ctx;
};

struct download_file {
	const char *url;
	const char *path;     /* final path of the complete file */
	int64_t n_bytes;
	const char *digest;   /* hexadecimal */
	bool is_sha256;       /* digest is SHA-256; else SHA-1 of git's blob */
};

/* The body of url, at most 64 MB. E_MISSING for status 404, E_AUTH for 401 and 403,
 * E_IO for all else that is not 200. */
enum status download_text(const struct download *d, const char *url, struct buf *out,
			  struct fail *fail) MUST_USE;

/* Fetches into path.incomplete, continuing after the bytes that are there, and renames it when
 * its size and digest are right. After five attempts in a row without a new byte it gives up.
 * E_FORMAT: the digest is wrong, and the file is removed. E_IO: also if another process is
 * fetching the same file. */
enum status download_file(const struct download *d, const struct download_file *f,
			  struct fail *fail) MUST_USE;
