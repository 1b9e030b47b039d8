/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses by the model's own layer (enum model_mtp), and what steps with guesses may record.
 * Thread: engine.
 */
#pragma once
#include "engine/engine.h"

/* In contexts of up to so many positions, one recording of a step with guesses serves any number
 * of streams above one. 0: such steps are not recorded, or one for each number of streams. */
int32_t engine_alone_ctx(const struct engine *e);
/* From now on steps are recorded as if a sequence had n positions; 0: as they are. Results
 * stay the same. */
void engine_set_least_ctx(struct engine *e, int32_t n);

/* What the model's own layer guesses after the newest token of a sequence, which is not in the
 * cache yet. The last step had the token before it, with a row of logits. */
enum { ENGINE_GUESS_MAX = 3 };
struct engine_guess {
	struct engine_seq *seq; /* with room for n tokens (engine_seq_reserve_draft) */
	int32_t token;          /* the newest token of seq */
	int n;                  /* guesses wanted, at most ENGINE_GUESS_MAX */
	int32_t *out;           /* (n) the guessed tokens */
	int n_out;              /* guesses made; 0: no hidden state of the sequence is known */
};
bool engine_can_guess(const struct engine *e);
/* Guesses for n sequences. Afterwards the logits of the last step are lost. E_BACKEND. */
enum status engine_guess(struct engine *e, struct engine_guess *g, int n,
			 struct fail *fail) MUST_USE;
