/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a prompt that come from the disk, and those that go there, between the steps of
 * the engine (engine_disk.c). Without kv_dir there is nothing to do. Thread: engine.
 */
#pragma once
#include "engine/engine.h"

struct engine_fetch;

/* What the disk has of a prompt that memory lacks (engine_disk.c). Begins to read it, beside
 * other steps. NULL: nothing, or (*out_has_asked is false) not while there are so few pages.
 * Call step between steps until it is over; then create the sequence, then end, which
 * returns the tokens that were read. */
struct engine_fetch *engine_fetch_begin(struct engine *e, const struct engine_prompt *p,
					bool *out_has_asked);
enum engine_fetch_is {
	ENGINE_FETCH_OVER,  /* nothing more comes */
	ENGINE_FETCH_WAITS, /* for the disk: engine_set_on_disk says when to ask again */
	ENGINE_FETCH_MOVED, /* some pages have come; more may have already */
};
enum engine_fetch_is engine_fetch_step(struct engine *e, struct engine_fetch *f);
/* The disk is too slow: no other fetch begins until it has answered. End comes next. */
void engine_fetch_give_up(struct engine *e, const struct engine_fetch *f);
int engine_fetch_end(struct engine *e, struct engine_fetch *f); /* NULL is fine */
/* Between steps: copy pages that sequences have left, about so many bytes, for the writer.
 * True: there is more to copy. */
bool engine_disk_work(struct engine *e, size_t max_bytes);
/* fn is called, by another thread, when a fetch can go on. */
void engine_set_on_disk(struct engine *e, void (*fn)(void *ctx), void *ctx);
