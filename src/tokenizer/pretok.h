/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting text into the words that merging works on. Thread: any once created; a
 * struct pretok_work belongs to one.
 */
#pragma once
#include "tokenizer/tokenizer.h"

struct pretok;
/* Steps run in order, each on the pieces of the one before; the last must be
 * BYTE_LEVEL and no other may be. use_jit false: interpret, as also happens
 * where the system refuses executable memory. Faults are named as
 * "steps[i]". */
enum status pretok_create(const struct pretok_step *steps, int n_steps,
			  bool use_jit, struct pretok **out,
			  struct fail *fail) MUST_USE;
void pretok_destroy(struct pretok *p);

struct pretok_work;
struct pretok_work *pretok_work_create(const struct pretok *p);
void pretok_work_destroy(struct pretok_work *w);

/* Gets each word (n > 0, valid during the call) in order; not OK ends the run. */
typedef enum status (*pretok_word_fn)(void *ctx, struct str word);

/* Words of text, which must be UTF-8. E_LIMIT where a regex gives up. */
enum status pretok_run(const struct pretok *p, struct pretok_work *w,
		       struct str text, pretok_word_fn on_word, void *ctx,
		       struct fail *fail) MUST_USE;
