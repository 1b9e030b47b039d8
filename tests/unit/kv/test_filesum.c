/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/filesum.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/tap.h"

static char dir[] = "/tmp/halod-filesum-XXXXXX";

static void put(const char *path, const char *text, size_t at)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || pwrite(fd, text, strlen(text), (off_t)at) < 0)
		printf("Bail out! %s\n", path), exit(1);
	close(fd);
}

static struct filesum_file as_it_is(const char *path)
{
	struct stat st = {0};
	if (stat(path, &st) != 0)
		printf("Bail out! %s\n", path), exit(1);
	return (struct filesum_file){path, (int64_t)st.st_size, file_time_ns(&st)};
}

/* The sum of the file as it is; 0 where there is none. */
static uint64_t sum_of(int folder, const char *path)
{
	struct fail f = {0};
	uint64_t sum = 0;
	struct filesum_file file = as_it_is(path);
	return filesum_get(folder, &file, &sum, &f) == OK ? sum : 0;
}

/* Set the remembered sums to zero: what is looked up gives that. */
static void spoil(const char *list)
{
	struct buf b = {0};
	struct fail f;
	if (file_read(list, 1 << 20, &b, &f) != OK)
		printf("Bail out! %s\n", f.text), exit(1);
	char *end = memchr(b.p, '\n', b.n);
	memcpy(end - 16, "00000000000000aa", 16);
	put(list, b.p, 0);
	buf_deinit(&b);
}

int main(void)
{
	char a[300], b[300], list[300];
	if (!mkdtemp(dir))
		printf("Bail out! no folder in /tmp\n"), exit(1);
	snprintf(a, sizeof a, "%s/a", dir);
	snprintf(b, sizeof b, "%s/b", dir);
	snprintf(list, sizeof list, "%s/weights.sums", dir);
	int folder = open(dir, O_RDONLY | O_DIRECTORY);
	put(a, "one", 0);
	put(a, "two", (9 << 20) + 5);
	uint64_t first = sum_of(folder, a);
	ok(first != 0, "a file of some pieces has a sum");
	ok(sum_of(folder, a) == first, "the same again");
	spoil(list);
	ok(sum_of(folder, a) == 0xaa, "which is remembered: the file is not read");

	struct filesum_file old = as_it_is(a);
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {old.time_ns / 1000000000, old.time_ns % 1000000000}};
	usleep(20000); /* a tick of the clock of files */
	put(a, "x", 4 << 20);
	utimensat(AT_FDCWD, a, times, 0);
	ok(as_it_is(a).time_ns == old.time_ns, "written to, with its old time and size");
	uint64_t second = sum_of(folder, a);
	ok(second != first && second != 0xaa, "it is read anew, and any byte counts");
	put(a, "\0", 4 << 20);
	truncate(a, 4 << 20);
	old.time_ns--;
	struct fail f = {0};
	uint64_t sum;
	ok(filesum_get(folder, &old, &sum, &f) == E_IO && strstr(f.text, a),
	   "a file that is not the one that was opened is refused by name");
	snprintf(b, sizeof b, "%s/none", dir);
	old.path = b;
	ok(filesum_get(folder, &old, &sum, &f) == E_IO, "nor is a missing one believed");

	put(list, "garbage\n\n", 0);
	chmod(list, 0666);
	second = sum_of(folder, a);
	ok(second != 0, "a list that others can write is not read");
	chmod(dir, 0500);
	ok(sum_of(folder, a) == second, "nothing needs to be remembered");
	chmod(dir, 0700);
	snprintf(b, sizeof b, "rm -r %s", dir);
	close(folder);
	is_int(system(b), 0, "the folder goes");
	return tap_done();
}
