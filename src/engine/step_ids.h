/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays of one step's batch, one after the other in a block of 32-bit words. engine.c makes
 * a block for the largest step. graph.c holds room for as many words on the device, and sends
 * the words of each step. Thread: engine.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Elements of the arrays. Letters as in kernels/README.md. */
struct step_counts {
	size_t n_tok, n_seq; /* T, B */
	size_t n_page;       /* B * max_pages_per_seq */
	size_t n_row;        /* R, rows of logits */
	size_t n_state;      /* B where the model has recurrent state, else 0 */
	size_t n_mtp;        /* T where the graph drafts, else 0 */
	size_t n_rope;       /* 3 T where prompts may have images, else 0 */
	size_t n_block;      /* 3 T where they may, and an indexer rotates blocks of positions */
	size_t n_lora;       /* T where rows may have adapters, else 0 */
	size_t n_seen;       /* T where tokens of an image see each other, else 0 */
};

/* X(type, field, elements): field of struct engine_batch and struct batch_arrays; c is a struct
 * step_counts *. What they hold: engine.h. */
#define STEP_IDS(X) \
	X(int32_t, token, c->n_tok) \
	X(int32_t, position, c->n_tok) \
	X(int32_t, seq_of, c->n_tok) \
	X(int32_t, slot, c->n_tok) \
	X(int32_t, first_tok, c->n_seq + 1) \
	X(int32_t, page_table, c->n_page) \
	X(int32_t, logit_rows, c->n_row) \
	X(float, inv_t, c->n_row) \
	X(int32_t, states.from, c->n_state) \
	X(int32_t, states.to, c->n_state) \
	X(int32_t, states.save, c->n_state) \
	X(int32_t, states.save_at, c->n_state) \
	X(int32_t, hidden, c->n_mtp) \
	X(int32_t, rope_position, c->n_rope) \
	X(int32_t, block_position, c->n_block) \
	X(int32_t, last_seen, c->n_seen) \
	X(int32_t, lora, c->n_lora) \
	X(float, lora_scale, c->n_lora)

/* Words of the block. */
static inline size_t step_ids_words(const struct step_counts *c)
{
	size_t n = 0;
#define X(type, field, elements) n += (elements);
	STEP_IDS(X)
#undef X
	return n;
}
