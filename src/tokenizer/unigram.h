/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece vocabularies of the unigram kind (XLM-RoBERTa): each piece has a
 * probability, and a word becomes the pieces whose product is largest. In memory, pieces
 * and texts hold a space for U+2581, as in spm.h. Thread: any, once built. A struct
 * unigram_work belongs to one thread.
 *
 * Source: Kudo, Subword Regularization, 2018, section 3.1; ties and unknown characters as
 * in Hugging Face `tokenizers`.
 */
#pragma once
#include "base/markview.h"
#include "tokenizer/vocab.h"

struct unigram {
	struct strmap pieces; /* bytes of a piece to its id; views into the vocabulary */
	double *log_probs;    /* by id */
	double unknown;       /* log probability of a character without a piece */
	int32_t unk_id;
	size_t max_bytes;     /* length of the longest piece in bytes */
};

/* E_FORMAT: a probability that is no number, or no unknown token. v must outlive u. */
enum status unigram_build(struct unigram *u, const struct vocab *v,
			  const struct tokenizer_def *def, struct fail *fail) MUST_USE;
void unigram_deinit(struct unigram *u);

/* Scratch memory of unigram_encode; starts zeroed. */
struct unigram_work {
	struct unigram_node *nodes;
	int32_t *ids;
	size_t cap;
};
void unigram_work_deinit(struct unigram_work *w);

/* Appends the ids of word, which is UTF-8. A run of unknown characters is one token. */
enum status unigram_encode(const struct unigram *u, struct unigram_work *w,
			   struct str word, struct ids *out) MUST_USE;

/* Appends v with its white space as the rules say. */
void unigram_spaces(const struct space_rules *r, struct markview v, struct marked *out);
