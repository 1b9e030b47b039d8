/* SPDX-License-Identifier: Apache-2.0 */
#include "api/prompt.h"

void prompt_alloc(struct request *r, int n)
{
	r->prompts = arena_alloc(&r->arena, (size_t)n * sizeof *r->prompts);
	r->n_prompts = n;
}

enum status prompt_encode(struct api_call *c, int i, const struct marked *text,
			  bool stands_alone, struct fail *fail)
{
	struct request *r = c->request;
	const struct tokenizer *t = c->api->model->tokenizer;
	struct ids ids = {0};
	enum status st = stands_alone ? tokenizer_encode_alone(t, text, &ids, fail)
				      : tokenizer_encode_marked(t, text, &ids, fail);
	if (st == OK) {
		/* Everything of a request lives and dies in its arena. */
		int32_t *copy = arena_alloc(&r->arena, ids.n * sizeof *copy);
		if (ids.n)
			memcpy(copy, ids.p, ids.n * sizeof *copy);
		r->prompts[i] = (struct ids){copy, ids.n, ids.n};
	}
	ids_deinit(&ids);
	return st;
}
