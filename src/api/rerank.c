/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/rerank in the shape of Jina and Cohere. A body has a query and documents; the
 * answer has the documents in falling order of their scores. A document is a text, or an
 * object with `text`. `top_n` keeps the best ones; `return_documents` (true) repeats their
 * texts; `instruct` replaces the model's own task ("Given a web search query, …").
 */
#include <stdlib.h>

#include "api/embed_texts.h"
#include "api/text_call.h"
#include "base/alloc.h"

#define MAX_DOCUMENTS 2048

struct rerank {
	struct embed_texts batch;
	struct str *documents; /* (batch.n) views into the body */
	int64_t n_top;
	bool returns_documents;
};

/* --- in ---------------------------------------------------------------------- */

static enum status read_document(const struct json_node *at, struct str *out,
				 struct fail *fail)
{
	if (!json_is_object(at->v))
		return json_read_need_str(at, out, fail);
	struct json_node text = json_read_get(at, "text");
	return json_read_need_str(&text, out, fail);
}

static enum status add_pair(const struct embed *e, const struct embed_pair *pair,
			    const struct json_node *at, struct embed_texts *b,
			    struct fail *fail)
{
	struct marked m = {0};
	size_t first = b->ids.n;
	embed_pair_text(e, pair, &m);
	enum status st = tokenizer_encode_marked(embed_model(e)->tokenizer, &m, &b->ids, fail);
	marked_deinit(&m);
	return st == OK ? embed_texts_add(e, b, first, at, fail) : st;
}

static enum status read_body(const struct embed *e, const struct json_node *body,
			     struct rerank *r, struct fail *fail)
{
	struct json_node query = json_read_get(body, "query");
	struct json_node documents = json_read_get(body, "documents");
	struct json_node instruct = json_read_get(body, "instruct");
	struct json_node top = json_read_get(body, "top_n");
	struct json_node returns = json_read_get(body, "return_documents");
	struct embed_pair pair = {0};
	size_t n = 0;
	r->returns_documents = true;
	r->n_top = MAX_DOCUMENTS;
	enum status st = json_read_need_str(&query, &pair.query, fail);
	if (st == OK)
		st = json_read_str(&instruct, &pair.instruct, fail);
	if (st == OK && pair.instruct.n && !embed_takes_instruct(e))
		st = json_read_fail(&instruct, fail, "is not supported: this model was not "
				    "trained to follow an instruction");
	if (st == OK)
		st = json_read_int(&top, 1, INT32_MAX, &r->n_top, fail);
	if (st == OK)
		st = json_read_bool(&returns, &r->returns_documents, fail);
	if (st == OK)
		st = json_read_need(&documents, fail);
	if (st == OK)
		st = json_read_list(&documents, MAX_DOCUMENTS, &n, fail);
	if (st == OK && n == 0)
		return json_read_fail(&documents, fail, "is empty: there is nothing to rank");
	r->documents = xcalloc(n + 1, sizeof *r->documents);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node at = json_read_item(&documents, i);
		st = read_document(&at, &r->documents[i], fail);
		pair.document = r->documents[i];
		if (st == OK)
			st = add_pair(e, &pair, &at, &r->batch, fail);
	}
	return st;
}

/* --- out --------------------------------------------------------------------- */

struct ranked {
	float score;
	size_t index;
};

static int compare_scores(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return x->index < y->index ? -1 : 1;
}

static void add_answer(const struct embed *e, const struct rerank *r, struct buf *out)
{
	size_t n = r->batch.n;
	struct ranked *ranked = xcalloc(n, sizeof *ranked);
	for (size_t i = 0; i < n; i++)
		ranked[i] = (struct ranked){r->batch.out[i], i};
	qsort(ranked, n, sizeof *ranked, compare_scores);
	buf_add_z(out, "{\"object\":\"list\",\"model\":");
	buf_add_json(out, str_of(embed_name(e)));
	buf_addf(out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu},\"results\":[",
		 r->batch.ids.n, r->batch.ids.n);
	for (size_t i = 0; i < n && i < (size_t)r->n_top; i++) {
		buf_addf(out, "%s{\"index\":%zu,\"relevance_score\":%.9g", i ? "," : "",
			 ranked[i].index, (double)ranked[i].score);
		if (r->returns_documents) {
			buf_add_z(out, ",\"document\":{\"text\":");
			buf_add_json(out, r->documents[ranked[i].index]);
			buf_add_c(out, '}');
		}
		buf_add_c(out, '}');
	}
	buf_add_z(out, "]}");
	free(ranked);
}

static enum status rerank(const struct api *a, const struct text_input *in, struct buf *out,
			  struct fail *fail)
{
	struct rerank r = {0};
	enum status st = embed_texts_check(a->reranker, "rerank_model", in->body, fail);
	if (st == OK)
		st = read_body(a->reranker, in->body, &r, fail);
	if (st == OK)
		st = embed_texts_run(a->reranker, &r.batch, in->is_gone, fail);
	if (st == OK)
		add_answer(a->reranker, &r, out);
	embed_texts_deinit(&r.batch);
	free(r.documents);
	return st;
}

enum status api_rerank(const struct api *a, const struct api_input *in, struct buf *out,
		       struct fail *fail)
{
	return text_call(a, in, rerank, out, fail);
}
