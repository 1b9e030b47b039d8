/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as BERT's tokenizer reads them: cleaned, without accents, in lower case, and cut at
 * white space and around punctuation. Thread: any.
 *
 * Source: tokenization.py of BERT; categories of characters as in Hugging Face
 * `tokenizers`, normalizers/bert.rs.
 */
#pragma once
#include "base/markview.h"
#include "tokenizer/pretok.h"

/* Appends the normal form of v, which is UTF-8. */
void berttext_normalize(const struct bert_text *b, struct markview v, struct marked *out);
/* Passes each word of text to on_word: white space parts words, and each character of
 * punctuation is a word. */
enum status berttext_words(struct str text, pretok_word_fn on_word, void *ctx) MUST_USE;
/* Unicode's property White_Space. */
bool berttext_is_space(uint32_t cp);
