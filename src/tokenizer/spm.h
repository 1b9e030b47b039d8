/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece vocabularies of the BPE kind (Llama 2, Mistral), built on the merges of
 * bpe.h. Pieces are text with U+2581 for a space. A character without a piece is encoded
 * as pieces of its bytes, such as "<0xE2>". There is usually no pre-tokenizer: merging
 * runs over a whole text, which may get a space before it. Two neighbours merge if
 * together they are a piece; the piece of the highest score goes first. Hugging Face's
 * files list these pairs as merges. In memory, pieces and texts hold the space itself.
 *
 * Source: Kudo and Richardson, SentencePiece, 2018; bpe_model.cc of SentencePiece.
 * Thread: as bpe.h.
 */
#pragma once
#include "tokenizer/bpe.h"
#include "base/markview.h"
#include "tokenizer/vocab.h"

/* Appends the bytes that a piece stands for. False: merging must not make this piece,
 * because it stands for a byte ("<0x0A>") or holds a space that no text has. */
bool spm_decode(struct str spelling, struct buf *out);
/* Adds the pieces of characters and bytes. If def has scores, also adds the merges that
 * they imply. Errors: E_FORMAT; E_UNSUPPORTED if a byte has no piece. */
enum status spm_build(struct bpe *b, const struct vocab *v,
		      const struct tokenizer_def *def, struct fail *fail) MUST_USE;
/* True if this text gets a space before it. is_first: the text begins the whole prompt. */
bool spm_takes_prefix(enum space_prefix kind, struct str text, bool is_first);
/* Writes v to out with a space for each U+2581. has_prefix: a space comes first. */
void spm_normalize(struct markview v, bool has_prefix, struct marked *out);
