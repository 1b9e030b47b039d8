/* SPDX-License-Identifier: Apache-2.0
 *
 * What tokenizer.json of an encoder holds: vocabularies of unigrams and of WordPiece, and
 * their normalizers and pre-tokenizers. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/arena.h"
#include "tokenizer/tokenizer.h"

/* True if model.type of tokenizer.json is of such a vocabulary. */
bool tokenizer_encoders_has(const char *type);
/* Fills def's kind, pieces and settings of words from `model`. Views into it, and memory of
 * a. E_FORMAT and E_UNSUPPORTED name the place. */
enum status tokenizer_encoders_model(const json_t *model, struct arena *a,
				     struct tokenizer_def *def, struct fail *fail) MUST_USE;
/* One step of normalizer or pre_tokenizer, at `place` of the file. */
enum status tokenizer_encoders_normalizer(const json_t *v, const char *place, struct arena *a,
					  struct tokenizer_def *def,
					  struct fail *fail) MUST_USE;
enum status tokenizer_encoders_pretok(const json_t *v, const char *place,
				      struct tokenizer_def *def,
				      struct fail *fail) MUST_USE;
/* After all steps: what is needed is there. */
enum status tokenizer_encoders_check(const struct tokenizer_def *def,
				     struct fail *fail) MUST_USE;
