/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache of compiled grammars with the token masks made for them: agents send the same
 * schemas with every turn. When the grammars are too many or too large, the least recently
 * used ones are dropped. Thread: any.
 */
#pragma once
#include "grammar/grammar.h"

struct grammarcache;
struct grammarcache *grammarcache_create(int max_entries, size_t max_bytes);
void grammarcache_destroy(struct grammarcache *c);
/* A new reference to the grammar kept under key, or NULL. */
struct grammar *grammarcache_get(struct grammarcache *c, struct str key);
/* Keeps g under key, with a reference of the cache's own; key is copied. Counts
 * METRIC_GRAMMARS_COMPILED. */
void grammarcache_put(struct grammarcache *c, struct str key, struct grammar *g);
