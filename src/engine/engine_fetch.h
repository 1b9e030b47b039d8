/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a prompt that come from the disk, and those that go there, between the steps of
 * the engine (engine_disk.c). Without kv_dir there is nothing to do. Thread: engine.
 */
#pragma once
#include "engine/engine.h"

struct engine_fetch;

/* Begins to read, beside other steps, the pages of a prompt that the disk has and memory lacks
 * (engine_disk.c). NULL: there are none, or, if *out_has_asked is false, too few pages are free
 * now. Call engine_fetch_step between steps until it is over. Then create the sequence, and call
 * engine_fetch_end, which returns the number of tokens that were read. */
struct engine_fetch *engine_fetch_begin(struct engine *e, const struct engine_prompt *p,
					bool *out_has_asked);
enum engine_fetch_is {
	ENGINE_FETCH_OVER,  /* nothing more comes */
	ENGINE_FETCH_WAITS, /* it waits for the disk: engine_set_on_disk says when to ask again */
	ENGINE_FETCH_MOVED, /* some pages have come; more may have already */
};
enum engine_fetch_is engine_fetch_step(struct engine *e, struct engine_fetch *f);
/* For a disk that is too slow: no other fetch begins until it has answered. Call
 * engine_fetch_end next. */
void engine_fetch_give_up(struct engine *e, const struct engine_fetch *f);
int engine_fetch_end(struct engine *e, struct engine_fetch *f); /* NULL is fine */
/* Between steps: copies pages that sequences have left, about max_bytes, for the writer. True:
 * there is more to copy. */
bool engine_disk_work(struct engine *e, size_t max_bytes);
/* fn is called, by another thread, when a fetch can go on. */
void engine_set_on_disk(struct engine *e, void (*fn)(void *ctx), void *ctx);
