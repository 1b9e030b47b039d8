/* SPDX-License-Identifier: Apache-2.0
 *
 * A model without weights under the real engine, for tests of the scheduler.
 *
 * It keeps each token in the KV slot the engine names and reads a sequence's whole
 * context back through the page table, so a page that is shared, freed or copied
 * wrongly changes what it says. Its logits are a hash of that context: the same
 * tokens give the same answer in whatever batch, chunk or page they come.
 *
 * With slots of recurrent state it also keeps a hash of a sequence's tokens there, as the
 * engine names them, and stops the test where a hash is not that of the tokens in the
 * pages.
 */
#pragma once
#include "base/clock.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

/* Ids: bytes, of which printable ASCII, space and newline have text; then one
 * id a script. A prompt that ends with a script's id is answered by the script's
 * text and FAKE_EOS, other prompts by letters. */
#define FAKE_EOS 0
#define FAKE_SCRIPT_0 256
#define FAKE_SCRIPTS 16
#define FAKE_VOCAB (FAKE_SCRIPT_0 + FAKE_SCRIPTS)

struct fake {
	/* virtual time, moved by forward; microseconds */
	int64_t now_us;
	int64_t cost_step_us;  /* each step */
	int64_t cost_token_us; /* and each token in it */
	int64_t cost_read_us;  /* and a slice of several tokens: weights that they read */
	int64_t cost_copy_us;  /* a page that is copied for the disk */

	const char *scripts[FAKE_SCRIPTS];
	int n_fail;            /* steps to come that fail */
	int n_nan;             /* steps to come whose logits are NaN */
	bool has_drafter;      /* a layer that drafts, and always fails */
	int64_t n_drafts;      /* how often it was asked */
	struct fake *beside;   /* the fake for which this one drafts, and whose time it takes */
	void (*on_step)(void *ctx); /* called inside the step, may be NULL */
	void *ctx;
	int64_t n_steps, n_tok;

	int n_states;
	uint64_t state[64];
	int64_t n_resumed;     /* slices that began in another's checkpoint */

	int page_size;
	size_t page_pad; /* bytes that a page has beside its tokens, in host memory */
	int32_t *kv; /* (pages * page_size) the token in each slot */
};

void fake_init(struct fake *f, int n_pages, int page_size);
void fake_deinit(struct fake *f);
struct engine_graph fake_graph(struct fake *f, int max_ctx); /* f outlives it */
struct clock fake_clock(struct fake *f);
struct tokenizer *fake_tokenizer(void);
/* A letter that depends on all three. */
int32_t fake_letter(uint64_t a, uint64_t b, uint64_t c);
