/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder `state_dir`, with the files and batches of clients. Memory holds the same, but for
 * the files' contents. Thread: any.
 *
 *   files/file-ID                       the bytes
 *   files/file-ID.json                  what is known of them
 *   batches/batch_ID.json               the batch
 *   batches/batch_ID.output, .errors    its answers while it runs
 *   lock                                held by the process
 *
 * A file's bytes are written before its .json. Each .json is written under another name, then
 * renamed. So after a kill a file is whole, or it is not there. The log names a .json that cannot
 * be read. That file stays.
 *
 * The owner is the id of the API key that made it; 0 where there are no keys. Other keys do not
 * find it.
 */
#pragma once
#include "base/buf.h"

struct batch_store;

struct batch_store_opts {
	const char *dir;      /* made where it is missing; its folder must be there */
	int max_files;        /* files, and batches, at most */
	int64_t max_bytes;    /* of all files together; answers of batches may exceed it */
	int64_t max_age_s;    /* of files and of batches that have ended; 0: for ever */
	int64_t max_window_s; /* the longest completion_window of a batch */
};

/* E_CONFIG: the folder cannot be used, or others may write to it. */
enum status batch_store_check(const char *dir, struct fail *fail) MUST_USE;
/* E_CONFIG also where another process holds the folder. */
enum status batch_store_open(const struct batch_store_opts *o, struct batch_store **out,
			     struct fail *fail) MUST_USE;
void batch_store_close(struct batch_store *s); /* NULL is fine */
/* Sets who is told, on any thread, that a batch was made or cancelled, or a file removed. NULL:
 * nobody. */
void batch_store_on_work(struct batch_store *s, void (*fn)(void *ctx), void *ctx);
/* Frees the bytes of files that were removed. That may take the disk long, and for others the lock
 * is free meanwhile. Whoever is told of work calls it. */
void batch_store_free_gone(struct batch_store *s);
int64_t batch_store_max_window_s(const struct batch_store *s);
/* Removes what is older than it may become. Returns when to come again, in seconds since 1970. */
int64_t batch_store_sweep(struct batch_store *s, int64_t now_s);

enum { BATCH_ID = 40 };

/* Which items of a list are wanted, and in what order. */
struct batch_page {
	uint64_t owner;
	struct str after;   /* the id behind which it begins; "": at the start */
	struct str purpose; /* of files; "": any */
	int limit;
	bool is_rising;     /* the oldest first */
};
