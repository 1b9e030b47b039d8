/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens that end an answer, besides those that a model's settings name. Thread: any.
 */
#pragma once
#include "model/model.h"

/* Adds id to the ends; one that is there already, or is no id, is left out. */
void model_ends_add(struct generation_defaults *d, int32_t id);
/* Adds the tokenizer's own end (eos_text), and special tokens whose spelling says that they end
 * a turn or a text. */
void model_ends_find(const struct tokenizer *t, const char *eos_text,
		     struct generation_defaults *d);
