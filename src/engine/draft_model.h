/* SPDX-License-Identifier: Apache-2.0
 *
 * What drafts beside the engine's own model (engine_opts.draft): a smaller model with the same
 * vocabulary, or an EAGLE-3 head (eagle.h). The head runs in each step. Of the model:
 *
 * Its keys and values lie in pages of its own that have the numbers of the engine's pages. So a
 * prefix that sequences share is shared here, too, and a sequence needs no second page table. It
 * reads a sequence's tokens only when the sequence wants a draft (engine_seq.n_read). What it
 * writes into a shared page is the same for all that share it. Thread: engine.
 */
#pragma once
#include "engine/engine.h"

struct draft_model {
	struct engine_graph graph;
	int max_tok;     /* tokens in one step */
	float *logits;   /* (ENGINE_HIDDEN_ROWS, n_out) */
	bool *has_page;  /* (n_pages) it has read all tokens of the page */
};
static inline bool draft_model_is_head(const struct draft_model *d)
{
	return d->graph.draft != NULL;
}
/* The layers of m whose inputs the head reads. */
void draft_model_taps(const struct model *m, const struct model *draft, int32_t out[EAGLE_TAPS]);

/* Can `draft` draft for m? E_CONFIG says why not. It is a model that cannot draft, a head for
 * models of another shape, or has another vocabulary. In another vocabulary an ordinary token has
 * another text, or many tokens are missing. Added tokens may be called differently, and rows
 * without a token do not count. */
enum status draft_model_check(const struct model *m, const struct model *draft,
			      struct fail *fail) MUST_USE;
/* Takes over the graph. */
struct draft_model *draft_model_create(const struct engine_graph *g, int n_pages, int max_tok);
void draft_model_destroy(struct draft_model *d); /* NULL is fine */
/* The best token behind each row of b: ids (R). */
enum status draft_model_run(struct draft_model *d, const struct engine_batch *b, int32_t *ids,
			    struct fail *fail) MUST_USE;
