/* SPDX-License-Identifier: Apache-2.0 */
#include "api/embed_texts.h"

#include <stdlib.h>

#include "base/alloc.h"

enum status embed_texts_check(const struct embed *e, const char *setting,
			      const struct json_node *body, struct fail *fail)
{
	struct json_node at = json_read_get(body, "model");
	struct str name = {0};
	if (!e)
		return fail_set(fail, E_UNSUPPORTED, "the model that is served writes text and "
				"has no embeddings or scores to give: set %s in halod.conf to "
				"the folder or the name of a second model", setting);
	enum status st = json_read_str(&at, &name, fail);
	if (st == OK && at.v && !api_is_named(name, embed_name(e)))
		st = fail_at(fail, E_MODEL, "model", "the model of this address is \"%s\"",
			     embed_name(e));
	return st;
}

enum status embed_texts_add(const struct embed *e, struct embed_texts *b, size_t first,
			    const struct json_node *at, struct fail *fail)
{
	size_t n = b->ids.n - first;
	if (n == 0)
		return json_read_fail(at, fail, "is empty: there is nothing to read");
	if (n > (size_t)embed_n_ctx(e)) {
		fail_set(fail, E_CTX_LEN, "a text of %zu tokens: the model reads at most %d", n,
			 (int)embed_n_ctx(e));
		json_read_locate(at, fail);
		if (fail) {
			fail->got = (int64_t)n;
			fail->limit = embed_n_ctx(e);
		}
		return E_CTX_LEN;
	}
	if (b->n == b->cap) {
		b->cap = b->cap ? 2 * b->cap : 16;
		b->texts = xrealloc(b->texts, b->cap * sizeof *b->texts);
	}
	b->texts[b->n++] = (struct embed_text){.n = (int32_t)n};
	return OK;
}

enum status embed_texts_run(struct embed *e, struct embed_texts *b, const _Atomic bool *is_gone,
			    struct fail *fail)
{
	size_t at = 0, width = (size_t)embed_width(e);
	b->out = xcalloc(b->n * width, sizeof *b->out);
	for (size_t i = 0; i < b->n; i++) {
		b->texts[i].ids = b->ids.p + at;
		b->texts[i].out = b->out + i * width;
		at += (size_t)b->texts[i].n;
	}
	return embed_run(e, &(struct embed_ask){b->texts, b->n, is_gone}, fail);
}

void embed_texts_deinit(struct embed_texts *b)
{
	ids_deinit(&b->ids);
	free(b->texts);
	free(b->out);
}
