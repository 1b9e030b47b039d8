/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds which slot of recurrent state: reference counts, a free list, and
 * checkpoints. A checkpoint is the state at the end of a prefix of tokens, found by the
 * prefix's name (kvcache.h). This is bookkeeping only; the states lie in device memory,
 * indexed by slot. Thread: engine.
 *
 * A state cannot be rolled back to an earlier token, so a cached prefix is usable only up
 * to a checkpoint. A slot is free, held by sequences (refs > 0), a checkpoint, or both
 * held and a checkpoint. A checkpoint may be shared and is never written. When a sequence
 * needs a slot, the least recently used checkpoint is evicted.
 */
#pragma once
#include "kv/kvcache.h"

struct states;

/* Create n_slots free slots. E_NOMEM. */
enum status states_create(int n_slots, struct states **out) MUST_USE;
void states_destroy(struct states *s); /* NULL is allowed */

/* A slot for the caller to write, held once. Returns -1 if every slot is held. */
int32_t states_alloc(struct states *s);
void states_hold(struct states *s, int32_t slot);
void states_release(struct states *s, int32_t slot); /* -1 is allowed */
/* True if the slot is held once and is no checkpoint: its holder may write it. */
bool states_is_private(const struct states *s, int32_t slot);
int states_holders(const struct states *s, int32_t slot);
/* Number of slots that states_alloc can give. */
int states_available(const struct states *s);

/* The slot of a prefix's checkpoint, or -1. The slot is not held. */
int32_t states_find(const struct states *s, kvcache_prefix prefix);
/* Mark the slot as used now, so that it is evicted last. */
void states_touch(struct states *s, int32_t slot);
/* Make a held slot the checkpoint of a prefix, unless the prefix has one already. */
void states_keep(struct states *s, int32_t slot, kvcache_prefix prefix);
/* Forget a prefix's checkpoint. */
void states_drop(struct states *s, kvcache_prefix prefix);
int states_n_kept(const struct states *s);
