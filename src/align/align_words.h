/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a transcript, as a forced aligner was trained with them: what spaces part, without
 * punctuation, and each Chinese character alone. Thread: any.
 *
 * Source: processing_qwen3_asr.py of Hugging Face Transformers.
 */
#pragma once
#include "base/buf.h"

struct align_word {
	size_t at, n;       /* its bytes in `letters` */
	size_t begin, end;  /* where it is in the transcript: bytes */
	int32_t from_ms, to_ms; /* when it was said; 0 until align_run */
};

struct align_words {
	struct align_word *p; /* (n), in order */
	size_t n, cap;
	struct buf letters;   /* of all words */
};

static inline struct str align_words_text(const struct align_words *w, size_t i)
{
	return (struct str){w->letters.p + w->p[i].at, w->p[i].n};
}

/* language: as in "English"; NULL: not known. E_UNSUPPORTED: one that no aligner was trained with,
 * or Japanese, whose words only a model tells. */
enum status align_words_check(const char *language, struct fail *fail) MUST_USE;
/* Appends the words of text. The language is one that align_words_check takes. */
void align_words_split(struct str text, const char *language, struct align_words *out);
/* Appends the words of a piece, whose text begins at byte `at` of the whole and whose audio begins
 * from_ms after its beginning. Times beyond end_ms become end_ms. */
void align_words_join(struct align_words *all, const struct align_words *piece, size_t at,
		      int32_t from_ms, int32_t end_ms);
void align_words_deinit(struct align_words *w);
