/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of the tests of towers, and the clips of make_omni.py.
 */
#pragma once
#include "base/alloc.h"
#include "base/file.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

__attribute__((unused)) static struct buf golden_read(const char *folder, const char *name)
{
	struct buf b = {0};
	struct fail fail = {0};
	char *path = xasprintf("%s/%s", folder, name);
	if (file_read(tap_src(path), 1 << 22, &b, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	free(path);
	return b;
}

/* A new folder with the files of another one, but `name` with this text; text.p NULL: without it.
 * image_remove removes it. */
__attribute__((unused)) static char *golden_copy(const char *from, const char *name,
						 struct str text)
{
	char *to = image_dir(), *whole = realpath(tap_src(from), NULL);
	DIR *d = whole ? opendir(whole) : NULL;
	if (!d)
		abort();
	for (struct dirent *e; (e = readdir(d));) {
		char *there = file_join(whole, e->d_name), *here = file_join(to, e->d_name);
		bool is_taken = e->d_name[0] != '.' && strcmp(e->d_name, name) != 0;
		if (is_taken && symlink(there, here) != 0)
			abort();
		free(there);
		free(here);
	}
	closedir(d);
	free(whole);
	if (text.p)
		image_write(to, name, text);
	return to;
}

/* The spectrogram of a clip: (GOLDEN_MELS, n). */
enum { GOLDEN_MELS = 128 };
__attribute__((unused)) static float *golden_mel(int32_t n)
{
	float *mel = xmalloc((size_t)n * GOLDEN_MELS * sizeof *mel);
	for (uint32_t i = 0; i < (uint32_t)n * GOLDEN_MELS; i++)
		mel[i] = (float)(i * 2654435761U >> 16) / 32768 - 1;
	return mel;
}
