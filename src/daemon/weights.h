/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices that a mapped file of weights is written to while it is in use: answers would change in
 * silence. Thread: the loop's.
 */
#pragma once
#include <uv.h>

#include "base/workers.h"

struct weights;

struct weights_opts {
	uv_loop_t *loop;
	struct workers *workers; /* they look into the files, which may wait for a disk */
	void (*on_change)(void *ctx, const char *why); /* why names the file, and what to do */
	void *ctx;
};

/* Watches all files that are mapped now (base/mapped.h). A file that the system cannot watch is
 * looked at once. */
struct weights *weights_create(const struct weights_opts *o);
/* Other files are mapped now: watch those. */
void weights_again(struct weights *w);
/* When no job runs. The loop must run once more, to free its handles. NULL is fine. */
void weights_destroy(struct weights *w);
