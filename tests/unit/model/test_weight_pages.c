/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a file comes into memory where single rows of a table are read.
 */
#include "model/formats/weight_pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/tap.h"

enum { PAGES = 2048, ROW = 4096 / 16 * 34 / 32, K = 256, ROWS = 8 };

/* Pages of the map that the page cache holds. */
static int resident(void *map, size_t n_bytes)
{
	static unsigned char held[PAGES];
	int n = 0;
	if (mincore(map, n_bytes, held) < 0)
		return -1;
	for (int i = 0; i < PAGES; i++)
		n += held[i] & 1;
	return n;
}

/* A file that no page of is in memory; NULL: this file system keeps them all. */
static char *open_cold(const char *path, size_t n_bytes)
{
	char *bytes = xcalloc(1, n_bytes);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	bool good = fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes && fsync(fd) == 0;
	good = good && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
	char *map = good ? mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	free(bytes);
	if (fd >= 0)
		close(fd);
	unlink(path);
	return map == MAP_FAILED || resident(map, n_bytes) != 0 ? NULL : map;
}

int main(void)
{
	size_t n_bytes = (size_t)PAGES * (size_t)sysconf(_SC_PAGESIZE);
	char path[] = "test_weight_pages.tmp";
	char *map = open_cold(path, n_bytes);
	if (!map) {
		puts("1..0 # SKIP the file system does not let pages go");
		return 0;
	}
	struct weight w = {.quant = QUANT_Q8_0, .k = K, .q = map, .is_mapped = true};
	w.n = (int32_t)(n_bytes / weight_row_bytes(&w));
	is_int((long long)weight_row_bytes(&w), ROW, "bytes of a row");
	weight_pages_random(&w);
	int64_t row[ROWS];
	int sum = 0;
	for (int i = 0; i < ROWS; i++) {
		row[i] = (int64_t)w.n / ROWS * i + 5 * i;
		weight_pages_want(&w, row[i]);
	}
	for (int i = 0; i < ROWS; i++)
		sum += map[row[i] * ROW] + map[row[i] * ROW + ROW - 1];
	is_int(sum, 0, "the rows can be read");
	int n = resident(map, n_bytes);
	ok(n >= ROWS && n <= 2 * ROWS, "and only their pages are, %d", n);

	struct weight plain = {.quant = QUANT_Q8_0, .k = K, .n = 1, .q = path};
	weight_pages_random(&plain);
	weight_pages_want(&plain, 0);
	ok(true, "what is not mapped is left alone");
	munmap(map, n_bytes);
	return tap_done();
}
