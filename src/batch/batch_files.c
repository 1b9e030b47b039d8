/* SPDX-License-Identifier: Apache-2.0
 *
 * A file is written as ID.part, then its ID.json, and then gets its name. So an ID.json without the
 * file means that its ID.part is whole, or that a batch's answers are about to become it.
 */
#include "batch/batch_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "batch/batch_store_private.h"

#define PREFIX "file-"

/* --- in memory -------------------------------------------------------------------- */

/* By time; two of one microsecond by their ids. */
static bool is_before(const struct batch_file *a, const struct batch_file *b)
{
	return a->created_us != b->created_us ? a->created_us < b->created_us
					      : strcmp(a->id, b->id) < 0;
}

static void insert_file(struct batch_store *s, const struct batch_file *f)
{
	int i = s->n_files;
	s->files = xrealloc(s->files, (size_t)(i + 1) * sizeof *s->files);
	for (; i > 0 && is_before(f, s->files[i - 1]); i--)
		s->files[i] = s->files[i - 1];
	s->files[i] = xmalloc(sizeof *f);
	*s->files[i] = *f;
	s->n_files++;
}

/* Is it too old? The next sweep removes it. */
static bool is_over(const struct batch_store *s, const struct batch_file *f)
{
	return f->expires_s && f->expires_s <= batch_store_now_us() / 1000000 &&
	       !batch_records_use(s, f->id);
}

static int find_file(const struct batch_store *s, uint64_t owner, struct str id)
{
	for (int i = 0; i < s->n_files; i++)
		if (s->files[i]->owner == owner && str_is(id, s->files[i]->id))
			return is_over(s, s->files[i]) ? -1 : i;
	return -1;
}

struct batch_file *batch_files_find(const struct batch_store *s, uint64_t owner, struct str id)
{
	int i = find_file(s, owner, id);
	return i < 0 ? NULL : s->files[i];
}

void batch_files_make_id(char out[BATCH_ID])
{
	batch_store_make_id(PREFIX, out);
}

void batch_files_drop(struct batch_store *s, int i)
{
	struct batch_file *f = s->files[i];
	/* The bytes of a file that is open stay when its name goes. To free many takes the disk
	 * long, and the event loop would wait. */
	int fd = s->n_gone < BATCH_GONE
		? openat(s->files_fd, f->id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	unlinkat(s->files_fd, batch_store_path(f->id, ".json").text, 0);
	unlinkat(s->files_fd, f->id, 0);
	if (fd >= 0)
		s->gone[s->n_gone++] = fd;
	s->n_bytes -= f->n_bytes;
	memmove(&s->files[i], &s->files[i + 1],
		(size_t)(--s->n_files - i) * sizeof *s->files);
	free(f);
}

static enum status fail_missing(struct str id, struct fail *fail)
{
	return fail_set(fail, E_NOT_FOUND, "there is no file %.*s", (int)MIN(id.n, 60), id.p);
}

/* --- on the disk ------------------------------------------------------------------ */

static void add_record(const struct batch_file *f, struct buf *out)
{
	buf_addf(out, "{\"owner\":\"%016llx\",\"bytes\":%lld,\"created_us\":%lld,"
		 "\"expires_at\":%lld,\"is_output\":%d,\"filename\":",
		 (unsigned long long)f->owner, (long long)f->n_bytes, (long long)f->created_us,
		 (long long)f->expires_s, f->is_output);
	buf_add_json(out, str_of(f->name));
	buf_add_z(out, "}\n");
}

static bool load_one(struct batch_store *s, const char *id, const json_t *o)
{
	struct batch_file f = {.n_bytes = 0};
	struct batch_path part = batch_store_path(id, ".part");
	int64_t is_output = 0;
	struct stat st;
	/* An upload that was killed between its record and its name. */
	(void)!renameat(s->files_fd, part.text, s->files_fd, id);
	bool is_fine = batch_store_get_owner(o, &f.owner) &&
		       batch_store_get_int(o, "bytes", &f.n_bytes) &&
		       batch_store_get_int(o, "created_us", &f.created_us) &&
		       batch_store_get_int(o, "expires_at", &f.expires_s) &&
		       batch_store_get_int(o, "is_output", &is_output) &&
		       batch_store_get_text(o, "filename", f.name, sizeof f.name);
	if (!is_fine)
		return false;
	snprintf(f.id, sizeof f.id, "%s", id);
	f.is_output = is_output;
	if (fstatat(s->files_fd, id, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return f.is_output; /* its batch goes on with it */
	if (!S_ISREG(st.st_mode) || st.st_size != f.n_bytes)
		return false;
	insert_file(s, &f);
	s->n_bytes += f.n_bytes;
	return true;
}

void batch_files_load(struct batch_store *s)
{
	batch_store_each(s, s->files_fd, "files", PREFIX, load_one);
	batch_store_clean(s->files_fd, PREFIX);
}

/* Writes the record of a file whose bytes are there as `from`, and gives them its name. */
static enum status name_file(struct batch_store *s, const struct batch_file *f, int from_fd,
			     const char *from, struct fail *fail)
{
	struct batch_path record = batch_store_path(f->id, ".json");
	struct batch_path beside = batch_store_path(f->id, ".json.part");
	struct buf text = {0};
	add_record(f, &text);
	enum status st = batch_store_put(s, s->files_fd, beside.text, buf_str(&text), fail);
	if (st == OK)
		st = batch_store_rename(s, s->files_fd, beside.text, s->files_fd, record.text,
					fail);
	if (st == OK && renameat(from_fd, from, s->files_fd, f->id) != 0)
		st = batch_store_fail(s, "rename", from, errno, fail);
	buf_deinit(&text);
	return st;
}

/* --- calls ------------------------------------------------------------------------ */

/* Claims room. E_LIMIT: nothing is claimed. */
static enum status claim(struct batch_store *s, int64_t n, struct fail *fail)
{
	enum status st = OK;
	pthread_mutex_lock(&s->lock);
	if (s->n_files + s->n_coming >= s->o.max_files)
		st = fail_set(fail, E_LIMIT, "%d files are kept, and no more may be (max_files): "
			      "delete some", s->o.max_files);
	else if (n > s->o.max_bytes - s->n_bytes)
		st = fail_set(fail, E_LIMIT, "the files that are kept have %lld bytes, with these "
			      "%lld more than %lld (max_files_bytes): delete some",
			      (long long)s->n_bytes, (long long)n, (long long)s->o.max_bytes);
	if (st == OK) {
		s->n_coming++;
		s->n_bytes += n;
	}
	pthread_mutex_unlock(&s->lock);
	return st;
}

/* Both times come of one look at the clock. */
static void begin_life(const struct batch_store *s, struct batch_file *f)
{
	int64_t age_s = f->age_s ? f->age_s : s->o.max_age_s;
	f->created_us = batch_store_now_us();
	f->expires_s = age_s ? f->created_us / 1000000 + age_s : 0;
}

enum status batch_files_add(struct batch_store *s, const struct batch_file *about,
			    struct str bytes, struct batch_file *out, struct fail *fail)
{
	*out = *about;
	out->n_bytes = (int64_t)bytes.n;
	begin_life(s, out);
	batch_store_make_id(PREFIX, out->id);
	enum status st = claim(s, out->n_bytes, fail);
	if (st != OK)
		return st;
	struct batch_path part = batch_store_path(out->id, ".part");
	st = batch_store_put(s, s->files_fd, part.text, bytes, fail);
	if (st == OK)
		st = name_file(s, out, s->files_fd, part.text, fail);
	if (st != OK) { /* an incomplete record would be named as damaged */
		unlinkat(s->files_fd, part.text, 0);
		unlinkat(s->files_fd, batch_store_path(out->id, ".json").text, 0);
	}
	pthread_mutex_lock(&s->lock);
	s->n_coming--;
	if (st == OK)
		insert_file(s, out);
	else
		s->n_bytes -= out->n_bytes;
	batch_store_count(s);
	pthread_mutex_unlock(&s->lock);
	return st;
}

enum status batch_files_get(struct batch_store *s, uint64_t owner, struct str id,
			    struct batch_file *out, struct fail *fail)
{
	pthread_mutex_lock(&s->lock);
	const struct batch_file *f = batch_files_find(s, owner, id);
	if (f)
		*out = *f;
	pthread_mutex_unlock(&s->lock);
	return f ? OK : fail_missing(id, fail);
}

enum status batch_files_open(struct batch_store *s, uint64_t owner, struct str id, int *out_fd,
			     struct batch_file *out, struct fail *fail)
{
	enum status st = batch_files_get(s, owner, id, out, fail);
	if (st != OK)
		return st;
	*out_fd = openat(s->files_fd, out->id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return *out_fd >= 0 ? OK : batch_store_fail(s, "open", out->id, errno, fail);
}

enum status batch_files_delete(struct batch_store *s, uint64_t owner, struct str id,
			       struct fail *fail)
{
	enum status st = OK;
	pthread_mutex_lock(&s->lock);
	int i = find_file(s, owner, id);
	if (i < 0)
		st = fail_missing(id, fail);
	else if (batch_records_use(s, s->files[i]->id))
		st = fail_set(fail, E_INVAL, "a batch that has not ended reads file %s: cancel it "
			      "first", s->files[i]->id);
	else
		batch_files_drop(s, i);
	batch_store_count(s);
	if (st == OK && s->on_work)
		s->on_work(s->ctx);
	bool is_told = s->on_work;
	pthread_mutex_unlock(&s->lock);
	if (!is_told)
		batch_store_free_gone(s);
	return st;
}

enum status batch_files_adopt(struct batch_store *s, const struct batch_file *about,
			      const char *from, struct fail *fail)
{
	struct batch_file f = *about;
	struct stat st;
	if (fstatat(s->batches_fd, from, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno != ENOENT)
			return batch_store_fail(s, "read", from, errno, fail);
		if (faccessat(s->files_fd, f.id, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
			log_error("state_dir %s: batches/%s, the answers of a batch, is gone",
				  s->dir, from);
		return OK;
	}
	f.n_bytes = st.st_size;
	f.is_output = true;
	begin_life(s, &f);
	enum status status = name_file(s, &f, s->batches_fd, from, fail);
	if (status != OK)
		return status;
	pthread_mutex_lock(&s->lock);
	insert_file(s, &f);
	s->n_bytes += f.n_bytes;
	batch_store_count(s);
	pthread_mutex_unlock(&s->lock);
	return OK;
}

/* --- as the API has them ---------------------------------------------------------- */

void batch_files_format(const struct batch_file *f, struct buf *out)
{
	buf_addf(out, "{\"id\":\"%s\",\"object\":\"file\",\"bytes\":%lld,\"created_at\":%lld,"
		 "\"expires_at\":", f->id, (long long)f->n_bytes,
		 (long long)(f->created_us / 1000000));
	if (f->expires_s)
		buf_addf(out, "%lld", (long long)f->expires_s);
	else
		buf_add_z(out, "null");
	buf_add_z(out, ",\"filename\":");
	buf_add_json(out, str_of(f->name));
	buf_addf(out, ",\"purpose\":\"%s\",\"status\":\"processed\",\"status_details\":null}",
		 f->is_output ? "batch_output" : "batch");
}

static const char *look(const struct batch_store *s, int i, const struct batch_page *page)
{
	const struct batch_file *f = s->files[i];
	bool is_wanted = page->purpose.n == 0 ||
			 str_is(page->purpose, f->is_output ? "batch_output" : "batch");
	return f->owner == page->owner && is_wanted && !is_over(s, f) ? f->id : NULL;
}

static void add_file(const struct batch_store *s, int i, struct buf *out)
{
	batch_files_format(s->files[i], out);
}

void batch_files_list(struct batch_store *s, const struct batch_page *page, struct buf *out)
{
	static const struct batch_lister lister = {look, add_file};
	pthread_mutex_lock(&s->lock);
	batch_store_list(s, s->n_files, &lister, page, out);
	pthread_mutex_unlock(&s->lock);
}
