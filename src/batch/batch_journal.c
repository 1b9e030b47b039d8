/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/batch_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "batch/batch_store_private.h"

enum { COMPLETED, FAILED, KINDS };

static const char *const suffixes[] = {[COMPLETED] = ".output", [FAILED] = ".errors"};

struct answers {
	int fd;
	int64_t n_bytes;
	int n; /* lines */
	bool is_torn; /* half an answer stands at its end */
};

struct batch_journal {
	struct batch_store *store;
	char id[BATCH_ID];
	struct answers kinds[KINDS];
	unsigned char *done; /* a bit for each line */
	int n_lines;         /* bits of it */
};

static struct batch_path name_of(const char *id, int kind)
{
	return batch_store_path(id, suffixes[kind]);
}

void batch_journal_name(const char *id, bool is_failure, char out[BATCH_ID + 16])
{
	snprintf(out, BATCH_ID + 16, "%s", name_of(id, is_failure ? FAILED : COMPLETED).text);
}

void batch_journal_remove(const struct batch_store *s, const char *id)
{
	for (int k = 0; k < KINDS; k++)
		unlinkat(s->batches_fd, name_of(id, k).text, 0);
}

void batch_journal_id(const struct batch_journal *j, int line, char out[BATCH_REQUEST_ID])
{
	snprintf(out, BATCH_REQUEST_ID, "batch_req_%s_%d", j->id + strlen("batch_"), line);
}

bool batch_journal_has(const struct batch_journal *j, int line)
{
	return line < j->n_lines && j->done[line / 8] & 1u << line % 8;
}

static void set_done(struct batch_journal *j, int line)
{
	if (line >= j->n_lines) {
		int n = ROUND_UP(MAX(line + 1, 2 * j->n_lines), 8);
		j->done = xrealloc(j->done, (size_t)n / 8);
		memset(j->done + j->n_lines / 8, 0, (size_t)(n - j->n_lines) / 8);
		j->n_lines = n;
	}
	j->done[line / 8] |= (unsigned char)(1u << line % 8);
}

int batch_journal_completed(const struct batch_journal *j) { return j->kinds[COMPLETED].n; }
int batch_journal_failed(const struct batch_journal *j) { return j->kinds[FAILED].n; }

/* --- reading ---------------------------------------------------------------------- */

/* The line that this whole line answers; 0: it is none of this journal. */
static int line_of(const struct batch_journal *j, const char *text)
{
	char want[BATCH_REQUEST_ID + 16];
	int n = snprintf(want, sizeof want, "{\"id\":\"batch_req_%s_", j->id + strlen("batch_"));
	char *end;
	if (strncmp(text, want, (size_t)n) != 0 || !is_char_of(text[n], "123456789"))
		return 0;
	long line = strtol(text + n, &end, 10);
	return *end == '"' && line <= INT32_MAX / 2 ? (int)line : 0;
}

/* Reads the answers that are whole, and cuts off what is behind them. */
static enum status read_answers(struct batch_journal *j, int kind, struct fail *fail)
{
	struct answers *a = &j->kinds[kind];
	const char *name = suffixes[kind];
	int fd = dup(a->fd);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char *text = NULL;
	size_t cap = 0;
	struct stat st;
	if (!f)
		return batch_store_fail(j->store, "read", name, errno, fail);
	rewind(f);
	for (ssize_t n; (n = getline(&text, &cap, f)) > 0;) {
		int line = text[n - 1] == '\n' ? line_of(j, text) : 0;
		if (!line || batch_journal_has(j, line) || text[n - 2] != '}')
			break;
		set_done(j, line);
		a->n++;
		a->n_bytes += n;
	}
	bool is_read = !ferror(f);
	free(text);
	fclose(f);
	if (!is_read || fstat(a->fd, &st) != 0)
		return batch_store_fail(j->store, "read", name, errno, fail);
	if (st.st_size == a->n_bytes)
		return OK;
	log_warn("batch %s: %" PRId64 " bytes at the end of its %s are not whole answers: they are "
		 "cut off, and those requests are computed again", j->id,
		 (int64_t)st.st_size - a->n_bytes, kind == FAILED ? "errors" : "output");
	return ftruncate(a->fd, a->n_bytes) == 0
		       ? OK : batch_store_fail(j->store, "cut", name, errno, fail);
}

enum status batch_journal_open(struct batch_store *s, const struct batch *b,
			       struct batch_journal **out, struct fail *fail)
{
	struct batch_journal *j = xcalloc(1, sizeof *j);
	enum status st = OK;
	j->store = s;
	snprintf(j->id, sizeof j->id, "%s", b->id);
	for (int k = 0; k < KINDS; k++)
		j->kinds[k].fd = -1;
	for (int k = 0; st == OK && k < KINDS; k++) {
		struct batch_path name = name_of(b->id, k);
		j->kinds[k].fd = openat(s->batches_fd, name.text,
					O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
		st = j->kinds[k].fd < 0 ? batch_store_fail(s, "make", name.text, errno, fail)
					: read_answers(j, k, fail);
	}
	if (st == OK)
		*out = j;
	else
		batch_journal_close(j);
	return st;
}

void batch_journal_close(struct batch_journal *j)
{
	if (!j)
		return;
	for (int k = 0; k < KINDS; k++)
		if (j->kinds[k].fd >= 0)
			close(j->kinds[k].fd);
	free(j->done);
	free(j);
}

/* --- writing ---------------------------------------------------------------------- */

enum status batch_journal_add(struct batch_journal *j, int line, bool is_failure, struct str text,
			      struct fail *fail)
{
	struct answers *a = &j->kinds[is_failure ? FAILED : COMPLETED];
	struct buf b = {0};
	buf_add_str(&b, text);
	buf_add_c(&b, '\n');
	bool is_cut = !a->is_torn || ftruncate(a->fd, a->n_bytes) == 0;
	bool is_whole = is_cut && file_write_all(a->fd, buf_str(&b));
	int why = errno;
	size_t n_all = b.n;
	buf_deinit(&b);
	a->is_torn = !is_cut || (!is_whole && ftruncate(a->fd, a->n_bytes) != 0);
	if (!is_whole)
		return batch_store_fail(j->store, "write", name_of(j->id, is_failure).text, why,
					fail);
	a->n_bytes += (int64_t)n_all;
	a->n++;
	set_done(j, line);
	return OK;
}

enum status batch_journal_sync(struct batch_journal *j, struct fail *fail)
{
	for (int k = 0; k < KINDS; k++)
		if (fdatasync(j->kinds[k].fd) != 0)
			return batch_store_fail(j->store, "write", suffixes[k], errno, fail);
	return OK;
}
