/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafts by a model: by the engine's own MTP layer (enum model_mtp), or by an EAGLE-3 head or a
 * smaller model beside it (draft_model.h). And what steps with drafts may record. Thread: engine.
 */
#pragma once
#include "engine/engine.h"

/* In contexts of up to so many positions, one recording of a step with drafts serves any number
 * of streams above one. 0: such steps are not recorded, or one for each number of streams. */
int32_t engine_alone_ctx(const struct engine *e);
/* From now on steps are recorded as if a sequence had n positions; 0: as they are. Results
 * stay the same. */
void engine_set_least_ctx(struct engine *e, int32_t n);

/* What is drafted after the newest token of a sequence, which is not in the cache yet. For the MTP
 * layer and a head the last step had the token before it, with a row of logits. */
enum { ENGINE_DRAFT_MAX = 15 }; /* engine_draft_max never returns more */
struct engine_draft {
	struct engine_seq *seq; /* with room for n tokens (engine_seq_reserve_draft) */
	int32_t token;          /* the newest token of seq */
	int n;                  /* draft tokens wanted, at most engine_draft_max */
	int32_t *out;           /* (n) the drafted tokens */
	int n_out;              /* draft tokens made; fewer than n where it cannot go on */
};
/* Draft tokens of a sequence at most; 0: no model drafts, or engine_draft_stop was called. */
int engine_draft_max(const struct engine *e);
/* Tokens of s that the model beside the engine's own must read before it drafts. 0: none, or a few,
 * which engine_draft reads on its way. -1: it will never draft for s. */
int engine_draft_behind(struct engine *e, struct engine_seq *s);
/* Has that model read up to `most` of these, which takes as long as a step of a prompt. *out_n: how
 * many it read. E_BACKEND. */
enum status engine_draft_read(struct engine *e, struct engine_seq *s, int most, int *out_n,
			      struct fail *fail) MUST_USE;
/* A head that drafts runs in each step. Its failure costs the step's sequences their drafts alone.
 * *out: what it came to in the last step, with *fail. False: there is none that runs. */
bool engine_draft_filled(const struct engine *e, enum status *out, struct fail *fail);
/* From now on engine_draft_max is 0, and a head runs no longer. */
void engine_draft_stop(struct engine *e);
/* Draft tokens for n sequences. Afterwards the logits of the last step are lost. E_BACKEND. */
enum status engine_draft(struct engine *e, struct engine_draft *g, int n,
			 struct fail *fail) MUST_USE;
