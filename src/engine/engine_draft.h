/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafts by the MTP layer (enum model_mtp), and what steps with drafts may record.
 * Thread: engine.
 */
#pragma once
#include "engine/engine.h"

/* In contexts of up to so many positions, one recording of a step with drafts serves any number
 * of streams above one. 0: such steps are not recorded, or one for each number of streams. */
int32_t engine_alone_ctx(const struct engine *e);
/* From now on steps are recorded as if a sequence had n positions; 0: as they are. Results
 * stay the same. */
void engine_set_least_ctx(struct engine *e, int32_t n);

/* What the MTP layer drafts after the newest token of a sequence, which is not in the
 * cache yet. The last step had the token before it, with a row of logits. */
enum { ENGINE_DRAFT_MAX = 3 };
struct engine_draft {
	struct engine_seq *seq; /* with room for n tokens (engine_seq_reserve_draft) */
	int32_t token;          /* the newest token of seq */
	int n;                  /* draft tokens wanted, at most ENGINE_DRAFT_MAX */
	int32_t *out;           /* (n) the drafted tokens */
	int n_out;              /* draft tokens made; 0: no hidden state of the sequence is known */
};
bool engine_can_draft(const struct engine *e);
/* Draft tokens for n sequences. Afterwards the logits of the last step are lost. E_BACKEND. */
enum status engine_draft(struct engine *e, struct engine_draft *g, int n,
			 struct fail *fail) MUST_USE;
