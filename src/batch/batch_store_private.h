/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this folder share. The lock guards all members but the first line's.
 */
#pragma once
#include <jansson.h>
#include <pthread.h>

#include "batch/batch_files.h"
#include "batch/batch_records.h"
#include "batch/batch_store.h"

enum { BATCH_GONE = 32 };

struct batch_store {
	struct batch_store_opts o;
	char *dir;
	int files_fd, batches_fd, lock_fd;
	pthread_mutex_t lock; /* names change with it; nobody writes or syncs bytes with it */
	struct batch_file **files; /* [n_files] the oldest first */
	int n_files;
	int n_coming;              /* files that are being written */
	int64_t n_bytes;           /* of the files, those too */
	struct batch **batches;    /* [n_batches] the oldest first */
	int n_batches;
	int gone[BATCH_GONE]; /* [n_gone] files without a name, whose bytes are not yet freed */
	int n_gone;
	void (*on_work)(void *ctx);
	void *ctx;
};

struct batch_path { char text[BATCH_ID + 16]; }; /* of a folder: "ID.json" */
struct batch_path batch_store_path(const char *id, const char *suffix);
/* Writes all of a file and waits until the disk has it. E_IO: what is there of it is removed. */
enum status batch_store_put(const struct batch_store *s, int dir_fd, const char *name,
			    struct str bytes, struct fail *fail) MUST_USE;
/* Gives it its name, in place of what had that name. Does not wait for the disk. */
enum status batch_store_rename(const struct batch_store *s, int from_fd, const char *from,
			       int to_fd, const char *to, struct fail *fail) MUST_USE;
/* Fails with E_IO: "state_dir DIR: cannot WHAT NAME: reason". Counts it. */
enum status batch_store_fail(const struct batch_store *s, const char *what, const char *name,
			     int why, struct fail *fail);
int64_t batch_store_now_us(void); /* since 1970 */
void batch_store_make_id(const char *prefix, char out[BATCH_ID]);
/* Calls fn with each ID.json of the folder. One that cannot be read is named in the log. */
void batch_store_each(struct batch_store *s, int dir_fd, const char *folder, const char *prefix,
		      bool (*fn)(struct batch_store *s, const char *id, const json_t *o));
/* Removes what a process was writing, or removing, when it was killed: all NAME.part, and what
 * belongs to an ID without its .json. */
void batch_store_clean(int dir_fd, const char *prefix);
/* Members of a .json. False: of another type, or too long. An absent one changes nothing. */
bool batch_store_get_int(const json_t *o, const char *key, int64_t *io);
bool batch_store_get_text(const json_t *o, const char *key, char *out, size_t size);
bool batch_store_get_owner(const json_t *o, uint64_t *out);
/* The items of a page, of [0..n) in the order of time. `look` says an item's id, and whether it may
 * be shown; `add` appends it. */
struct batch_lister {
	const char *(*look)(const struct batch_store *s, int i, const struct batch_page *page);
	void (*add)(const struct batch_store *s, int i, struct buf *out);
};
void batch_store_list(const struct batch_store *s, int n, const struct batch_lister *l,
		      const struct batch_page *page, struct buf *out);
void batch_store_count(const struct batch_store *s); /* metrics; with the lock held */
/* Batches that have not ended, and their requests that are not answered; with the lock held. */
void batch_records_count(const struct batch_store *s, int *out_batches, int64_t *out_requests);

/* Read the folders at the start. */
void batch_files_load(struct batch_store *s);
void batch_records_load(struct batch_store *s);
/* With the lock held: */
struct batch_file *batch_files_find(const struct batch_store *s, uint64_t owner, struct str id);
/* The file loses its name, too; its bytes are freed by batch_store_free_gone. */
void batch_files_drop(struct batch_store *s, int i);
bool batch_records_use(const struct batch_store *s, const char *file_id);
void batch_records_sweep(struct batch_store *s, int64_t now_s, int64_t *io_next_s);
