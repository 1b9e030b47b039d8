/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/batch_records.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "batch/batch_journal.h"
#include "batch/batch_store_private.h"

#define PREFIX "batch_"
#define OPEN (1u << BATCH_VALIDATING | 1u << BATCH_IN_PROGRESS | 1u << BATCH_FINALIZING | \
	      1u << BATCH_CANCELLING)

static const char *const names[] = {
#define X(id, name) [BATCH_##id] = name,
	BATCH_STATES(X)
#undef X
};

static bool is_open(const struct batch *b)
{
	return OPEN & 1u << b->state;
}

/* --- in memory -------------------------------------------------------------------- */

static bool is_before(const struct batch *a, const struct batch *b)
{
	return a->created_us != b->created_us ? a->created_us < b->created_us
					      : strcmp(a->id, b->id) < 0;
}

/* Takes over the texts of *b. */
static void insert_batch(struct batch_store *s, const struct batch *b)
{
	int i = s->n_batches;
	s->batches = xrealloc(s->batches, (size_t)(i + 1) * sizeof *s->batches);
	for (; i > 0 && is_before(b, s->batches[i - 1]); i--)
		s->batches[i] = s->batches[i - 1];
	s->batches[i] = xmalloc(sizeof *b);
	*s->batches[i] = *b;
	s->n_batches++;
}

static int find_batch(const struct batch_store *s, struct str id)
{
	for (int i = 0; i < s->n_batches; i++)
		if (str_is(id, s->batches[i]->id))
			return i;
	return -1;
}

static struct batch *find_own(const struct batch_store *s, uint64_t owner, struct str id)
{
	int i = find_batch(s, id);
	return i >= 0 && s->batches[i]->owner == owner ? s->batches[i] : NULL;
}

bool batch_records_use(const struct batch_store *s, const char *file_id)
{
	for (int i = 0; i < s->n_batches; i++)
		if (is_open(s->batches[i]) && strcmp(s->batches[i]->input, file_id) == 0)
			return true;
	return false;
}

static void drop_batch(struct batch_store *s, int i)
{
	struct batch *b = s->batches[i];
	unlinkat(s->batches_fd, batch_store_path(b->id, ".json").text, 0);
	memmove(&s->batches[i], &s->batches[i + 1],
		(size_t)(--s->n_batches - i) * sizeof *s->batches);
	free(b->metadata);
	free(b->faults);
	free(b);
}

/* Makes room: the oldest batch of this owner that has ended. */
static void drop_ended(struct batch_store *s, uint64_t owner)
{
	for (int i = 0; i < s->n_batches; i++)
		if (s->batches[i]->owner == owner && !is_open(s->batches[i])) {
			drop_batch(s, i);
			return;
		}
}

void batch_records_sweep(struct batch_store *s, int64_t now_s, int64_t *io_next_s)
{
	for (int i = s->n_batches - 1; i >= 0; i--) {
		const struct batch *b = s->batches[i];
		int64_t end_s = b->at_s[b->state] + s->o.max_age_s;
		if (is_open(b) || !s->o.max_age_s)
			continue;
		if (end_s <= now_s)
			drop_batch(s, i);
		else
			*io_next_s = MIN(*io_next_s, end_s);
	}
}

/* --- as text ---------------------------------------------------------------------- */

static void add_text(struct buf *out, const char *name, const char *text)
{
	buf_addf(out, ",\"%s\":", name);
	if (text[0])
		buf_add_json(out, str_of(text));
	else
		buf_add_z(out, "null");
}

static void add_time(struct buf *out, const char *name, int64_t s)
{
	buf_addf(out, ",\"%s_at\":", name);
	if (s)
		buf_addf(out, "%lld", (long long)s);
	else
		buf_add_z(out, "null");
}

/* Without the last brace. */
static void add_batch(const struct batch *b, struct buf *out)
{
	buf_addf(out, "{\"id\":\"%s\",\"object\":\"batch\",\"endpoint\":\"%s\",\"errors\":", b->id,
		 b->endpoint);
	if (b->faults)
		buf_addf(out, "{\"object\":\"list\",\"data\":%s}", b->faults);
	else
		buf_add_z(out, "null");
	add_text(out, "input_file_id", b->input);
	add_text(out, "model", b->model);
	add_text(out, "completion_window", b->window);
	add_text(out, "status", names[b->state]);
	add_text(out, "output_file_id", b->output);
	add_text(out, "error_file_id", b->errors);
	buf_addf(out, ",\"created_at\":%lld", (long long)(b->created_us / 1000000));
	add_time(out, "expires", b->expires_s);
	for (int i = BATCH_FAILED; i < BATCH_STATE_COUNT; i++)
		add_time(out, names[i], b->at_s[i]);
	buf_addf(out, ",\"request_counts\":{\"total\":%d,\"completed\":%d,\"failed\":%d}"
		 ",\"metadata\":%s", b->n_total, b->n_completed, b->n_failed,
		 b->metadata ? b->metadata : "null");
}

static void add_record(const struct batch *b, struct buf *out)
{
	add_batch(b, out);
	buf_addf(out, ",\"owner\":\"%016llx\",\"created_us\":%lld,\"output_age\":%lld}\n",
		 (unsigned long long)b->owner, (long long)b->created_us,
		 (long long)b->output_age_s);
}

static void batch_format(const struct batch *b, struct buf *out)
{
	add_batch(b, out);
	buf_add_c(out, '}');
}

/* --- on the disk ------------------------------------------------------------------ */

static char *dump(const json_t *v)
{
	return v && !json_is_null(v) ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
}

static bool read_state(const json_t *o, struct batch *b)
{
	char name[16] = "", key[20];
	bool is_fine = batch_store_get_text(o, "status", name, sizeof name);
	b->state = BATCH_STATE_COUNT;
	for (int i = 0; i < BATCH_STATE_COUNT; i++) {
		snprintf(key, sizeof key, "%s_at", names[i]);
		is_fine &= batch_store_get_int(o, key, &b->at_s[i]);
		if (strcmp(names[i], name) == 0)
			b->state = (enum batch_state)i;
	}
	return is_fine && b->state < BATCH_STATE_COUNT;
}

static bool read_counts(const json_t *o, struct batch *b)
{
	int64_t total = 0, completed = 0, failed = 0;
	bool is_fine = batch_store_get_int(o, "total", &total) &&
		       batch_store_get_int(o, "completed", &completed) &&
		       batch_store_get_int(o, "failed", &failed) && total <= INT32_MAX &&
		       completed <= INT32_MAX && failed <= INT32_MAX;
	b->n_total = (int)total;
	b->n_completed = (int)completed;
	b->n_failed = (int)failed;
	return is_fine;
}

static bool load_one(struct batch_store *s, const char *id, const json_t *o)
{
	struct batch b = {.owner = 0};
	bool is_fine = batch_store_get_owner(o, &b.owner) && read_state(o, &b) &&
		       read_counts(json_object_get(o, "request_counts"), &b) &&
		       batch_store_get_int(o, "created_us", &b.created_us) &&
		       batch_store_get_int(o, "expires_at", &b.expires_s) &&
		       batch_store_get_int(o, "output_age", &b.output_age_s) &&
		       batch_store_get_text(o, "endpoint", b.endpoint, sizeof b.endpoint) &&
		       batch_store_get_text(o, "model", b.model, sizeof b.model) &&
		       batch_store_get_text(o, "completion_window", b.window, sizeof b.window) &&
		       batch_store_get_text(o, "input_file_id", b.input, sizeof b.input) &&
		       batch_store_get_text(o, "output_file_id", b.output, sizeof b.output) &&
		       batch_store_get_text(o, "error_file_id", b.errors, sizeof b.errors);
	if (!is_fine)
		return false;
	snprintf(b.id, sizeof b.id, "%s", id);
	b.metadata = dump(json_object_get(o, "metadata"));
	b.faults = dump(json_object_get(json_object_get(o, "errors"), "data"));
	insert_batch(s, &b);
	return true;
}

void batch_records_load(struct batch_store *s)
{
	batch_store_clean(s->batches_fd, PREFIX);
	batch_store_each(s, s->batches_fd, "batches", PREFIX, load_one);
	for (int i = 0; i < s->n_batches; i++)
		if (!is_open(s->batches[i]))
			batch_journal_remove(s, s->batches[i]->id);
}

/* Writes the record beside, for `commit`. Two threads may write one at a time: *out_part. */
static enum status write_beside(struct batch_store *s, const struct batch *b,
				struct batch_path *out_part, struct fail *fail)
{
	static _Atomic unsigned n_made;
	char end[16];
	struct buf text = {0};
	snprintf(end, sizeof end, ".%08x.part", ++n_made);
	*out_part = batch_store_path(b->id, end);
	add_record(b, &text);
	enum status st = batch_store_put(s, s->batches_fd, out_part->text, buf_str(&text), fail);
	buf_deinit(&text);
	return st;
}

static enum status commit(struct batch_store *s, const struct batch *b,
			  const struct batch_path *part, struct fail *fail)
{
	return batch_store_rename(s, s->batches_fd, part->text, s->batches_fd,
				  batch_store_path(b->id, ".json").text, fail);
}

/* --- calls ------------------------------------------------------------------------ */

/* Tells the runner; with the lock held. */
static void tell_runner(const struct batch_store *s)
{
	if (s->on_work)
		s->on_work(s->ctx);
}

static enum status fail_missing(struct str id, struct fail *fail)
{
	return fail_set(fail, E_NOT_FOUND, "there is no batch %.*s", (int)MIN(id.n, 60), id.p);
}

enum status batch_records_create(struct batch_store *s, const struct batch *about,
				 int64_t window_s, struct buf *out, struct fail *fail)
{
	struct batch b = *about;
	struct batch_path part;
	b.created_us = batch_store_now_us();
	b.at_s[BATCH_VALIDATING] = b.created_us / 1000000;
	b.expires_s = b.at_s[BATCH_VALIDATING] + window_s;
	b.state = BATCH_VALIDATING;
	batch_store_make_id(PREFIX, b.id);
	enum status st = write_beside(s, &b, &part, fail);
	if (st != OK)
		return st;
	pthread_mutex_lock(&s->lock);
	if (s->n_batches >= s->o.max_files)
		drop_ended(s, b.owner);
	if (s->n_batches >= s->o.max_files)
		st = fail_set(fail, E_LIMIT, "%d batches are kept, and no more may be (max_files)",
			      s->o.max_files);
	else if (!batch_files_find(s, b.owner, str_of(b.input)))
		st = fail_set(fail, E_INVAL, "there is no file %s", b.input);
	if (st != OK)
		unlinkat(s->batches_fd, part.text, 0);
	else
		st = commit(s, &b, &part, fail);
	if (st == OK) {
		insert_batch(s, &b);
		batch_store_count(s);
		batch_format(&b, out);
		tell_runner(s);
	}
	pthread_mutex_unlock(&s->lock);
	return st;
}

enum status batch_records_get(struct batch_store *s, uint64_t owner, struct str id,
			      struct buf *out, struct fail *fail)
{
	pthread_mutex_lock(&s->lock);
	const struct batch *b = find_own(s, owner, id);
	if (b)
		batch_format(b, out);
	pthread_mutex_unlock(&s->lock);
	return b ? OK : fail_missing(id, fail);
}

static bool can_cancel(const struct batch *b)
{
	return b->state == BATCH_VALIDATING || b->state == BATCH_IN_PROGRESS;
}

/* Copies what is to be written of a batch that is cancelled now. */
static enum status begin_cancel(struct batch_store *s, uint64_t owner, struct str id,
				struct batch *out, struct fail *fail)
{
	pthread_mutex_lock(&s->lock);
	const struct batch *b = find_own(s, owner, id);
	if (b)
		*out = *b;
	pthread_mutex_unlock(&s->lock);
	if (!b)
		return fail_missing(id, fail);
	if (!can_cancel(out) && out->state != BATCH_CANCELLING)
		return fail_set(fail, E_INVAL, "the batch is %s: it cannot be cancelled",
				names[out->state]);
	return OK;
}

enum status batch_records_cancel(struct batch_store *s, uint64_t owner, struct str id,
				 struct buf *out, struct fail *fail)
{
	struct batch b;
	struct batch_path part;
	enum status st = begin_cancel(s, owner, id, &b, fail);
	if (st != OK)
		return st;
	bool is_new = b.state != BATCH_CANCELLING;
	b.state = BATCH_CANCELLING;
	if (is_new)
		b.at_s[BATCH_CANCELLING] = batch_store_now_us() / 1000000;
	st = is_new ? write_beside(s, &b, &part, fail) : OK;
	if (st != OK)
		return st;
	pthread_mutex_lock(&s->lock);
	struct batch *now = find_own(s, owner, id);
	if (is_new && now && can_cancel(now))
		st = commit(s, &b, &part, fail);
	else if (is_new)
		unlinkat(s->batches_fd, part.text, 0);
	if (st == OK && is_new && now && can_cancel(now)) {
		now->at_s[BATCH_CANCELLING] = b.at_s[BATCH_CANCELLING];
		now->state = BATCH_CANCELLING;
		tell_runner(s);
	}
	if (st == OK && now)
		batch_format(now, out);
	pthread_mutex_unlock(&s->lock);
	return st == OK && !now ? fail_missing(id, fail) : st;
}

static const char *look(const struct batch_store *s, int i, const struct batch_page *page)
{
	return s->batches[i]->owner == page->owner ? s->batches[i]->id : NULL;
}

static void add_item(const struct batch_store *s, int i, struct buf *out)
{
	batch_format(s->batches[i], out);
}

void batch_records_list(struct batch_store *s, const struct batch_page *page, struct buf *out)
{
	static const struct batch_lister lister = {look, add_item};
	pthread_mutex_lock(&s->lock);
	batch_store_list(s, s->n_batches, &lister, page, out);
	pthread_mutex_unlock(&s->lock);
}

/* --- the runner's ----------------------------------------------------------------- */

static void note(const struct batch *b, bool is_so, bool *io_has, struct batch *out)
{
	if (!is_so || *io_has)
		return;
	*io_has = true;
	*out = *b;
}

static bool is_own(const struct batch_whose *w, const struct batch *b)
{
	return !w || w->is_own(w->ctx, b->model);
}

bool batch_records_are_open(struct batch_store *s, const struct batch_whose *w)
{
	bool are = false;
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < s->n_batches && !are; i++)
		are = is_open(s->batches[i]) && is_own(w, s->batches[i]);
	pthread_mutex_unlock(&s->lock);
	return are;
}

void batch_records_look(struct batch_store *s, const struct batch_whose *w, int64_t now_s,
			const char *but, struct batch_todo *out)
{
	out->has_check = out->has_end = out->has_run = false;
	out->due_s = INT64_MAX;
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < s->n_batches; i++) {
		const struct batch *b = s->batches[i];
		if (!is_open(b) || !is_own(w, b))
			continue;
		bool is_new = b->state == BATCH_VALIDATING;
		bool is_over = b->state == BATCH_CANCELLING ||
			       (b->state == BATCH_IN_PROGRESS && b->expires_s <= now_s);
		note(b, is_new, &out->has_check, &out->check);
		note(b, is_over && strcmp(b->id, but) != 0, &out->has_end, &out->end);
		note(b, !is_new, &out->has_run, &out->run);
		if (b->state == BATCH_IN_PROGRESS && !is_over)
			out->due_s = MIN(out->due_s, b->expires_s);
	}
	pthread_mutex_unlock(&s->lock);
}

bool batch_records_is_cancelled(struct batch_store *s, const char *id)
{
	pthread_mutex_lock(&s->lock);
	int i = find_batch(s, str_of(id));
	bool is_so = i < 0 || s->batches[i]->state == BATCH_CANCELLING;
	pthread_mutex_unlock(&s->lock);
	return is_so;
}

void batch_records_progress(struct batch_store *s, const struct batch *b)
{
	pthread_mutex_lock(&s->lock);
	int i = find_batch(s, str_of(b->id));
	if (i >= 0) {
		s->batches[i]->n_completed = b->n_completed;
		s->batches[i]->n_failed = b->n_failed;
		batch_store_count(s);
	}
	pthread_mutex_unlock(&s->lock);
}

/* It may have been cancelled since b was read. */
static void take_cancelled(struct batch_store *s, struct batch *b)
{
	pthread_mutex_lock(&s->lock);
	int i = find_batch(s, str_of(b->id));
	if (i >= 0 && !b->at_s[BATCH_CANCELLING])
		b->at_s[BATCH_CANCELLING] = s->batches[i]->at_s[BATCH_CANCELLING];
	pthread_mutex_unlock(&s->lock);
}

enum status batch_records_move(struct batch_store *s, struct batch *b, struct fail *fail)
{
	struct batch_path part;
	if (!b->at_s[b->state])
		b->at_s[b->state] = batch_store_now_us() / 1000000;
	b->n_total = MAX(b->n_total, b->n_completed + b->n_failed);
	take_cancelled(s, b);
	enum status st = write_beside(s, b, &part, fail);
	if (st != OK)
		return st;
	pthread_mutex_lock(&s->lock);
	int i = find_batch(s, str_of(b->id));
	struct batch *now = i >= 0 ? s->batches[i] : NULL;
	bool is_late = !now || (now->state == BATCH_CANCELLING && b->state == BATCH_IN_PROGRESS);
	if (is_late)
		unlinkat(s->batches_fd, part.text, 0);
	else
		st = commit(s, b, &part, fail);
	if (st == OK && now && is_late) /* what validation has counted */
		now->n_total = b->n_total;
	else if (st == OK && now)
		*now = *b;
	batch_store_count(s);
	if (st == OK && now && !is_open(now))
		batch_journal_remove(s, now->id);
	pthread_mutex_unlock(&s->lock);
	return st;
}

void batch_records_count(const struct batch_store *s, int *out_batches, int64_t *out_requests)
{
	*out_batches = 0;
	*out_requests = 0;
	for (int i = 0; i < s->n_batches; i++) {
		const struct batch *b = s->batches[i];
		*out_batches += is_open(b);
		*out_requests += is_open(b) ? MAX(b->n_total - b->n_completed - b->n_failed, 0) : 0;
	}
}
