/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json and tokenizer_config.json (or chat_template.jinja beside them)
 * of a Hugging Face directory. Thread: any.
 */
#pragma once
#include "tokenizer/tokenizer.h"

struct tokenizer_files {
	struct tokenizer *tokenizer;
	char *chat_template;       /* malloc'ed, "" if none */
	char *bos_text, *eos_text; /* malloc'ed, "" if none */
};

/* A tokenizer of another kind than byte-level BPE, or a step that is not known, is
 * refused by name (E_UNSUPPORTED), never guessed. */
enum status tokenizer_hf_load(const char *dir, struct tokenizer_files *out,
			      struct fail *fail) MUST_USE;
/* The tokenizer alone, from the text of a tokenizer.json; `name` is for messages. */
enum status tokenizer_hf_parse(struct str json, const char *name,
			       struct tokenizer **out,
			       struct fail *fail) MUST_USE;
void tokenizer_files_deinit(struct tokenizer_files *f);
