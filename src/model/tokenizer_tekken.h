/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads tekken.json, the tokenizer file of Mistral's folders that have no tokenizer.json, and
 * gives such a folder the chat template that belongs to the file's version. Thread: any.
 */
#pragma once
#include "model/tokenizer_hf.h"

/* True: dir has a tekken.json. */
bool tokenizer_tekken_has(const char *dir);
/* The chat template that a GGUF file names in place of one, as llama.cpp's converter has it;
 * malloc'ed. NULL: it is none of these names. */
char *tokenizer_tekken_named(struct str name);
/* For a model that hears, whose file has another model's template: llama.cpp's converter puts those
 * of Mistral Small 3.2 and Devstral into files of v11 and v13. The template of that version, by the
 * marks in `text`, and its name. NULL: text shows audio, or has no such marks. */
const char *tokenizer_tekken_hearing(const char *text, const char **out_version);
/* Loads out->tokenizer and the texts of its tokens. out->chat_template is that of versions v7, v11
 * and v13, and "" for others. Other members of *out stay. E_FORMAT names the place. */
enum status tokenizer_tekken_load(const char *dir, struct tokenizer_files *out,
				  struct fail *fail) MUST_USE;
