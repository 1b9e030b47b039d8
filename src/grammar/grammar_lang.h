/* SPDX-License-Identifier: Apache-2.0
 *
 * Languages of texts: regular expressions with intersection and complement. Thread: one
 * at a time.
 *
 * A language is a small number in its pool, and equal terms have equal numbers. Only
 * lang_regex and lang_part can fail. If a pool exceeds its limit of work, its functions
 * return the empty language and lang_is_over returns true.
 */
#pragma once
#include "grammar/grammar_build.h"

typedef uint32_t lang;

struct lang_pool;
struct lang_pool *lang_pool_create(void);
void lang_pool_destroy(struct lang_pool *p);
/* True if the pool exceeded its limit of terms or work. Then no language of it may be
 * used. */
bool lang_is_over(const struct lang_pool *p);

enum { LANG_NONE = 0, LANG_EMPTY = 1, LANG_ANY = 2 }; /* no text; the empty text only; all texts */

/* One character of the ranges. Ranges may overlap and need no order. */
lang lang_class(struct lang_pool *p, const struct grammar_range *r, size_t n);
lang lang_text(struct lang_pool *p, struct str utf8);
lang lang_cat(struct lang_pool *p, lang a, lang b);
lang lang_alt(struct lang_pool *p, lang a, lang b);
lang lang_alt_of(struct lang_pool *p, const lang *of, size_t n);
lang lang_and(struct lang_pool *p, lang a, lang b);
lang lang_not(struct lang_pool *p, lang a);
/* min to max times a; max GRAMMAR_NO_MAX: no limit. */
lang lang_repeat(struct lang_pool *p, lang a, uint32_t min, uint32_t max);
/* All texts of min to max characters. */
lang lang_length(struct lang_pool *p, uint32_t min, uint32_t max);

/* The texts that a regex matches: as a whole, or with is_search in any part. Errors:
 * E_INVAL with the place for a syntax error or a construct that is not regular; E_LIMIT. */
enum status lang_regex(struct lang_pool *p, struct str text, bool is_search, lang *out,
		       struct fail *fail) MUST_USE;

/* The derivative: the texts of l that begin with the character, with that character
 * removed. */
lang lang_derive(struct lang_pool *p, lang l, uint32_t cp);
bool lang_matches(struct lang_pool *p, lang l, struct str utf8);
/* Bounds of the lengths of the language's texts, in characters. */
void lang_lengths(const struct lang_pool *p, lang l, uint32_t *min, uint32_t *max);
/* True if l is one class, repeated any number of times. *class is that class; the caller
 * may then choose another count. */
bool lang_is_class(const struct lang_pool *p, lang l, lang *class);
/* The texts of l with at most max characters in which unlimited repetitions make few
 * rounds. LANG_NONE: no simple form exists. */
lang lang_shorten(struct lang_pool *p, lang l, uint32_t max);
/* The texts of l with at most max characters, if l is counted words: a repetition of a
 * class and what follows the class, then a last word. LANG_NONE: l has another form. */
lang lang_budget(struct lang_pool *p, lang l, uint32_t max);
/* The languages whose union is l: writes at most `cap` of them and returns how many there
 * are. */
size_t lang_union(const struct lang_pool *p, lang l, lang *out, size_t cap);
/* The texts of l without this character. */
lang lang_avoid(struct lang_pool *p, lang l, uint32_t cp);

/* The texts of l as a part of a grammar. is_json: in the form in which a JSON string
 * holds them between its quotes. Errors: E_LIMIT. */
enum status lang_part(struct lang_pool *p, lang l, struct grammar_build *b,
		      bool is_json, grammar_part *out, struct fail *fail) MUST_USE;
