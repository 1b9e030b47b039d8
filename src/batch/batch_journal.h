/* SPDX-License-Identifier: Apache-2.0
 *
 * The answers of a batch that runs: two files that become its output and its errors. They are also
 * what tells, after a restart, which requests are answered: each line begins with the number of the
 * line that it answers. A line that is not whole is cut off, and its request is computed again. So
 * no request has two answers. Thread: one.
 */
#pragma once
#include "batch/batch_records.h"

struct batch_journal;

/* Opens or makes both files, and reads what is answered. E_IO. */
enum status batch_journal_open(struct batch_store *s, const struct batch *b,
			       struct batch_journal **out, struct fail *fail) MUST_USE;
void batch_journal_close(struct batch_journal *j); /* NULL is fine */
/* Is the request of this line of the input answered? Lines count from 1. */
bool batch_journal_has(const struct batch_journal *j, int line);
int batch_journal_completed(const struct batch_journal *j);
int batch_journal_failed(const struct batch_journal *j);
/* Writes the id of the answer to a line: "batch_req_…", for `id` of the object and for logs. */
enum { BATCH_REQUEST_ID = 64 };
void batch_journal_id(const struct batch_journal *j, int line, char out[BATCH_REQUEST_ID]);
/* Adds the answer to a line: a JSON object on one line, from {"id":"ID" on, without the line's end.
 * E_IO: nothing was added. */
enum status batch_journal_add(struct batch_journal *j, int line, bool is_failure, struct str text,
			      struct fail *fail) MUST_USE;
/* Waits until the disk has all of it. */
enum status batch_journal_sync(struct batch_journal *j, struct fail *fail) MUST_USE;
/* The names of the two files within the folder of batches, for batch_files_adopt. */
void batch_journal_name(const char *id, bool is_failure, char out[BATCH_ID + 16]);
void batch_journal_remove(const struct batch_store *s, const char *id);
