/* SPDX-License-Identifier: Apache-2.0
 *
 * Named spaces of the prefix cache. A page that was published in one space is found in
 * that space only. So a client cannot learn from the time of an answer what another
 * client has asked. Thread: engine.
 *
 * The table is bounded. The space that was used least recently gives way. Its pages can
 * then not be found any more and age out, which costs computing them again and nothing
 * else: a root is never given out twice.
 */
#pragma once
#include "base/buf.h"
#include "kv/kvcache.h"

#define SPACES_MAX 1024

struct spaces;

struct spaces *spaces_create(struct kvcache *kv); /* kv outlives it */
void spaces_destroy(struct spaces *s);            /* NULL is fine */
/* The empty prefix of the space with this name. Names are compared whole. The empty name is
 * the space of everybody, KVCACHE_ROOT. */
kvcache_prefix spaces_root(struct spaces *s, struct str name);
