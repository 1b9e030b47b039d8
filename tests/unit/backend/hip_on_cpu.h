/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend on tests/hip-on-cpu, for tests of one file: what fails ends the test.
 */
#pragma once
#include <stdio.h>
#include <stdlib.h>

#include "backend/hip/hip_launch.h"

/* The runtime's library. find_library sets it, once, before any create(). */
static char library[4096];

static void find_library(void)
{
	const char *dir = getenv("HALOD_BUILDDIR");
	snprintf(library, sizeof library, "%s/tests/hip-on-cpu/libhip_cpu.so",
		 dir ? dir : ".");
}

/* `extra` may be NULL. backend_destroy ends what this returns. */
static struct backend *create(const struct backend_opts *extra)
{
	struct backend_opts o = extra ? *extra : (struct backend_opts){0};
	struct backend *b = NULL;
	struct fail fail = {0};
	o.name = "hip";
	o.hip_library = library;
	if (backend_create(&o, &b, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return b;
}

static void must(enum status st)
{
	if (st != OK) {
		printf("Bail out! %s\n", status_name(st));
		exit(1);
	}
}
