/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/rooms.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/kvfile.h"

void rooms_create(struct rooms *r, const struct rooms_source *from, int n, size_t room_bytes)
{
	*r = (struct rooms){.n = n};
	r->room_bytes = ROUND_UP(room_bytes, KVFILE_ALIGN);
	size_t all = (size_t)n * r->room_bytes + KVFILE_ALIGN;
	if (n == 0 || room_bytes == 0)
		return;
	r->memory = from->alloc ? from->alloc(from->ctx, all) : NULL;
	r->is_pinned = r->memory != NULL;
	if (!r->memory)
		r->memory = malloc(all);
	if (r->memory)
		r->first = (char *)r->memory + (KVFILE_ALIGN - (uintptr_t)r->memory % KVFILE_ALIGN);
}

void rooms_destroy(struct rooms *r, const struct rooms_source *from)
{
	if (r->is_pinned)
		from->free(from->ctx, r->memory);
	else
		free(r->memory);
	*r = (struct rooms){.n = 0};
}

void *rooms_take(struct rooms *r, size_t n_bytes)
{
	for (int i = 0; r->first && n_bytes <= r->room_bytes && i < r->n; i++) {
		unsigned bit = 1u << i;
		if (!(atomic_fetch_or(&r->taken, bit) & bit))
			return r->first + (size_t)i * r->room_bytes;
	}
	return NULL;
}

bool rooms_give(struct rooms *r, const void *p)
{
	uintptr_t at = (uintptr_t)p - (uintptr_t)r->first;
	if (!p || !r->first || at >= (size_t)r->n * r->room_bytes)
		return false;
	atomic_fetch_and(&r->taken, ~(1u << at / r->room_bytes));
	return true;
}
