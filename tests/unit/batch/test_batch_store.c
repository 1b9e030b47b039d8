/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in the folder after a process was killed at each step: an upload, a record, an answer,
 * the naming of the answers. A folder is opened anew for each.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "batch/batch_files.h"
#include "batch/batch_journal.h"
#include "batch/batch_records.h"
#include "tests/tap.h"

static char dir[] = "/tmp/halod-batch-XXXXXX";
static struct batch_store *store;
static struct fail fail;

static enum status open_store(int max_files)
{
	const struct batch_store_opts o = {.dir = dir, .max_files = max_files, .max_bytes = 1000,
					   .max_age_s = 100, .max_window_s = 3600};
	return batch_store_open(&o, &store, &fail);
}

static void reopen(void)
{
	batch_store_close(store);
	if (open_store(100) != OK)
		printf("Bail out! %s\n", fail.text);
}

static char *path_of(const char *name)
{
	return file_join(dir, name);
}

static void put(const char *name, const char *text)
{
	char *path = path_of(name);
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
	free(path);
}

static bool is_there(const char *name)
{
	char *path = path_of(name);
	bool is = file_exists(path);
	free(path);
	return is;
}

static void move_file(const char *from, const char *to)
{
	char *a = path_of(from), *b = path_of(to);
	if (rename(a, b) != 0)
		printf("# cannot rename %s\n", a);
	free(a);
	free(b);
}

static struct batch_file add_file(const char *text)
{
	struct batch_file about = {.owner = 7, .name = "in"}, f = {.owner = 0};
	ok(batch_files_add(store, &about, str_of(text), &f, &fail) == OK, "a file is kept");
	return f;
}

/* Is a batch in this state what the runner is to see to next? */
static bool is_next(enum batch_state state, struct batch *out)
{
	struct batch_todo todo;
	batch_records_look(store, NULL, 0, "", &todo);
	bool is_new = state == BATCH_VALIDATING;
	*out = is_new ? todo.check : todo.run;
	return (is_new ? todo.has_check : todo.has_run) && out->state == state;
}

static bool has_file(const char *id)
{
	struct batch_file f;
	return batch_files_get(store, 7, str_of(id), &f, &fail) == OK;
}

static void test_upload(void)
{
	char name[100], part[100], record[100];
	struct batch_file f = add_file("abc");
	reopen();
	ok(has_file(f.id), "it is there after a restart");
	snprintf(name, sizeof name, "files/%s", f.id);
	snprintf(part, sizeof part, "files/%s.part", f.id);
	snprintf(record, sizeof record, "files/%s.json", f.id);
	move_file(name, part);
	reopen();
	ok(has_file(f.id) && is_there(name), "killed before it had its name: it gets it");
	move_file(name, part);
	move_file(record, "kept");
	reopen();
	ok(!has_file(f.id) && !is_there(part), "killed before it had a record: it is gone");
	put(name, "abc");
	reopen();
	ok(!is_there(name), "bytes without a record go");
	move_file("kept", record);
	put(name, "ab");
	reopen();
	ok(!has_file(f.id) && is_there(name), "of another length: left out, and left there");
	put(name, "abc");
	put(record, "{\"owner\":\"7\",\"bytes\":\"3\"}");
	reopen();
	ok(!has_file(f.id) && is_there(record), "a record of other types: the same");
	put(record, "{\"owner\":\"7\",\"bytes\":3,\"created_us\":-1}");
	reopen();
	ok(!has_file(f.id), "a time before 1970: the same");
}

static struct batch make(const char *input)
{
	struct batch about = {.owner = 7, .endpoint = "/v1/completions", .window = "1h"}, b;
	struct buf out = {0};
	snprintf(about.input, sizeof about.input, "%s", input);
	about.metadata = xstrdup("{\"a\":\"b\"}");
	ok(batch_records_create(store, &about, 3600, &out, &fail) == OK, "a batch is made");
	buf_deinit(&out);
	ok(is_next(BATCH_VALIDATING, &b), "it waits for its validation");
	return b;
}

static void add_answer(struct batch_journal *j, int line, bool is_failure)
{
	char id[BATCH_REQUEST_ID];
	struct buf text = {0};
	batch_journal_id(j, line, id);
	buf_addf(&text, "{\"id\":\"%s\"}", id);
	ok(batch_journal_add(j, line, is_failure, buf_str(&text), &fail) == OK, "answer %d", line);
	buf_deinit(&text);
}

static void append(const char *id, const char *suffix, const char *text)
{
	char name[100];
	snprintf(name, sizeof name, "batches/%s%s", id, suffix);
	char *path = path_of(name);
	FILE *f = fopen(path, "a");
	fputs(text, f);
	fclose(f);
	free(path);
}

static struct batch_journal *open_journal(const struct batch *b)
{
	struct batch_journal *j = NULL;
	ok(batch_journal_open(store, b, &j, &fail) == OK, "its journal opens");
	return j;
}

static void test_journal(const struct batch *b)
{
	static const char *const tails[] = {
		"{\"id\":\"batch_req_", "\n", "{\"id\":\"batch_req_0_9\"}\n", "{}\n",
		"{\"id\":\"batch_req_%s_3\"}\n", /* it has an answer */
		"{\"id\":\"batch_req_%s_0\"}\n", "{\"id\":\"batch_req_%s_5\"\n",
		"{\"id\":\"batch_req_%s_99999999999\"}\n",
		"{\"id\":\"batch_req_%s_5\",\"response\":{}}"}; /* without its line's end */
	struct batch_journal *j = open_journal(b);
	add_answer(j, 3, false);
	add_answer(j, 1, true);
	add_answer(j, 4000, false);
	batch_journal_close(j);
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		char text[100];
		snprintf(text, sizeof text, tails[i], b->id + strlen("batch_"));
		append(b->id, ".output", text);
		j = open_journal(b);
		ok(batch_journal_completed(j) == 2 && batch_journal_failed(j) == 1,
		   "what is no answer is cut off: %zu", i);
		ok(batch_journal_has(j, 1) && batch_journal_has(j, 3) &&
			   batch_journal_has(j, 4000) && !batch_journal_has(j, 2) &&
			   !batch_journal_has(j, 5) && !batch_journal_has(j, 100000),
		   "which requests are answered");
		batch_journal_close(j);
	}
}

static void move_to(struct batch *b, enum batch_state state)
{
	b->state = state;
	ok(batch_records_move(store, b, &fail) == OK, "the batch moves on");
}

static bool is_in(const char *id, const char *status)
{
	struct buf out = {0};
	char want[40];
	snprintf(want, sizeof want, "\"status\":\"%s\"", status);
	bool is = batch_records_get(store, 7, str_of(id), &out, &fail) == OK &&
		  str_find(buf_str(&out), str_of(want), 0) > 0;
	buf_deinit(&out);
	return is;
}

static void test_batch(void)
{
	char from[BATCH_ID + 16];
	struct batch_file input = add_file("x\n");
	struct batch b = make(input.id);
	struct batch_todo todo;
	ok(batch_files_delete(store, 7, str_of(input.id), &fail) == E_INVAL, "its file is in use");
	ok(batch_files_delete(store, 8, str_of(input.id), &fail) == E_NOT_FOUND,
	   "another owner finds none");
	b.n_total = 4;
	move_to(&b, BATCH_IN_PROGRESS);
	test_journal(&b);
	reopen();
	ok(is_in(b.id, "in_progress"), "after a restart it is what it was");
	ok(is_next(BATCH_IN_PROGRESS, &b) && b.n_total == 4 &&
		   strcmp(b.metadata, "{\"a\":\"b\"}") == 0 && b.owner == 7, "all of it");
	batch_files_make_id(b.output);
	move_to(&b, BATCH_FINALIZING);
	struct batch_file out = {.owner = 7, .name = "out"};
	snprintf(out.id, sizeof out.id, "%s", b.output);
	batch_journal_name(b.id, false, from);
	ok(batch_files_adopt(store, &out, from, &fail) == OK && has_file(out.id),
	   "its answers become a file");
	char a[100], c[100];
	snprintf(a, sizeof a, "files/%s", out.id);
	snprintf(c, sizeof c, "batches/%s", from);
	move_file(a, c);
	reopen();
	ok(!has_file(out.id), "killed before they had their name: none yet");
	ok(batch_files_adopt(store, &out, from, &fail) == OK && has_file(out.id), "they get it");
	ok(batch_files_adopt(store, &out, from, &fail) == OK && has_file(out.id),
	   "and nothing happens again");
	ok(is_next(BATCH_FINALIZING, &b), "the batch is to be ended");
	move_to(&b, BATCH_COMPLETED);
	batch_records_look(store, NULL, 0, "", &todo);
	ok(!todo.has_check && !todo.has_end && !todo.has_run, "it has ended");
	ok(batch_files_delete(store, 7, str_of(input.id), &fail) == OK, "its file may go");
	put(c, "x");
	reopen();
	ok(is_in(b.id, "completed") && !is_there(c), "after a restart it has, without a journal");
}

static void test_cancel(void)
{
	struct batch_file input = add_file("x\n");
	struct batch b = make(input.id);
	struct buf out = {0};
	ok(batch_records_cancel(store, 8, str_of(b.id), &out, &fail) == E_NOT_FOUND,
	   "another owner cancels nothing");
	ok(batch_records_cancel(store, 7, str_of(b.id), &out, &fail) == OK, "it is cancelled");
	move_to(&b, BATCH_IN_PROGRESS);
	ok(is_in(b.id, "cancelling"), "validation does not undo that");
	ok(batch_records_cancel(store, 7, str_of(b.id), &out, &fail) == OK, "nor a second time");
	reopen();
	ok(is_in(b.id, "cancelling") && batch_records_is_cancelled(store, b.id),
	   "after a restart it is");
	ok(is_next(BATCH_CANCELLING, &b), "the runner ends it");
	struct batch_todo todo;
	batch_records_look(store, NULL, 0, b.id, &todo);
	bool is_other = todo.has_end;
	batch_records_look(store, NULL, 0, "", &todo);
	ok(!is_other && todo.has_end && strcmp(todo.end.id, b.id) == 0,
	   "also beside another one, which it does not run");
	move_to(&b, BATCH_CANCELLED);
	ok(batch_records_cancel(store, 7, str_of(b.id), &out, &fail) == E_INVAL, "%s", fail.text);
	buf_deinit(&out);
}

static void test_age(void)
{
	struct batch_file about = {.owner = 7, .name = "in", .age_s = -1}, old;
	ok(batch_files_add(store, &about, STR("x"), &old, &fail) == OK && !has_file(old.id),
	   "one that is too old is not found, before it is removed");
	struct batch_file asked = {.owner = 7, .name = "in", .age_s = 50}, made;
	struct batch_file f = add_file("x\n");
	int64_t now_s = f.created_us / 1000000;
	ok(batch_files_add(store, &asked, STR("x"), &made, &fail) == OK &&
		   made.expires_s == made.created_us / 1000000 + 50, "as old as was asked");
	ok(batch_files_delete(store, 7, str_of(made.id), &fail) == OK, "%s", fail.text);
	struct batch b = make(f.id);
	ok(batch_store_sweep(store, now_s + 99) > now_s + 99 && has_file(f.id), "not too old");
	batch_store_sweep(store, now_s + 1000);
	ok(has_file(f.id), "a file that a batch reads is kept");
	b.faults = xstrdup("[]");
	move_to(&b, BATCH_FAILED);
	ok(batch_store_sweep(store, now_s + 10000) == INT64_MAX && !has_file(f.id) &&
		   !is_in(b.id, "failed"), "what is too old is gone");
}

/* Files that have no name any more, and are open. */
static int n_gone(void)
{
	DIR *d = opendir("/proc/self/fd");
	char target[300];
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		ssize_t length = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
		target[MAX(length, 0)] = '\0';
		n += strstr(target, dir) && strstr(target, "(deleted)");
	}
	closedir(d);
	return n;
}

static void count_work(void *ctx)
{
	++*(int *)ctx;
}

static void test_gone(void)
{
	enum { N = 40 };
	struct batch_file f[N];
	int n_told = 0, n_left = 0;
	batch_store_on_work(store, count_work, &n_told);
	for (int i = 0; i < N; i++)
		f[i] = add_file("x");
	for (int i = 0; i < N; i++) {
		n_left += batch_files_delete(store, 7, str_of(f[i].id), &fail) != OK;
		char *path = xasprintf("files/%s", f[i].id);
		n_left += is_there(path);
		free(path);
	}
	is_int(n_left, 0, "files that are deleted have no name");
	is_int(n_told, N, "somebody is told of each");
	ok(n_gone() > 0 && n_gone() < N, "and is to free their bytes, but not of any number");
	batch_store_free_gone(store);
	is_int(n_gone(), 0, "then they are freed");
	batch_store_on_work(store, NULL, NULL);
	f[0] = add_file("x");
	ok(batch_files_delete(store, 7, str_of(f[0].id), &fail) == OK && n_gone() == 0,
	   "where nobody listens they are freed at once");
}

static void test_limits(void)
{
	struct batch_file about = {.owner = 7, .name = "in"}, f;
	char text[1001];
	memset(text, 'x', sizeof text);
	batch_store_close(store);
	ok(open_store(2) == OK, "two files at most");
	ok(batch_files_add(store, &about, (struct str){text, 1001}, &f, &fail) == E_LIMIT, "%s",
	   fail.text);
	add_file("1");
	add_file("2");
	ok(batch_files_add(store, &about, STR("3"), &f, &fail) == E_LIMIT, "%s", fail.text);
	struct batch_store *second;
	const struct batch_store_opts o = {.dir = dir, .max_files = 1};
	ok(batch_store_open(&o, &second, &fail) == E_CONFIG, "%s", fail.text);
	chmod(dir, 0777);
	ok(batch_store_check(dir, &fail) == E_CONFIG, "%s", fail.text);
	chmod(dir, 0700);
}

int main(void)
{
	char command[100];
	log_init(LOG_ERROR, LOG_TEXT);
	if (!mkdtemp(dir) || open_store(100) != OK)
		return 1;
	test_upload();
	test_batch();
	test_cancel();
	test_age();
	test_gone();
	test_limits();
	batch_store_close(store);
	snprintf(command, sizeof command, "rm -r %s", dir);
	ok(system(command) == 0, "the folder goes");
	return tap_done();
}
