/* SPDX-License-Identifier: Apache-2.0
 *
 * An embedding model or reranker beside the model that writes text. It gives a vector for each
 * text, or a score for each pair of a query and a document. Both models live in one process,
 * because two processes that use a GPU keep its clock up for ever.
 *
 * Thread: any, once created. If several threads call embed_run at once, one of them leads: it
 * runs steps with the texts of all, until its own texts are done.
 */
#pragma once
#include "backend/backend.h"
#include "engine/memory_plan.h"
#include "model/model.h"

struct embed;

enum embed_kind {
	EMBED_VECTORS,
	/* Qwen3-Reranker: the probability of "yes" against "no" as the next token. Source:
	 * the model's card. A GGUF file may have a head of these two alone. An encoder with a
	 * head that makes one number, as bge-reranker-v2-m3: that number's sigmoid. */
	EMBED_SCORES,
};

struct embed_opts {
	const char *dir;  /* path or name, as for model_open */
	const char *name; /* what clients call it */
	enum embed_kind kind;
	struct backend_opts backend;
	int32_t n_ctx;    /* longest text in tokens; lowered to what the model supports */
	/* The ledger that counts the memory of all models. NULL: the backend is asked how much
	 * is free. */
	struct memory_ledger *ledger;
};

/* Opens the model's files and counts its memory, but takes none. E_UNSUPPORTED: the model has
 * recurrent layers, a pooling that is not known, or for EMBED_SCORES neither the tokens of
 * Qwen3-Reranker nor the head of a reranker; or it is made for chats. E_CONFIG: the memory is
 * too small. */
enum status embed_open(const struct embed_opts *o, struct embed **out,
		       struct fail *fail) MUST_USE;
/* Takes all memory. Call it once, before embed_run. Encoders (encoder.h) run on the CPU and
 * take a step's memory while it runs. */
enum status embed_load(struct embed *e, struct fail *fail) MUST_USE;
void embed_destroy(struct embed *e); /* NULL is fine; no thread may be in embed_run */

const char *embed_name(const struct embed *e);
const struct model *embed_model(const struct embed *e);
int32_t embed_width(const struct embed *e); /* floats of a text's result; scores: 1 */
int32_t embed_n_ctx(const struct embed *e);

struct embed_text {
	const int32_t *ids; /* (n) */
	int32_t n;          /* 1 to embed_n_ctx */
	float *out;         /* (embed_width) written: a vector, of length 1 if the model
			     * normalises, or a probability */
};

struct embed_ask {
	const struct embed_text *texts;
	size_t n;
	/* Becomes true when nobody waits for the texts any more; read before each step. NULL:
	 * somebody always waits. */
	const _Atomic bool *is_gone;
};

/* Computes texts. If the backend's few_tok is 0, a text's result does not depend on the other
 * texts, bit for bit. E_INVAL for a length out of range, E_BACKEND; E_CANCELLED: *is_gone. */
enum status embed_run(struct embed *e, const struct embed_ask *ask,
		      struct fail *fail) MUST_USE;

/* A pair for EMBED_SCORES. instruct: empty for the model's default instruction. */
struct embed_pair {
	struct str instruct, query, document;
};
void embed_pair_text(const struct embed *e, const struct embed_pair *p, struct marked *out);
/* False: the model was not trained to follow an instruction. */
bool embed_takes_instruct(const struct embed *e);
