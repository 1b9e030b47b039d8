/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits are wide: the smallest sound model passes, and text of a broken one does
 * not come near them.
 */
#include "ctl/answer_rules.h"

#include <stdlib.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum { RUN = 4 /* words */, MAX_LOOP_SHARE = 2, MIN_ASCII_TENTHS = 9, COMMON_SHARE = 20 };
_Static_assert(ANSWER_MIN_WORDS == 20, "words_fault says it in words");

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Cuts the next word off *rest; an empty one at the end. */
static struct str next_word(struct str *rest)
{
	size_t begin = 0, end;
	while (begin < rest->n && !is_letter(rest->p[begin]))
		begin++;
	for (end = begin; end < rest->n && is_letter(rest->p[end]);)
		end++;
	struct str word = {rest->p + begin, end - begin};
	*rest = (struct str){rest->p + end, rest->n - end};
	return word;
}

static bool is_same(struct str a, struct str b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* Digits count as words too: "2+2=4" has the word 4. */
bool answer_has_word(struct str text, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; i + n <= text.n; i++) {
		bool begins = i == 0 || (!is_letter(text.p[i - 1]) &&
					 !(text.p[i - 1] >= '0' && text.p[i - 1] <= '9'));
		bool ends = i + n == text.n || (!is_letter(text.p[i + n]) &&
						!(text.p[i + n] >= '0' && text.p[i + n] <= '9'));
		if (begins && ends && strncasecmp(text.p + i, word, n) == 0)
			return true;
	}
	return false;
}

static bool is_common(struct str word)
{
	static const char *const common[] = {"the", "a", "an", "and", "of", "to", "in", "was",
					     "is", "it", "that", "he", "she", "they", "had",
					     "his", "her", "with", "for", "on"};
	for (size_t i = 0; i < ARRAY_LEN(common); i++)
		if (is_same(word, str_of(common[i])))
			return true;
	return false;
}

/* True if the run of words that begins at w[i] occurs earlier too. */
static bool is_repeated(const struct str *w, size_t i)
{
	for (size_t at = 0; at < i; at++) {
		size_t same = 0;
		while (same < RUN && is_same(w[at + same], w[i + same]))
			same++;
		if (same == RUN)
			return true;
	}
	return false;
}

static const char *words_fault(const struct str *w, size_t n)
{
	size_t repeated = 0, common = 0;
	for (size_t i = 0; i < n; i++)
		common += is_common(w[i]);
	for (size_t i = 0; i + RUN <= n; i++)
		repeated += is_repeated(w, i);
	if (n < ANSWER_MIN_WORDS)
		return "it has fewer than 20 words";
	if (repeated * MAX_LOOP_SHARE > n)
		return "it repeats itself";
	if (common * COMMON_SHARE < n)
		return "it is not English";
	return NULL;
}

/* Nine of ten letters are ASCII. A letter outside ASCII counts once, whatever its bytes. */
static bool is_mostly_ascii(struct str text)
{
	size_t ascii = 0, other = 0;
	while (text.n) {
		uint32_t cp;
		size_t n = utf8_decode(text, &cp);
		ascii += cp < 0x80 && is_letter((char)cp);
		other += cp >= 0xC0 && (cp < 0x2000 || cp > 0x2BFF); /* not punctuation, symbols
								      * or arrows */
		text = (struct str){text.p + n, text.n - n};
	}
	return ascii * 10 >= (ascii + other) * MIN_ASCII_TENTHS;
}

const char *answer_story_fault(struct str text)
{
	static const char replacement[] = "\xEF\xBF\xBD";
	if (utf8_check(text) >= 0 || memmem(text.p ? text.p : "", text.n, replacement, 3))
		return "it holds broken characters";
	if (!is_mostly_ascii(text))
		return "it is not English";
	struct str *w = NULL, rest = text;
	size_t n = 0;
	for (struct str word; (word = next_word(&rest)).n;) {
		if ((n & (n - 1)) == 0)
			w = xrealloc(w, 2 * (n + 1) * sizeof *w);
		w[n++] = word;
	}
	const char *fault = words_fault(w, n);
	free(w);
	return fault;
}
