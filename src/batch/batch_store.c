/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/batch_store_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "json/json_text.h"

#define MAX_RECORD_BYTES (1u << 20)

/* --- the folder ------------------------------------------------------------------- */

static enum status fail_folder(const char *dir, const char *what, int why, struct fail *fail)
{
	return fail_at(fail, E_CONFIG, "state_dir", "state_dir: cannot %s %s: %s", what, dir,
		       strerror(why));
}

/* Opens a folder and makes it where it is missing. Returns -1 and *out_why. */
static int open_folder(int at, const char *name, int *out_why)
{
	int fd = -1;
	if (mkdirat(at, name, 0700) == 0 || errno == EEXIST)
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*out_why = errno;
	return fd;
}

static enum status open_dir(const char *dir, int *out_fd, struct fail *fail)
{
	struct stat st;
	int why, fd = open_folder(AT_FDCWD, dir, &why);
	if (fd < 0)
		return fail_folder(dir, "open", why, fail);
	if (fstat(fd, &st) != 0 || !file_is_ours(&st)) {
		close(fd);
		return fail_at(fail, E_CONFIG, "state_dir", "state_dir: others may write to %s: "
			       "give it to the user of halod alone, with mode 0700", dir);
	}
	*out_fd = fd;
	return OK;
}

enum status batch_store_check(const char *dir, struct fail *fail)
{
	int fd;
	struct stat st;
	if (stat(dir, &st) != 0 && errno == ENOENT)
		return OK; /* it is made at the start */
	enum status status = open_dir(dir, &fd, fail);
	if (status == OK)
		close(fd);
	return status;
}

/* The kernel frees the lock when the process ends, however it does. */
static enum status take_lock(struct batch_store *s, int dir_fd, struct fail *fail)
{
	s->lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return fail_folder(s->dir, "make a file in", errno, fail);
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return fail_at(fail, E_CONFIG, "state_dir", "state_dir: another halod has %s: "
			       "each needs a folder of its own", s->dir);
	return OK;
}

static enum status open_all(struct batch_store *s, struct fail *fail)
{
	int why, dir_fd;
	enum status st = open_dir(s->dir, &dir_fd, fail);
	if (st != OK)
		return st;
	st = take_lock(s, dir_fd, fail);
	if (st == OK && (s->files_fd = open_folder(dir_fd, "files", &why)) < 0)
		st = fail_folder(s->dir, "open the folder files in", why, fail);
	if (st == OK && (s->batches_fd = open_folder(dir_fd, "batches", &why)) < 0)
		st = fail_folder(s->dir, "open the folder batches in", why, fail);
	close(dir_fd);
	return st;
}

enum status batch_store_open(const struct batch_store_opts *o, struct batch_store **out,
			     struct fail *fail)
{
	struct batch_store *s = xcalloc(1, sizeof *s);
	s->o = *o;
	s->dir = xstrdup(o->dir);
	s->files_fd = s->batches_fd = s->lock_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	enum status st = open_all(s, fail);
	if (st != OK) {
		batch_store_close(s);
		return st;
	}
	batch_files_load(s);
	batch_records_load(s);
	batch_store_count(s);
	*out = s;
	return OK;
}

void batch_store_close(struct batch_store *s)
{
	if (!s)
		return;
	const int fds[] = {s->files_fd, s->batches_fd, s->lock_fd};
	batch_store_free_gone(s);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	for (int i = 0; i < s->n_files; i++)
		free(s->files[i]);
	for (int i = 0; i < s->n_batches; i++) {
		free(s->batches[i]->metadata);
		free(s->batches[i]->faults);
		free(s->batches[i]);
	}
	free(s->files);
	free(s->batches);
	free(s->dir);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void batch_store_on_work(struct batch_store *s, void (*fn)(void *ctx), void *ctx)
{
	pthread_mutex_lock(&s->lock);
	s->on_work = fn;
	s->ctx = ctx;
	pthread_mutex_unlock(&s->lock);
}

void batch_store_free_gone(struct batch_store *s)
{
	int gone[BATCH_GONE];
	pthread_mutex_lock(&s->lock);
	int n = s->n_gone;
	memcpy(gone, s->gone, sizeof gone);
	s->n_gone = 0;
	pthread_mutex_unlock(&s->lock);
	for (int i = 0; i < n; i++)
		close(gone[i]);
}

int64_t batch_store_max_window_s(const struct batch_store *s)
{
	return s->o.max_window_s;
}

int64_t batch_store_sweep(struct batch_store *s, int64_t now_s)
{
	int64_t next_s = INT64_MAX;
	pthread_mutex_lock(&s->lock);
	for (int i = s->n_files - 1; i >= 0; i--) {
		const struct batch_file *f = s->files[i];
		if (!f->expires_s)
			continue;
		if (f->expires_s > now_s)
			next_s = MIN(next_s, f->expires_s);
		else if (!batch_records_use(s, f->id))
			batch_files_drop(s, i);
	}
	batch_records_sweep(s, now_s, &next_s);
	batch_store_count(s);
	pthread_mutex_unlock(&s->lock);
	batch_store_free_gone(s);
	return next_s;
}

void batch_store_count(const struct batch_store *s)
{
	int n_batches;
	int64_t n_requests;
	batch_records_count(s, &n_batches, &n_requests);
	metric_set(METRIC_BATCHES_OPEN, n_batches);
	metric_set(METRIC_BATCH_REQUESTS_LEFT, (double)n_requests);
	metric_set(METRIC_BATCH_FILES, s->n_files);
	metric_set(METRIC_BATCH_FILE_BYTES, (double)s->n_bytes);
}

/* --- writing ---------------------------------------------------------------------- */

enum status batch_store_fail(const struct batch_store *s, const char *what, const char *name,
			     int why, struct fail *fail)
{
	metric_add(METRIC_BATCH_DISK_ERRORS, 1);
	return fail_set(fail, E_IO, "state_dir %s: cannot %s %s: %s", s->dir, what, name,
			strerror(why));
}

struct batch_path batch_store_path(const char *id, const char *suffix)
{
	struct batch_path p;
	snprintf(p.text, sizeof p.text, "%.*s%s", BATCH_ID, id, suffix);
	return p;
}

enum status batch_store_put(const struct batch_store *s, int dir_fd, const char *name,
			    struct str bytes, struct fail *fail)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return batch_store_fail(s, "make", name, errno, fail);
	bool is_whole = file_write_all(fd, bytes) && fdatasync(fd) == 0;
	int why = errno;
	is_whole &= close(fd) == 0;
	if (is_whole)
		return OK;
	unlinkat(dir_fd, name, 0);
	return batch_store_fail(s, "write", name, why, fail);
}

enum status batch_store_rename(const struct batch_store *s, int from_fd, const char *from,
			       int to_fd, const char *to, struct fail *fail)
{
	if (renameat(from_fd, from, to_fd, to) == 0)
		return OK;
	int why = errno;
	unlinkat(from_fd, from, 0);
	return batch_store_fail(s, "rename", from, why, fail);
}

int64_t batch_store_now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

void batch_store_make_id(const char *prefix, char out[BATCH_ID])
{
	char digits[25];
	random_hex(12, digits);
	snprintf(out, BATCH_ID, "%s%s", prefix, digits);
}

/* --- reading ---------------------------------------------------------------------- */

/* Takes the ID of "ID.json". */
static bool is_record(const char *name, const char *prefix, char id[BATCH_ID])
{
	struct str s = str_of(name), end = STR(".json");
	if (!str_starts(s, str_of(prefix)) || !str_ends(s, end) ||
	    s.n != strlen(prefix) + 24 + end.n)
		return false;
	for (size_t i = strlen(prefix); i < s.n - end.n; i++)
		if (!is_char_of(s.p[i], "0123456789abcdef"))
			return false;
	snprintf(id, BATCH_ID, "%.*s", (int)(s.n - end.n), s.p);
	return true;
}

static bool read_small(int dir_fd, const char *name, struct buf *out)
{
	struct stat st;
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	bool is_whole = fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= MAX_RECORD_BYTES &&
			buf_try(out, (size_t)st.st_size + 1);
	while (is_whole && out->n <= (size_t)st.st_size) {
		ssize_t n = read(fd, out->p + out->n, out->cap - out->n - 1);
		is_whole = n >= 0;
		if (n <= 0)
			break;
		out->n += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	return is_whole;
}

static json_t *load_record(int dir_fd, const char *name)
{
	struct buf text = {0};
	json_error_t e;
	json_t *o = NULL;
	if (read_small(dir_fd, name, &text))
		o = json_text_load(buf_str(&text), JSON_TEXT_STRICT, &e);
	buf_deinit(&text);
	return o;
}

static DIR *open_list(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fdopendir(fd) : NULL;
}

/* Is it ID, with any suffix, where there is no ID.json? */
static bool is_orphan(int dir_fd, const char *name, const char *prefix)
{
	size_t n = strlen(prefix) + 24;
	struct batch_path record;
	char id[BATCH_ID];
	if (strlen(name) < n)
		return false;
	snprintf(record.text, sizeof record.text, "%.*s.json", (int)n, name);
	return is_record(record.text, prefix, id) &&
	       faccessat(dir_fd, record.text, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

void batch_store_clean(int dir_fd, const char *prefix)
{
	DIR *d = open_list(dir_fd);
	for (const struct dirent *e; d && (e = readdir(d));)
		if (str_ends(str_of(e->d_name), STR(".part")) ||
		    is_orphan(dir_fd, e->d_name, prefix))
			unlinkat(dir_fd, e->d_name, 0);
	if (d)
		closedir(d);
}

void batch_store_each(struct batch_store *s, int dir_fd, const char *folder, const char *prefix,
		      bool (*fn)(struct batch_store *s, const char *id, const json_t *o))
{
	char id[BATCH_ID];
	DIR *d = open_list(dir_fd);
	for (const struct dirent *e; d && (e = readdir(d));) {
		if (!is_record(e->d_name, prefix, id))
			continue;
		json_t *o = load_record(dir_fd, e->d_name);
		if (!json_is_object(o) || !fn(s, id, o))
			log_error("state_dir %s: %s/%s is damaged: it is left out, and left there",
				  s->dir, folder, e->d_name);
		json_decref(o);
	}
	if (d)
		closedir(d);
	else
		log_error("state_dir %s: cannot read the folder %s: %s", s->dir, folder,
			  strerror(errno));
}

bool batch_store_get_int(const json_t *o, const char *key, int64_t *io)
{
	const json_t *v = json_object_get(o, key);
	if (v && !json_is_integer(v) && !json_is_null(v))
		return false;
	if (json_is_integer(v))
		*io = json_integer_value(v);
	return *io >= 0;
}

bool batch_store_get_text(const json_t *o, const char *key, char *out, size_t size)
{
	const json_t *v = json_object_get(o, key);
	if (!v || json_is_null(v))
		return true;
	if (!json_is_string(v) || json_string_length(v) >= size)
		return false;
	memcpy(out, json_string_value(v), json_string_length(v));
	out[json_string_length(v)] = '\0';
	return true;
}

bool batch_store_get_owner(const json_t *o, uint64_t *out)
{
	char text[20] = "", *end;
	bool is_text = batch_store_get_text(o, "owner", text, sizeof text);
	*out = strtoull(text, &end, 16);
	return is_text && *text && !*end;
}

/* --- lists ------------------------------------------------------------------------ */

void batch_store_list(const struct batch_store *s, int n, const struct batch_lister *l,
		      const struct batch_page *page, struct buf *out)
{
	const char *first = NULL, *last = NULL;
	int n_shown = 0;
	bool has_begun = page->after.n == 0, has_more = false;
	buf_add_z(out, "{\"object\":\"list\",\"data\":[");
	for (int k = 0; k < n && !has_more; k++) {
		int i = page->is_rising ? k : n - 1 - k;
		const char *id = l->look(s, i, page);
		if (!id)
			continue;
		if (!has_begun) {
			has_begun = str_is(page->after, id);
			continue;
		}
		has_more = n_shown == page->limit;
		if (has_more)
			continue;
		buf_add_z(out, n_shown++ ? "," : "");
		l->add(s, i, out);
		first = first ? first : id;
		last = id;
	}
	buf_add_z(out, "],\"first_id\":");
	first ? buf_add_json(out, str_of(first)) : buf_add_z(out, "null");
	buf_add_z(out, ",\"last_id\":");
	last ? buf_add_json(out, str_of(last)) : buf_add_z(out, "null");
	buf_addf(out, ",\"has_more\":%s}", has_more ? "true" : "false");
}
