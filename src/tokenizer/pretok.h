/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-tokenizer: cuts text into the words that byte-pair merging works on. Thread: any,
 * once created. A struct pretok_work belongs to one thread.
 */
#pragma once
#include "tokenizer/tokenizer.h"

struct pretok;
/* Steps run in order, each on the pieces of the one before. The last step must be
 * BYTE_LEVEL, and no other step may be. use_jit false: interpret the expressions, which
 * also happens if the system refuses executable memory. Error texts name the step as
 * "steps[i]". */
enum status pretok_create(const struct pretok_step *steps, int n_steps,
			  bool use_jit, struct pretok **out,
			  struct fail *fail) MUST_USE;
void pretok_destroy(struct pretok *p);

struct pretok_work;
struct pretok_work *pretok_work_create(void); /* NULL: no memory */
void pretok_work_destroy(struct pretok_work *w);

/* Receives each word in order. The word has n > 0 bytes and is valid during the call. A
 * result other than OK ends the run. */
typedef enum status (*pretok_word_fn)(void *ctx, struct str word);

/* Passes each word of text to the callback. text must be UTF-8. E_LIMIT: an expression
 * exceeded its match limit. */
enum status pretok_run(const struct pretok *p, struct pretok_work *w,
		       struct str text, pretok_word_fn on_word, void *ctx,
		       struct fail *fail) MUST_USE;
