/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of tests/golden/audio, for the tests of src/audio.
 */
#pragma once
#include "audio/audio.h"
#include "base/file.h"
#include "tests/tap.h"

__attribute__((unused)) static void golden_read(const char *name, struct buf *out)
{
	char path[100];
	struct fail fail = {0};
	snprintf(path, sizeof path, "tests/golden/audio/%s", name);
	if (file_read(tap_src(path), 1 << 20, out, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
}
