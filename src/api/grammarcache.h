/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars that were compiled before, with the masks that they have gathered: agents send
 * the same schemas with every turn. The least recently used ones go when there are too
 * many, or too many bytes of them. Thread: any.
 */
#pragma once
#include "grammar/grammar.h"

struct grammarcache;
struct grammarcache *grammarcache_create(int max_entries, size_t max_bytes);
void grammarcache_destroy(struct grammarcache *c);
/* A reference to the grammar of key, or NULL. */
struct grammar *grammarcache_get(struct grammarcache *c, struct str key);
/* Keep one of its own; key is copied. Counts METRIC_GRAMMARS_COMPILED. */
void grammarcache_put(struct grammarcache *c, struct str key, struct grammar *g);
