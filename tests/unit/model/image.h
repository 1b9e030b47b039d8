/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files and model directories made by tests.
 */
#pragma once
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

/* A file of this header and n_data bytes 0, 1, 2, … 250, 0, … The caller frees. */
__attribute__((unused)) static struct buf image_make(const char *header,
						     size_t n_data)
{
	struct buf b = {0};
	uint64_t h = strlen(header);
	for (int i = 0; i < 8; i++)
		buf_add_c(&b, (char)(h >> 8 * i));
	buf_add_z(&b, header);
	for (size_t i = 0; i < n_data; i++)
		buf_add_c(&b, (char)(i % 251));
	return b;
}

/* A new empty folder. */
__attribute__((unused)) static char *image_dir(void)
{
	const char *tmp = "/tmp/halod-test-XXXXXX";
	char *dir = xstrdup(tmp);
	if (!mkdtemp(dir))
		abort();
	return dir;
}

__attribute__((unused)) static void image_write(const char *dir,
						const char *name,
						struct str bytes)
{
	char *path = file_join(dir, name);
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(bytes.p, 1, bytes.n, f) != bytes.n || fclose(f))
		abort();
	free(path);
}

/* Remove the folder and the files in it. */
__attribute__((unused)) static void image_remove(char *dir)
{
	DIR *d = opendir(dir);
	for (struct dirent *e; (e = readdir(d));) {
		char *path = file_join(dir, e->d_name);
		if (e->d_name[0] != '.')
			unlink(path);
		free(path);
	}
	closedir(d);
	rmdir(dir);
	free(dir);
}
