/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/staging.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/kvfile.h"

void staging_create(struct staging *r, const struct staging_source *from, int n, size_t each_bytes)
{
	*r = (struct staging){.n = n};
	r->each_bytes = ROUND_UP(each_bytes, KVFILE_ALIGN);
	size_t all = (size_t)n * r->each_bytes + KVFILE_ALIGN;
	if (n == 0 || each_bytes == 0)
		return;
	r->memory = from->alloc ? from->alloc(from->ctx, all) : NULL;
	r->is_pinned = r->memory != NULL;
	if (!r->memory)
		r->memory = malloc(all);
	if (r->memory)
		r->first = (char *)r->memory + (KVFILE_ALIGN - (uintptr_t)r->memory % KVFILE_ALIGN);
}

void staging_destroy(struct staging *r, const struct staging_source *from)
{
	if (r->is_pinned)
		from->free(from->ctx, r->memory);
	else
		free(r->memory);
	*r = (struct staging){.n = 0};
}

void *staging_take(struct staging *r, size_t n_bytes)
{
	for (int i = 0; r->first && n_bytes <= r->each_bytes && i < r->n; i++) {
		unsigned bit = 1u << i;
		if (!(atomic_fetch_or(&r->taken, bit) & bit))
			return r->first + (size_t)i * r->each_bytes;
	}
	return NULL;
}

bool staging_give(struct staging *r, const void *p)
{
	uintptr_t at = (uintptr_t)p - (uintptr_t)r->first;
	if (!p || !r->first || at >= (size_t)r->n * r->each_bytes)
		return false;
	atomic_fetch_and(&r->taken, ~(1u << at / r->each_bytes));
	return true;
}
