/* SPDX-License-Identifier: Apache-2.0 */
#include "align/align_words.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/berttext.h"

static bool is_chinese(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} blocks[] = {
		{0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df},
		{0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f}};
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
		if (c >= blocks[i].first && c <= blocks[i].last)
			return true;
	return false;
}

/* As Python's str.isspace has it. */
static bool is_space(uint32_t c)
{
	return berttext_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

/* Letters, numbers and the apostrophe. */
static bool is_kept(uint32_t c)
{
	utf8proc_category_t k = c == UTF8_BAD ? UTF8PROC_CATEGORY_CN
					      : utf8proc_category((utf8proc_int32_t)c);
	return c == '\'' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
	       (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) || is_chinese(c);
}

/* Appends a character to the last word, or to a new one. */
static void add(struct align_words *w, struct str s, size_t at, bool is_new)
{
	if (is_new) {
		if (w->n == w->cap) {
			w->cap = w->cap ? 2 * w->cap : 64;
			w->p = xrealloc(w->p, w->cap * sizeof *w->p);
		}
		w->p[w->n++] = (struct align_word){.at = w->letters.n, .begin = at};
	}
	struct align_word *last = &w->p[w->n - 1];
	buf_add_str(&w->letters, s);
	last->n += s.n;
	last->end = at + s.n;
}

/* Transformers splits Korean by a tokenizer that knows no word, and so at spaces alone. */
void align_words_split(struct str text, const char *language, struct align_words *out)
{
	bool is_korean = language && strcmp(language, "Korean") == 0;
	bool is_open = false; /* the last word goes on */
	for (size_t at = 0, n; at < text.n; at += n) {
		uint32_t c;
		n = utf8_decode((struct str){text.p + at, text.n - at}, &c);
		const struct str s = {text.p + at, n};
		if (is_space(c)) {
			is_open = false;
			continue;
		}
		if (!is_kept(c))
			continue;
		bool is_alone = !is_korean && is_chinese(c);
		add(out, s, at, !is_open || is_alone);
		is_open = !is_alone;
	}
}

enum status align_words_check(const char *language, struct fail *fail)
{
	static const char *const known[] = {"Cantonese", "Chinese", "English", "French", "German",
					    "Italian", "Korean", "Portuguese", "Russian",
					    "Spanish"};
	if (!language)
		return OK;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(language, known[i]) == 0)
			return OK;
	if (strcmp(language, "Japanese") == 0)
		return fail_set(fail, E_UNSUPPORTED, "no times are given for Japanese: its words "
				"are told apart by a model that is not here");
	return fail_set(fail, E_UNSUPPORTED, "no times are given for %s: the aligner knows "
			"Cantonese, Chinese, English, French, German, Italian, Korean, Portuguese, "
			"Russian and Spanish", language);
}

void align_words_join(struct align_words *all, const struct align_words *piece, size_t at,
		      int32_t from_ms, int32_t end_ms)
{
	for (size_t i = 0; i < piece->n; i++) {
		const struct align_word *w = &piece->p[i];
		add(all, align_words_text(piece, i), at + w->begin, true);
		struct align_word *own = &all->p[all->n - 1];
		own->end = at + w->end;
		own->from_ms = (int32_t)MIN((int64_t)from_ms + w->from_ms, end_ms);
		own->to_ms = (int32_t)MIN((int64_t)from_ms + w->to_ms, end_ms);
	}
}

void align_words_deinit(struct align_words *w)
{
	free(w->p);
	buf_deinit(&w->letters);
	*w = (struct align_words){0};
}
