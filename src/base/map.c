/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing, at most 5/8 full.
 */
#include "base/map.h"

#include <stdlib.h>

#include "base/alloc.h"

struct strmap_slot {
	struct str key;
	uint64_t hash;
	uint32_t value;
	bool used;
};

struct u64map_slot {
	uint64_t key, value;
	bool used;
};

/* 2^64 / golden ratio, rounded to an odd number (Knuth, TAOCP 3, 6.4). */
#define MULTIPLIER 0x9E3779B97F4A7C15u

static uint64_t map_mix(uint64_t h)
{
	h *= MULTIPLIER;
	return h ^ h >> 32;
}

static size_t capacity_for(size_t expect)
{
	size_t cap = 16;
	while (cap * 5 / 8 <= expect)
		cap *= 2;
	return cap;
}

void strmap_init(struct strmap *m, size_t expect)
{
	m->n = 0;
	m->cap = capacity_for(expect);
	m->slots = xcalloc(m->cap, sizeof *m->slots);
}

void strmap_deinit(struct strmap *m)
{
	free(m->slots);
	*m = (struct strmap){0};
}

static struct strmap_slot *str_slot(const struct strmap *m, struct str key,
				    uint64_t hash)
{
	size_t i = hash & (m->cap - 1);
	while (m->slots[i].used &&
	       !(m->slots[i].hash == hash && str_eq(m->slots[i].key, key)))
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

static void str_grow(struct strmap *m)
{
	struct strmap old = *m;
	strmap_init(m, old.n * 2);
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].used)
			*str_slot(m, old.slots[i].key, old.slots[i].hash) =
				old.slots[i];
	m->n = old.n;
	free(old.slots);
}

bool strmap_put(struct strmap *m, struct str key, uint32_t value)
{
	if (m->cap == 0)
		strmap_init(m, 0);
	if (m->n + 1 > m->cap * 5 / 8)
		str_grow(m);
	uint64_t hash = hash_bytes(0, key.p, key.n);
	struct strmap_slot *s = str_slot(m, key, hash);
	bool was = s->used;
	*s = (struct strmap_slot){was ? s->key : key, hash, value, true};
	m->n += !was;
	return was;
}

bool strmap_get(const struct strmap *m, struct str key, uint32_t *out_value)
{
	if (m->cap == 0)
		return false;
	const struct strmap_slot *s =
		str_slot(m, key, hash_bytes(0, key.p, key.n));
	if (!s->used)
		return false;
	*out_value = s->value;
	return true;
}

void u64map_init(struct u64map *m, size_t expect)
{
	m->n = 0;
	m->cap = capacity_for(expect);
	m->slots = xcalloc(m->cap, sizeof *m->slots);
}

void u64map_deinit(struct u64map *m)
{
	free(m->slots);
	*m = (struct u64map){0};
}

static struct u64map_slot *u64_slot(const struct u64map *m, uint64_t key)
{
	size_t i = map_mix(map_mix(key)) & (m->cap - 1);
	while (m->slots[i].used && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

static void u64_grow(struct u64map *m)
{
	struct u64map old = *m;
	u64map_init(m, old.n * 2);
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].used)
			*u64_slot(m, old.slots[i].key) = old.slots[i];
	m->n = old.n;
	free(old.slots);
}

bool u64map_put(struct u64map *m, uint64_t key, uint64_t value)
{
	if (m->cap == 0)
		u64map_init(m, 0);
	if (m->n + 1 > m->cap * 5 / 8)
		u64_grow(m);
	struct u64map_slot *s = u64_slot(m, key);
	bool was = s->used;
	*s = (struct u64map_slot){key, value, true};
	m->n += !was;
	return was;
}

bool u64map_get(const struct u64map *m, uint64_t key, uint64_t *out_value)
{
	if (m->cap == 0)
		return false;
	const struct u64map_slot *s = u64_slot(m, key);
	if (!s->used)
		return false;
	*out_value = s->value;
	return true;
}
