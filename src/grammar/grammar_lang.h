/* SPDX-License-Identifier: Apache-2.0
 *
 * Languages of character texts: regexes with intersection and complement. Thread: one
 * at a time.
 *
 * A language is a small number in its pool. Equal terms are one number. Nothing here
 * fails but lang_regex and lang_part: a pool that has done too much work answers with
 * the empty language and says so by lang_is_over.
 */
#pragma once
#include "grammar/grammar_build.h"

typedef uint32_t lang;

struct lang_pool;
struct lang_pool *lang_pool_create(void);
void lang_pool_destroy(struct lang_pool *p);
/* A bound on terms or work was passed: no language of the pool may be used. */
bool lang_is_over(const struct lang_pool *p);

enum { LANG_NONE = 0, LANG_EMPTY = 1, LANG_ANY = 2 }; /* no text; ""; all texts */

/* One character of the ranges (any order, overlaps allowed). */
lang lang_class(struct lang_pool *p, const struct grammar_range *r, size_t n);
lang lang_text(struct lang_pool *p, struct str utf8);
lang lang_cat(struct lang_pool *p, lang a, lang b);
lang lang_alt(struct lang_pool *p, lang a, lang b);
lang lang_alt_of(struct lang_pool *p, const lang *of, size_t n);
lang lang_and(struct lang_pool *p, lang a, lang b);
lang lang_not(struct lang_pool *p, lang a);
/* max: GRAMMAR_NO_MAX for no bound. */
lang lang_repeat(struct lang_pool *p, lang a, uint32_t min, uint32_t max);
/* Texts of min to max characters. */
lang lang_length(struct lang_pool *p, uint32_t min, uint32_t max);

/* What a regex matches: the whole text, or with is_search any part of it. E_INVAL with
 * the place, for what is not regular as well; E_LIMIT. */
enum status lang_regex(struct lang_pool *p, struct str text, bool is_search, lang *out,
		       struct fail *fail) MUST_USE;

bool lang_matches(struct lang_pool *p, lang l, struct str utf8);
/* Bounds of the lengths of its texts, in characters. */
void lang_lengths(const struct lang_pool *p, lang l, uint32_t *min, uint32_t *max);
/* Is it one class, repeated? Then also by other counts. */
bool lang_is_class(const struct lang_pool *p, lang l, lang *class);
/* Of texts of at most max characters those in which no part repeats very often; LANG_NONE
 * where that is not easily said. */
lang lang_shorten(struct lang_pool *p, lang l, uint32_t max);
/* Without all texts that have the character. */
lang lang_avoid(struct lang_pool *p, lang l, uint32_t cp);

/* Its texts as a part of a grammar; is_json: as they stand between a JSON string's
 * quotes. E_LIMIT. */
enum status lang_part(struct lang_pool *p, lang l, struct grammar_build *b,
		      bool is_json, grammar_part *out, struct fail *fail) MUST_USE;
