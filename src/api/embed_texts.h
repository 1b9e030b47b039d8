/* SPDX-License-Identifier: Apache-2.0
 *
 * What /v1/embeddings and /v1/rerank share: they ask models that only read. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* A list of texts as token ids, and the model's output for them. */
struct embed_texts {
	struct ids ids;             /* of all texts, one text behind the other */
	struct embed_text *texts;   /* (n); their ids are set by embed_texts_run */
	size_t n, cap;
	float *out;                 /* (n, embed_width) */
};

/* Checks that the model is there and is the one that the body names. E_UNSUPPORTED where e
 * is NULL; `setting` is the setting that would load it. E_MODEL where the body names
 * another model. */
enum status embed_texts_check(const struct embed *e, const char *setting,
			      const struct json_node *body, struct fail *fail) MUST_USE;
/* Makes the ids from `first` on the next text; `at` is the client's text. E_CTX_LEN with
 * both counts; E_INVAL for a text of no tokens. */
enum status embed_texts_add(const struct embed *e, struct embed_texts *b, size_t first,
			    const struct json_node *at, struct fail *fail) MUST_USE;
/* Computes b->out. Slow: for a worker thread. is_gone: as in struct embed_ask. */
enum status embed_texts_run(struct embed *e, struct embed_texts *b, const _Atomic bool *is_gone,
			    struct fail *fail) MUST_USE;
void embed_texts_deinit(struct embed_texts *b);
