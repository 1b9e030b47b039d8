/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a prompt was not found further in the prefix cache (kv/miss.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine_disk.h"
#include "engine/engine_private.h"

void engine_miss_remember(struct engine *e, const struct engine_seq *s)
{
	int size = kvcache_page_size(e->kv);
	if (!e->histories || s->length == 0)
		return;
	int32_t *tokens = xmalloc(sizeof *tokens * (size_t)s->length);
	for (int at = 0; at < s->length; at += size)
		memcpy(tokens + at, kvcache_tokens(e->kv, s->pages[at / size]),
		       sizeof *tokens * (size_t)MIN(size, s->length - at));
	histories_add(e->histories, (struct str){s->space ? s->space : "", s->space_n}, tokens,
		      s->length);
	free(tokens);
}

void engine_seq_miss(struct engine *e, const struct engine_seq *s,
		     const struct engine_prompt *p, struct engine_miss *out)
{
	struct history_match m = {0};
	int32_t *own;
	const int32_t *words = engine_image_words(e, p, &own);
	if (e->histories)
		histories_find(e->histories, p->space, words, p->n, &m);
	free(own);
	const struct miss_facts facts = {
		.n_prompt = p->n, .n_cached = s->length, .n_pages = s->n_found,
		.page_size = kvcache_page_size(e->kv), .n_alike = m.n_alike,
		.n_history = m.n, .keeps = kvcache_keeps(e->kv),
		.n_foreign = engine_disk_foreign(e, p, s->length)};
	*out = (struct engine_miss){miss_of(&facts), m.tokens, m.n};
}
