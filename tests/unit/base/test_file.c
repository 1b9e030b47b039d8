/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mapped.h"
#include "tests/tap.h"

static void write_file(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(bytes, 1, n, f) != n)
		exit(99);
	fclose(f);
}

static void test_view(const char *path, bool use_mmap)
{
	struct file_view v;
	struct fail fail;
	const char *how = use_mmap ? "mapped" : "read";
	is_int(file_view_open(path, use_mmap, NULL, &v, &fail), OK, "opens, %s", how);
	is_int(v.n, 5, "length, %s", how);
	ok(memcmp(v.p, "ab\0cd", 5) == 0, "bytes, %s", how);
	is_int(v.is_mapped, use_mmap, "is_mapped, %s", how);
	ok(use_mmap || (uintptr_t)v.p % (2u << 20) == 0, "aligned, %s", how);
	file_view_close(&v);
	ok(!v.p && v.n == 0, "closed view is empty, %s", how);
}

/* A mapped file that is cut short: its name is said, and the exit status is ours. */
static void test_cut(const char *dir)
{
	char *path = file_join(dir, "cut");
	char said[2000] = "";
	int ends[2], status = 0;
	char zeros[100] = {0};
	if (pipe(ends) != 0)
		exit(99);
	write_file(path, zeros, sizeof zeros);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct file_view v, gone;
		dup2(ends[1], STDERR_FILENO);
		log_init(LOG_INFO, LOG_TEXT);
		mapped_watch(33);
		if (file_view_open(path, true, NULL, &gone, NULL) != OK ||
		    file_view_open(path, true, NULL, &v, NULL) != OK || truncate(path, 0) != 0)
			_exit(98);
		file_view_close(&gone);
		_exit(*(volatile const char *)v.p);
	}
	close(ends[1]);
	ssize_t n = read(ends[0], said, sizeof said - 1);
	waitpid(child, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 33, "a file that is cut short");
	said[n > 0 ? n - 1 : 0] = '\0';
	ok(n > 0 && strncmp(said, "halod: error: ", 14) == 0 && strstr(said, path) &&
		   strstr(said, "cut short"),
	   "is named: %s", said);
	close(ends[0]);
	unlink(path);
	free(path);
}

/* What happens to a mapped file before anybody has looked at it. MAP_PRIVATE shows a write. */
static void test_changed(const char *dir)
{
	static const struct {
		const char *what, *bytes;
		enum status want;
	} rows[] = {
		{"nothing happened to it", NULL, OK},
		{"it was touched", "", OK},
		{"it was written to", "zzzzzzzz", E_IO},
	};
	char *path = file_join(dir, "changed");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct fail fail = {0};
		struct file_view v;
		struct timespec times[2] = {{1, 0}, {1, 0}};
		write_file(path, "12345678", 8);
		if (file_view_open(path, true, NULL, &v, NULL) != OK)
			exit(99);
		FILE *f = fopen(path, "r+");
		if (!f || (rows[i].bytes && (fputs(rows[i].bytes, f) == EOF)))
			exit(99);
		fclose(f);
		if (rows[i].bytes && utimensat(AT_FDCWD, path, times, 0) != 0)
			exit(99);
		is_int(mapped_check(&fail), rows[i].want, "the first look: %s", rows[i].what);
		ok(rows[i].want == OK || strstr(fail.text, "written to"), "in words: %s",
		   fail.text);
		file_view_close(&v);
	}
	unlink(path);
	free(path);
}

static void test_refusals(const char *dir, const char *path)
{
	struct file_view v;
	struct fail fail;
	char *fifo = file_join(dir, "fifo");
	if (mkfifo(fifo, 0600) != 0)
		exit(99);
	is_int(file_view_open(fifo, true, NULL, &v, &fail), E_IO, "a FIFO is refused");
	unlink(fifo);
	free(fifo);
	is_int(file_view_open(dir, true, NULL, &v, &fail), E_IO, "a folder is refused");
	is_int(file_view_open("/nonexistent/x", true, NULL, &v, &fail), E_IO, "no file");
	ok(strstr(fail.text, "/nonexistent/x"), "the message names the path");

	struct buf b = {0};
	buf_add_z(&b, "kept");
	is_int(file_read(path, 4, &b, &fail), E_LIMIT, "five bytes over four");
	is_str(b.p, "kept", "a failed read appends nothing");
	is_int(file_read(path, 5, &b, &fail), OK, "five bytes of five");
	is_int(b.n, 9, "appended");
	is_int(file_read(dir, 5, &b, &fail), E_IO, "a folder cannot be read");
	is_int(b.n, 9, "nothing added");
	is_int(file_read("/dev/zero", 1 << 20, &b, &fail), E_LIMIT, "endless file");
	is_int(b.n, 9, "what was read before the limit is given back");
	buf_deinit(&b);
}

static void on_read(void *ctx, size_t n_bytes)
{
	*(size_t *)ctx += n_bytes;
}

static void test_watch(const char *path)
{
	struct file_view v;
	size_t n = 0;
	const struct file_watch watch = {on_read, &n};
	is_int(file_view_open(path, false, &watch, &v, NULL), OK, "read, and watched");
	ok(n == v.n && n > 0, "every byte is told");
	file_view_close(&v);
	n = 0;
	is_int(file_view_open(path, true, &watch, &v, NULL), OK, "mapped, and watched");
	is_int(n, 0, "mapping reads nothing");
	file_view_close(&v);
}

static void test_empty(const char *path)
{
	struct file_view v;
	struct buf b = {0};
	is_int(file_view_open(path, true, NULL, &v, NULL), OK, "empty file, mapped");
	ok(v.p && v.n == 0, "no bytes, but not NULL");
	file_view_close(&v);
	is_int(file_view_open(path, false, NULL, &v, NULL), OK, "empty file, read");
	file_view_close(&v);
	is_int(file_read(path, 0, &b, NULL), OK, "an empty file fits in nothing");
	buf_deinit(&b);
}

int main(void)
{
	char dir[] = "/tmp/halod-file-XXXXXX";
	if (!mkdtemp(dir))
		return 99;
	char *path = file_join(dir, "five"), *empty = file_join(dir, "empty");
	write_file(path, "ab\0cd", 5);
	write_file(empty, "", 0);
	test_view(path, true);
	test_view(path, false);
	test_watch(path);
	test_refusals(dir, path);
	test_cut(dir);
	test_changed(dir);
	test_empty(empty);
	ok(file_exists(path) && !file_exists("/nonexistent/x"), "exists");
	unlink(path);
	unlink(empty);
	rmdir(dir);
	free(path);
	free(empty);

	static const char *const bare[][2] = {
		{"/a/b//", "/a/b"}, {"a", "a"}, {"/", ""}, {"", ""}};
	for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
		char *cut = file_without_slashes(bare[i][0]);
		is_str(cut, bare[i][1], "\"%s\" without slashes at its end", bare[i][0]);
		free(cut);
	}
	char *joined = file_join("a/", "b");
	is_str(joined, "a/b", "no double slash");
	free(joined);
	joined = file_join("", "b");
	is_str(joined, "b", "no folder, no slash");
	free(joined);
	return tap_done();
}
