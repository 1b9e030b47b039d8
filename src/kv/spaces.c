/* SPDX-License-Identifier: Apache-2.0
 *
 * A space is looked up once for each prompt. Comparing up to SPACES_MAX hashes costs about
 * a microsecond, so a table with buckets would gain nothing.
 */
#include "kv/spaces.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

struct space {
	uint64_t hash, used;
	kvcache_prefix root;
	size_t n;
	char *name;
};

struct spaces {
	struct kvcache *kv;
	uint64_t now;
	int n;
	struct space list[SPACES_MAX];
};

struct spaces *spaces_create(struct kvcache *kv)
{
	struct spaces *s = xcalloc(1, sizeof *s);
	s->kv = kv;
	return s;
}

void spaces_destroy(struct spaces *s)
{
	for (int i = 0; s && i < s->n; i++)
		free(s->list[i].name);
	free(s);
}

static struct space *spaces_find(struct spaces *s, struct str name, uint64_t hash)
{
	for (int i = 0; i < s->n; i++) {
		const struct space *x = &s->list[i];
		if (x->hash == hash && str_eq((struct str){x->name, x->n}, name))
			return &s->list[i];
	}
	return NULL;
}

/* An unused entry, or that of the space that was used least recently. */
static struct space *make_room(struct spaces *s)
{
	if (s->n < SPACES_MAX)
		return &s->list[s->n++];
	struct space *oldest = &s->list[0];
	for (int i = 1; i < s->n; i++)
		if (s->list[i].used < oldest->used)
			oldest = &s->list[i];
	free(oldest->name);
	return oldest;
}

kvcache_prefix spaces_root(struct spaces *s, struct str name)
{
	if (name.n == 0)
		return KVCACHE_ROOT;
	uint64_t hash = hash_bytes(0, name.p, name.n);
	struct space *x = spaces_find(s, name, hash);
	if (!x) {
		x = make_room(s);
		*x = (struct space){.hash = hash, .root = kvcache_new_root(s->kv),
				    .n = name.n, .name = xmalloc(name.n)};
		memcpy(x->name, name.p, name.n);
	}
	x->used = ++s->now;
	return x->root;
}
