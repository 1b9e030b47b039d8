/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache of sets: an id's hash names the set, and in it the oldest call gives way.
 * Ids are random, so sets fill evenly, and what is lost costs time, not
 * correctness. At most SETS * WAYS * MAX_BYTES = 16 MiB.
 */
#include "api/callstore.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"

enum { SETS = 128, WAYS = 8, MAX_BYTES = 16384 };

struct call_slot {
	char *bytes; /* id, name, args, text; NULL: free */
	size_t n_id, n_name, n_args, n_text;
};

struct callstore {
	pthread_mutex_t lock;
	struct call_slot slots[SETS][WAYS];
	unsigned char oldest[SETS];
};

struct callstore *callstore_create(void)
{
	struct callstore *s = xcalloc(1, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void callstore_destroy(struct callstore *s)
{
	if (!s)
		return;
	for (int i = 0; i < SETS; i++)
		for (int k = 0; k < WAYS; k++)
			free(s->slots[i][k].bytes);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static size_t set_of(struct str id)
{
	return hash_bytes(0, id.p, id.n) % SETS;
}

void callstore_put(struct callstore *s, struct str id,
		   const struct callstore_call *call)
{
	struct call_slot new = {NULL, id.n, call->name.n, call->args.n, call->text.n};
	struct buf all = {0};
	if (id.n + call->name.n + call->args.n + call->text.n > MAX_BYTES)
		return;
	buf_add_str(&all, id);
	buf_add_str(&all, call->name);
	buf_add_str(&all, call->args);
	buf_add_str(&all, call->text);
	new.bytes = buf_take(&all);
	size_t set = set_of(id);
	pthread_mutex_lock(&s->lock);
	struct call_slot *old = &s->slots[set][s->oldest[set]];
	s->oldest[set] = (unsigned char)((s->oldest[set] + 1) % WAYS);
	free(old->bytes);
	*old = new;
	pthread_mutex_unlock(&s->lock);
}

static struct str read_field(const char **at, size_t n, struct arena *a)
{
	struct str part = arena_str(a, (struct str){*at, n});
	*at += n;
	return part;
}

bool callstore_get(struct callstore *s, struct str id, struct arena *a,
		   struct callstore_call *out)
{
	const struct call_slot *found = NULL;
	pthread_mutex_lock(&s->lock);
	const struct call_slot *set = s->slots[set_of(id)];
	for (int k = 0; k < WAYS && !found; k++)
		if (set[k].bytes && str_eq(id, (struct str){set[k].bytes, set[k].n_id}))
			found = &set[k];
	if (found) {
		const char *at = found->bytes + found->n_id;
		out->name = read_field(&at, found->n_name, a);
		out->args = read_field(&at, found->n_args, a);
		out->text = read_field(&at, found->n_text, a);
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}
