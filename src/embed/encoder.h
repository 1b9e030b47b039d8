/* SPDX-License-Identifier: Apache-2.0
 *
 * A model whose tokens attend to each other in both directions: BERT, XLM-RoBERTa, nomic-embed,
 * EmbeddingGemma (model_config.is_encoder). It keeps nothing from one step to the next, so
 * it needs no engine. It runs on the CPU backend, also beside a GPU. Thread: one at a time.
 */
#pragma once
#include "backend/backend.h"
#include "model/model.h"

struct encoder;

/* b must be a CPU backend; m and b outlive the encoder. E_UNSUPPORTED, E_MISSING and E_FORMAT
 * name a tensor; E_NOMEM. */
enum status encoder_create(struct model *m, struct backend *b, struct encoder **out,
			   struct fail *fail) MUST_USE;
void encoder_destroy(struct encoder *e); /* NULL is fine */

/* Memory for a step of n_tok tokens in at most n_text texts, while it runs. */
int64_t encoder_work_bytes(const struct model_config *c, const struct backend *b, int32_t n_tok,
			   int32_t n_text);

/* The texts of a step, one after the other. */
struct encoder_batch {
	const int32_t *ids;       /* (T), each within the vocabulary */
	const int32_t *first_tok; /* (B+1) text b is ids first_tok[b].., none is empty */
	int32_t n_text;           /* B */
};
/* Writes the last layer's output for each token, rows (T, d_model). A text's rows do not depend
 * on the other texts. E_NOMEM, E_BACKEND. */
enum status encoder_run(struct encoder *e, const struct encoder_batch *b, float *rows,
			struct fail *fail) MUST_USE;
