/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an encoder's tokenizer.json: vocabularies of unigrams and of WordPiece, and their
 * normalizers and pre-tokenizers. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/arena.h"
#include "tokenizer/tokenizer.h"

/* True if `type`, model.type of tokenizer.json, is such a vocabulary. */
bool tokenizer_encoders_has(const char *type);
/* Fills in def's kind, pieces and settings of words from `model`. def keeps views into `model`
 * and memory of the arena. E_FORMAT and E_UNSUPPORTED name the place. */
enum status tokenizer_encoders_model(const json_t *model, struct arena *a,
				     struct tokenizer_def *def, struct fail *fail) MUST_USE;
/* Reads one step of normalizer or pre_tokenizer, which stands at `place` in the file. */
enum status tokenizer_encoders_normalizer(const json_t *v, const char *place, struct arena *a,
					  struct tokenizer_def *def,
					  struct fail *fail) MUST_USE;
enum status tokenizer_encoders_pretok(const json_t *v, const char *place,
				      struct tokenizer_def *def,
				      struct fail *fail) MUST_USE;
/* Checks, after all steps are read, that no needed step is missing. */
enum status tokenizer_encoders_check(const struct tokenizer_def *def,
				     struct fail *fail) MUST_USE;
