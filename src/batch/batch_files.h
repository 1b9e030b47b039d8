/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of clients: what batches read, and what they have answered. Thread: any.
 */
#pragma once
#include "batch/batch_store.h"

enum { BATCH_FILE_NAME = 256 };

struct batch_file {
	char id[BATCH_ID];         /* "file-" and 24 digits */
	char name[BATCH_FILE_NAME]; /* as its client calls it */
	uint64_t owner;
	int64_t n_bytes;
	int64_t created_us;        /* since 1970 */
	int64_t age_s;             /* how long it is kept; 0: as max_age_s says */
	int64_t expires_s;         /* since 1970; 0: never */
	bool is_output;            /* a batch has made it */
};

/* Keeps the bytes. Of *about owner, name and age_s are read; *out is all of it. E_LIMIT: too many
 * files or bytes are kept. E_IO: the disk does not take them. */
enum status batch_files_add(struct batch_store *s, const struct batch_file *about,
			    struct str bytes, struct batch_file *out, struct fail *fail) MUST_USE;
/* E_NOT_FOUND. */
enum status batch_files_get(struct batch_store *s, uint64_t owner, struct str id,
			    struct batch_file *out, struct fail *fail) MUST_USE;
/* Opens the bytes for reading; the caller closes *out_fd. */
enum status batch_files_open(struct batch_store *s, uint64_t owner, struct str id, int *out_fd,
			     struct batch_file *out, struct fail *fail) MUST_USE;
/* E_INVAL: a batch that has not ended reads it. */
enum status batch_files_delete(struct batch_store *s, uint64_t owner, struct str id,
			       struct fail *fail) MUST_USE;
void batch_files_make_id(char out[BATCH_ID]);
/* Takes over a file of the folder of batches under this id, if it is still there. May be repeated
 * after a failure, or by another process. */
enum status batch_files_adopt(struct batch_store *s, const struct batch_file *about,
			      const char *from, struct fail *fail) MUST_USE;

/* Appends the object of OpenAI's API, or the list of a page. */
void batch_files_format(const struct batch_file *f, struct buf *out);
void batch_files_list(struct batch_store *s, const struct batch_page *page, struct buf *out);
