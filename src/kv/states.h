/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds which slot of recurrent state: reference counts, a free list, and the
 * checkpoints, which are states at the end of a prefix of tokens, found again by the
 * prefix's name (kvcache.h). Bookkeeping only; the numbers lie in device memory under
 * the slot's number. Thread: engine.
 *
 * A state cannot be cut back to an earlier token, so a known prefix is only of use up to
 * a checkpoint. A slot is free, held by sequences (refs > 0), a checkpoint, or both of
 * the last two: a checkpoint is shared, never written. Checkpoints go, the least
 * recently used first, when a sequence needs a slot.
 */
#pragma once
#include "kv/kvcache.h"

struct states;

/* E_NOMEM. */
enum status states_create(int n_slots, struct states **out) MUST_USE;
void states_destroy(struct states *s); /* NULL is fine */

/* A slot for the caller to write, held once; -1: every slot is held. */
int32_t states_alloc(struct states *s);
void states_hold(struct states *s, int32_t slot);
void states_release(struct states *s, int32_t slot); /* -1 is fine */
/* Held once and no checkpoint: its one holder may write it. */
bool states_is_private(const struct states *s, int32_t slot);
/* Slots that states_alloc can give. */
int states_available(const struct states *s);

/* The checkpoint of a prefix, or -1. Not held. */
int32_t states_find(const struct states *s, kvcache_prefix prefix);
/* Used just now: it goes last. */
void states_touch(struct states *s, int32_t slot);
/* Make a held slot the checkpoint of a prefix, unless there is one already. */
void states_keep(struct states *s, int32_t slot, kvcache_prefix prefix);
/* Forget a prefix's checkpoint. */
void states_drop(struct states *s, kvcache_prefix prefix);
int states_n_kept(const struct states *s);
