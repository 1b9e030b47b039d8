/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of counted words that also have a maximal length, such as (\S+\s+){0,49}\S+ in at
 * most 500 characters. An automaton would count words and characters: 25,000 states. Here
 * a text has a budget of units instead, and each word pays for its length in whole units.
 * No more units exist than words are permitted, so one count holds both limits. Texts of
 * many words just above a unit are left out.
 */
#include "grammar/grammar_lang_private.h"

#include "base/alloc.h"

#define MAX_UNITS 200
#define LONGEST_WORD 80 /* words of up to so many characters must fit, if the text has room */

/* A word: a class without a limit, and what follows it. */
struct word {
	lang class, rest;
	uint32_t min;   /* of the class */
	uint32_t extra; /* maximal length of the rest */
};

/* l with its unlimited repetitions reduced to one round, or to their minimum. */
static lang tighten(struct lang_pool *p, lang l)
{
	struct term t = p->terms[l];
	if (t.kind == TERM_CAT)
		return lang_cat(p, tighten(p, t.a), tighten(p, t.b));
	if (t.kind == TERM_REPEAT && t.max == GRAMMAR_NO_MAX)
		return lang_repeat(p, t.a, t.min, MAX(t.min, 1));
	return l;
}

static bool read_word(struct lang_pool *p, lang l, struct word *out)
{
	struct term t = p->terms[l];
	lang head = t.kind == TERM_CAT ? t.a : l;
	struct term first = p->terms[head];
	if (first.kind != TERM_REPEAT || first.max != GRAMMAR_NO_MAX || first.min == 0 ||
	    p->terms[first.a].kind != TERM_CLASS || t.is_boolean)
		return false;
	*out = (struct word){.class = first.a, .min = first.min,
			     .rest = t.kind == TERM_CAT ? tighten(p, t.b) : LANG_EMPTY};
	out->extra = p->terms[out->rest].len_max;
	return out->extra < LONGEST_WORD && first.min < LONGEST_WORD;
}

/* The words that cost n units; LANG_NONE: no word does. */
static lang of_cost(struct lang_pool *p, const struct word *w, uint32_t unit, uint32_t n)
{
	uint32_t most = n * unit, least = most - unit + 1;
	if (most < w->min + w->extra)
		return LANG_NONE;
	least = least > w->extra ? least - w->extra : 1;
	return lang_cat(p, lang_repeat(p, w->class, MAX(least, w->min), most - w->extra),
			w->rest);
}

lang lang_budget(struct lang_pool *p, lang l, uint32_t max)
{
	struct term t = p->terms[l];
	struct term words = p->terms[t.kind == TERM_CAT ? t.a : l];
	struct word word, last;
	lang of[MAX_UNITS + 1], alts[2 * LONGEST_WORD + 4];
	if (t.kind != TERM_CAT || words.kind != TERM_REPEAT || words.min > 0 ||
	    !read_word(p, words.a, &word) || !read_word(p, t.b, &last))
		return LANG_NONE;
	uint32_t n_words = MIN(words.max, MAX_UNITS - 1) + 1;
	uint32_t unit = DIV_UP(max, n_words), n_units = max / unit;
	uint32_t longest = MIN(n_units, 1 + LONGEST_WORD / unit);
	of[0] = LANG_NONE;
	for (uint32_t k = 1; k <= n_units; k++) {
		size_t n = 0;
		for (uint32_t c = 1; c <= MIN(k, longest); c++) {
			alts[n++] = of_cost(p, &last, unit, c);
			alts[n++] = lang_cat(p, of_cost(p, &word, unit, c), of[k - c]);
		}
		of[k] = lang_alt_of(p, alts, n);
	}
	return of[n_units];
}
