/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the sequences of a step find and leave the recurrent state of a layer. A state
 * tensor has slots (n_slots, ...); which sequence has which slot is the engine's
 * affair. Slots that are written are in no other sequence's from, to or save.
 */
#pragma once
#include <stdint.h>

struct seq_states {
	const int32_t *from;    /* (B) slot to begin with, -1: zeros */
	const int32_t *to;      /* (B) slot for the state after the step; may be from */
	const int32_t *save;    /* (B) slot for the state after token save_at[b], -1: none */
	const int32_t *save_at; /* (B) one of b's tokens, counted within the step */
};
