/* SPDX-License-Identifier: Apache-2.0
 *
 * WordPiece, the vocabulary of BERT: a word becomes the longest piece that it begins with, then
 * the longest that the rest begins with, and so on. All pieces but the first are spelled with
 * "##". Thread: any, once built.
 *
 * Source: Wu et al., Google's Neural Machine Translation System, 2016, section 4.1;
 * tokenization.py of BERT.
 */
#pragma once
#include "tokenizer/vocab.h"

struct wordpiece {
	const struct vocab *vocab;
	int32_t unk_id;
	size_t max_chars; /* a longer word is unknown */
};

/* E_FORMAT: no unknown token. v must outlive w. */
enum status wordpiece_build(struct wordpiece *w, const struct vocab *v,
			    const struct tokenizer_def *def, struct fail *fail) MUST_USE;
/* Appends the ids of word (UTF-8), or the unknown token if some part of word has no piece. */
enum status wordpiece_encode(const struct wordpiece *w, struct str word,
			     struct ids *out) MUST_USE;
