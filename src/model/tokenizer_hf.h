/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads tokenizer.json, tokenizer_config.json and chat templates of a Hugging
 * Face directory. Thread: any.
 */
#pragma once
#include "tokenizer/tokenizer.h"

struct tokenizer_files {
	struct tokenizer *tokenizer;
	char *chat_template;       /* malloc'ed, "" if none */
	char *bos_text, *eos_text; /* malloc'ed, "" if none */
	const char *note;          /* what an operator should know, static; NULL: nothing */
};

/* Load the tokenizer of a folder. Byte-level BPE, converted SentencePiece, and the encoders'
 * unigrams and WordPiece are known. Any other kind or step is refused by name (E_UNSUPPORTED),
 * never guessed. */
enum status tokenizer_hf_load(const char *dir, struct tokenizer_files *out,
			      struct fail *fail) MUST_USE;
/* Parse only a tokenizer, from the text of a tokenizer.json; `name` is for messages. */
enum status tokenizer_hf_parse(struct str json, const char *name,
			       struct tokenizer **out,
			       struct fail *fail) MUST_USE;
void tokenizer_files_deinit(struct tokenizer_files *f);
