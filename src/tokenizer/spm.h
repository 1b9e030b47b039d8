/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece vocabularies of the BPE kind (Llama 2, Mistral), on the merges of bpe.h.
 *
 * Their pieces are text, with U+2581 for a space; a character that no piece is goes in as
 * pieces of its bytes, "<0xE2>". There are no words as a rule: merging runs over a whole
 * text, which may get a space before it. A pair is merged where both together are a piece,
 * the piece of the highest score first; Hugging Face's files list these as merges. Here
 * pieces and texts have the space itself. Source: Kudo and Richardson, SentencePiece, 2018;
 * bpe_model.cc of SentencePiece. Thread: as bpe.h.
 */
#pragma once
#include "tokenizer/bpe.h"
#include "base/markview.h"
#include "tokenizer/vocab.h"

/* The bytes a piece stands for, appended to out. False: merging must not reach it, as it
 * is a byte's ("<0x0A>") or has a space that no text has. */
bool spm_decode(struct str spelling, struct buf *out);
/* Pieces of characters and bytes, and where def has scores the merges these mean. E_FORMAT,
 * E_UNSUPPORTED where a byte has no piece. */
enum status spm_build(struct bpe *b, const struct vocab *v,
		      const struct tokenizer_def *def, struct fail *fail) MUST_USE;
/* Does this text get a space before it? is_first: it begins the whole. */
bool spm_takes_prefix(enum space_prefix kind, struct str text, bool is_first);
/* v with the space before it (has_prefix), and a space for each U+2581. */
void spm_normalize(struct markview v, bool has_prefix, struct marked *out);
