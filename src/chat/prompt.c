/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/prompt.h"

#include "base/alloc.h"

void prompt_alloc(struct request *r, int n)
{
	r->prompts = arena_alloc(&r->arena, (size_t)n * sizeof *r->prompts);
	r->n_prompts = n;
}

/* How many tokens stand before the last text that the user wrote. Counted from the prompt's
 * end, by the bytes of its tokens. Where a tokenizer respells text the count is a little
 * off; then a recurrent state is kept at a place that is a little off, too. */
static int32_t turn_of(const struct tokenizer *t, const struct marked *m,
		       const struct ids *ids)
{
	size_t i = m->n_marks, n_tok = ids->n;
	while (i > 0 && m->marks[i - 1].trust != TRUST_USER)
		i--;
	while (i > 0 && m->marks[i - 1].trust == TRUST_USER)
		i--;
	size_t begin = i > 0 ? m->marks[i - 1].end : 0;
	for (size_t n = m->text.n - begin; n > 0 && n_tok > 0; n_tok--) {
		size_t bytes = tokenizer_bytes(t, ids->p[n_tok - 1]).n;
		n -= MIN(n, bytes);
	}
	return begin > 0 ? (int32_t)n_tok : 0;
}

void prompt_begin_chat(const struct model *m, struct ids *ids)
{
	struct ids whole = {0};
	if (!tensors_gguf(m->tensors))
		return;
	tokenizer_add_prefix(m->tokenizer, &whole);
	size_t n = whole.n;
	bool has = ids->n >= n && (!n || memcmp(ids->p, whole.p, n * sizeof *ids->p) == 0);
	if (!has) {
		ids_add_all(&whole, ids->p, ids->n);
		ids_deinit(ids);
		*ids = whole;
		return;
	}
	ids_deinit(&whole);
}

/* All memory of a request is in its arena, and is freed with it. Without memory the prompt is
 * empty, and the body's work has noted it. */
static void keep(struct request *r, int i, const struct ids *ids)
{
	int32_t *copy = arena_try(&r->arena, ids->n * sizeof *copy);
	size_t n = copy ? ids->n : 0;
	if (n)
		memcpy(copy, ids->p, n * sizeof *copy);
	r->prompts[i] = (struct ids){copy, n, n};
}

enum status prompt_encode(const struct chat_model *m, struct request *r, int i,
			  const struct marked *text, bool stands_alone, struct fail *fail)
{
	const struct tokenizer *t = m->model->tokenizer;
	struct ids ids = {0};
	const struct tokenizer_memory memory = {m->encodings, r->cache_space};
	if (stands_alone)
		tokenizer_add_prefix(t, &ids);
	enum status st = tokenizer_encode_again(t, text, &memory, &ids, fail);
	if (st == OK && !stands_alone)
		prompt_begin_chat(m->model, &ids);
	if (st == OK && stands_alone)
		tokenizer_add_suffix(t, &ids);
	if (st == OK) {
		keep(r, i, &ids);
		if (i == 0 && r->n_prompts == 1)
			r->turn_at = turn_of(t, text, &r->prompts[0]);
	}
	ids_deinit(&ids);
	return st;
}

void prompt_repeat(struct request *r)
{
	for (int i = 1; i < r->n_prompts; i++)
		keep(r, i, &r->prompts[0]);
}

enum status prompt_see(struct request *r, int i, struct images *images,
		       const struct images_use *use, struct fail *fail)
{
	struct ids ids = {0};
	if (images->n == 0)
		return OK;
	if (!r->n_images_of)
		r->n_images_of = arena_alloc(&r->arena, (size_t)r->n_prompts *
							 sizeof *r->n_images_of);
	int n_before = r->n_images;
	ids_add_all(&ids, r->prompts[i].p, r->prompts[i].n);
	enum status st = images_expand(images, use, &ids, fail);
	if (st == OK) {
		keep(r, i, &ids);
		r->n_images_of[i] = r->n_images - n_before;
		for (int k = 0; k < r->n_images && r->images[k].at < r->turn_at; k++)
			r->turn_at += r->images[k].n - 1;
	}
	ids_deinit(&ids);
	return st;
}
