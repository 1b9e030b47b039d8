/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots from which the sequences of a step read a layer's recurrent state, and to which
 * they write it. A state tensor is (n_slots, ...); the engine assigns slots to sequences.
 * A slot that is written does not occur in any other sequence's from, to or save. A
 * sequence's save may be its from, if to is another.
 */
#pragma once
#include <stdint.h>

struct seq_states {
	const int32_t *from;    /* (B) slot of the state before the step; -1: zeros */
	const int32_t *to;      /* (B) slot for the state after the step; may equal from */
	const int32_t *save;    /* (B) slot for the state after token save_at[b], -1: none */
	const int32_t *save_at; /* (B) a token of b, counted within the step */
};
