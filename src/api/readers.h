/* SPDX-License-Identifier: Apache-2.0
 *
 * What /v1/embeddings and /v1/rerank share: the models that read. Thread: any.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* A list of texts as ids, and what the model makes of them. */
struct readers_batch {
	struct ids ids;             /* of all texts, one behind the other */
	struct embed_text *texts;   /* (n); their ids are set by readers_run */
	size_t n, cap;
	float *out;                 /* (n, embed_width) */
};

/* E_UNSUPPORTED where e is NULL; `setting` names what to set. E_MODEL where the body asks
 * for another model. */
enum status readers_check(const struct embed *e, const char *setting,
			  const struct json_node *body, struct fail *fail) MUST_USE;
/* Notes that the ids from `first` on are the next text, which the client wrote at `at`.
 * E_CTX_LEN with both counts; E_INVAL for a text of no tokens. */
enum status readers_add(const struct embed *e, struct readers_batch *b, size_t first,
			const struct json_node *at, struct fail *fail) MUST_USE;
/* Computes b->out. Slow: on a worker thread. is_gone: as embed_ask has it. */
enum status readers_run(struct embed *e, struct readers_batch *b, const _Atomic bool *is_gone,
			struct fail *fail) MUST_USE;
void readers_deinit(struct readers_batch *b);
