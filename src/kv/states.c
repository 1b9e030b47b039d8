/* SPDX-License-Identifier: Apache-2.0
 *
 * There are only tens of slots, and each holds megabytes. Scanning all of them costs
 * nothing compared with the work on one.
 */
#include "kv/states.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

struct state_slot {
	int32_t refs;
	kvcache_prefix prefix; /* end of its prefix; KVCACHE_ROOT: not a checkpoint */
	uint64_t used;         /* time of last use as a checkpoint; larger is later */
};

struct states {
	int n_slots;
	uint64_t now;
	struct state_slot slots[];
};

enum status states_create(int n_slots, struct states **out)
{
	assert(n_slots > 0);
	struct states *s =
		calloc(1, sizeof *s + (size_t)n_slots * sizeof(struct state_slot));
	if (!s)
		return E_NOMEM;
	s->n_slots = n_slots;
	*out = s;
	return OK;
}

void states_destroy(struct states *s)
{
	free(s);
}

static struct state_slot *slot_at(struct states *s, int32_t slot)
{
	assert(slot >= 0 && slot < s->n_slots);
	return &s->slots[slot];
}

int32_t states_alloc(struct states *s)
{
	int32_t best = -1;
	for (int32_t i = 0; i < s->n_slots; i++) {
		const struct state_slot *c = &s->slots[i];
		if (c->refs > 0)
			continue;
		if (c->prefix == KVCACHE_ROOT) {
			best = i;
			break;
		}
		if (best < 0 || c->used < s->slots[best].used)
			best = i;
	}
	if (best >= 0)
		s->slots[best] = (struct state_slot){.refs = 1};
	return best;
}

void states_hold(struct states *s, int32_t slot)
{
	slot_at(s, slot)->refs++;
}

void states_release(struct states *s, int32_t slot)
{
	if (slot < 0)
		return;
	assert(slot_at(s, slot)->refs > 0);
	slot_at(s, slot)->refs--;
}

bool states_is_private(const struct states *s, int32_t slot)
{
	assert(slot >= 0 && slot < s->n_slots);
	return s->slots[slot].refs == 1 && s->slots[slot].prefix == KVCACHE_ROOT;
}

int states_holders(const struct states *s, int32_t slot)
{
	return s->slots[slot].refs;
}

int states_available(const struct states *s)
{
	int n = 0;
	for (int32_t i = 0; i < s->n_slots; i++)
		n += s->slots[i].refs == 0;
	return n;
}

int32_t states_find(const struct states *s, kvcache_prefix prefix)
{
	for (int32_t i = 0; prefix != KVCACHE_ROOT && i < s->n_slots; i++)
		if (s->slots[i].prefix == prefix)
			return i;
	return -1;
}

void states_touch(struct states *s, int32_t slot)
{
	slot_at(s, slot)->used = ++s->now;
}

void states_keep(struct states *s, int32_t slot, kvcache_prefix prefix)
{
	assert(slot_at(s, slot)->refs > 0 && prefix != KVCACHE_ROOT);
	if (states_find(s, prefix) >= 0)
		return;
	slot_at(s, slot)->prefix = prefix;
	states_touch(s, slot);
}

void states_drop(struct states *s, kvcache_prefix prefix)
{
	int32_t slot = states_find(s, prefix);
	if (slot >= 0)
		slot_at(s, slot)->prefix = KVCACHE_ROOT;
}

int states_n_kept(const struct states *s)
{
	int n = 0;
	for (int32_t i = 0; i < s->n_slots; i++)
		n += s->slots[i].prefix != KVCACHE_ROOT;
	return n;
}
