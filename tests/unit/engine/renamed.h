/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of a model's or an adapter's files in which texts are others, of the same length.
 */
#pragma once
#include "base/alloc.h"
#include "base/file.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

/* Overwrites each `from` in the bytes by `to`, which is as long. */
static void rename_all(struct buf *b, const char *from, const char *to)
{
	size_t n = strlen(from);
	for (size_t i = 0; i + n <= b->n; i++)
		if (memcmp(b->p + i, from, n) == 0)
			memcpy(b->p + i, to, n);
}

/* Copies a file of the folder `dir` to the folder `to`. */
static void copy_renamed(const char *dir, const char *file, const char *to,
			 const char *const (*names)[2], size_t n_names)
{
	struct fail fail = {0};
	struct buf b = {0};
	char *from = file_join(dir, file), *path = file_join(to, file);
	is_int(file_read(from, 1 << 24, &b, &fail), OK, "%s", fail.text);
	for (size_t k = 0; k < n_names; k++)
		rename_all(&b, names[k][0], names[k][1]);
	FILE *f = fopen(path, "w");
	ok(f && fwrite(b.p, 1, b.n, f) == b.n && fclose(f) == 0, "%s", path);
	buf_deinit(&b);
	free(from);
	free(path);
}
