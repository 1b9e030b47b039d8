/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of the tests of towers, and the clips of make_omni.py.
 */
#pragma once
#include "base/alloc.h"
#include "base/file.h"
#include "tests/tap.h"

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

/* The spectrogram of a clip: (GOLDEN_MELS, n). */
enum { GOLDEN_MELS = 128 };
__attribute__((unused)) static float *golden_mel(int32_t n)
{
	float *mel = xmalloc((size_t)n * GOLDEN_MELS * sizeof *mel);
	for (uint32_t i = 0; i < (uint32_t)n * GOLDEN_MELS; i++)
		mel[i] = (float)(i * 2654435761U >> 16) / 32768 - 1;
	return mel;
}
