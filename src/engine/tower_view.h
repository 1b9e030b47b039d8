/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tower has made of one image or clip, and a store of the last of them. Those who hold a
 * reference share its rows. Thread: any; who makes a view fills it before others see it.
 */
#pragma once
#include "base/lru.h"
#include "engine/engine.h"

struct tower_view {
	struct engine_image image; /* `at` is 0; rows: those below, or NULL */
	size_t n_bytes;            /* of this struct and its rows */
	int64_t us;                /* of a note of sound.c: how long the clip is */
	_Atomic int refs;
	float rows[];
};

/* A view with room for n numbers and one reference, whose image is all zero. NULL: no memory. */
struct tower_view *tower_view_new(size_t n);
void tower_view_ref(struct tower_view *w);
void tower_view_unref(struct tower_view *w); /* NULL is fine */

/* A store of views, of max_bytes at most; 0: none is kept. */
struct lru *tower_view_lru(size_t max_bytes);
/* *out: the view of that key, which the caller unrefs. False: there is none. */
bool tower_view_get(struct lru *l, struct lru_key key, struct tower_view **out);
/* Stores w with a reference of its own. */
void tower_view_put(struct lru *l, struct lru_key key, struct tower_view *w);
