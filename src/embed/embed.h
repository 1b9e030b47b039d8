/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that reads texts beside the one that writes: it gives a vector for each text,
 * or a score for each pair of a query and a document. Both models live in one process,
 * since two processes with a GPU keep its clock up for ever.
 *
 * Thread: any, once created. Of the threads that call embed_run at once one leads: it
 * runs steps with the texts of all of them, until its own are done.
 */
#pragma once
#include "backend/backend.h"
#include "engine/memory_plan.h"
#include "model/model.h"

struct embed;

enum embed_kind {
	EMBED_VECTORS,
	/* Qwen3-Reranker: the probability of "yes" against "no" as the next token. Source:
	 * the model's card. An encoder with a head that makes one number, as
	 * bge-reranker-v2-m3: that number's sigmoid. */
	EMBED_SCORES,
};

struct embed_opts {
	const char *dir;  /* as model_open takes it */
	const char *name; /* what clients call it */
	enum embed_kind kind;
	struct backend_opts backend;
	int32_t n_ctx;    /* longest text, in tokens; cut to what the model was made for */
	/* The model's memory is counted in this sum. NULL: the backend is asked how much is
	 * free. */
	struct memory_ledger *ledger;
};

/* Opens the model's files and counts its memory, but takes none. E_UNSUPPORTED: the model has
 * recurrent layers, a pooling that is not known, or for EMBED_SCORES neither the tokens of
 * Qwen3-Reranker nor such a head. E_CONFIG: it does not fit. */
enum status embed_open(const struct embed_opts *o, struct embed **out,
		       struct fail *fail) MUST_USE;
/* Once, then embed_run may be called: takes all memory. Encoders (encoder.h) run on the CPU and
 * take what a step needs while it runs. */
enum status embed_load(struct embed *e, struct fail *fail) MUST_USE;
enum status embed_create(const struct embed_opts *o, struct embed **out,
			 struct fail *fail) MUST_USE; /* both */
void embed_destroy(struct embed *e); /* NULL is fine; nobody may be in embed_run */

const char *embed_name(const struct embed *e);
const struct model *embed_model(const struct embed *e);
int32_t embed_width(const struct embed *e); /* floats for a text; scores: 1 */
int32_t embed_n_ctx(const struct embed *e);

struct embed_text {
	const int32_t *ids; /* (n) */
	int32_t n;          /* 1 to embed_n_ctx */
	float *out;         /* (embed_width) written; a vector of length 1 where the model
			     * is made so, or a probability */
};

struct embed_ask {
	const struct embed_text *texts;
	size_t n;
	/* True: nobody waits for them any more, looked at before each step. NULL: somebody
	 * does. */
	const _Atomic bool *is_gone;
};

/* Computes texts. A text's bits do not depend on the others where the backend's few_tok
 * is 0. E_INVAL for a length out of range, E_BACKEND; E_CANCELLED: *is_gone. */
enum status embed_run(struct embed *e, const struct embed_ask *ask,
		      struct fail *fail) MUST_USE;

/* The prompt of a pair for EMBED_SCORES. instruct: empty for the model's own. */
struct embed_pair {
	struct str instruct, query, document;
};
void embed_pair_text(const struct embed *e, const struct embed_pair *p, struct marked *out);
/* False: the model was not trained to follow an instruction. */
bool embed_takes_instruct(const struct embed *e);
