/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a grammar from parts. Thread: one at a time.
 *
 * A part is a small number and may be used in several places. Except for the regex, no
 * function here fails. The builder records that a limit was exceeded, and
 * grammar_build_finish reports it.
 */
#pragma once
#include "grammar/grammar.h"

#define GRAMMAR_NO_MAX UINT32_MAX

typedef uint32_t grammar_part;

/* Code points lo..hi, both included. */
struct grammar_range {
	uint32_t lo, hi;
};

/* A growing list of parts; the owner frees p. */
struct grammar_parts {
	grammar_part *p;
	size_t n, cap;
};
void grammar_parts_add(struct grammar_parts *to, grammar_part part);

struct grammar_build;
struct grammar_build *grammar_build_create(void);
void grammar_build_destroy(struct grammar_build *b);

/* Exactly these bytes; "" is the empty text. */
grammar_part grammar_build_lit(struct grammar_build *b, struct str bytes);
/* One character of the ranges, or (negated) any other character. Ranges may overlap and
 * need no order. */
grammar_part grammar_build_class(struct grammar_build *b,
				 const struct grammar_range *r, size_t n,
				 bool is_negated);
grammar_part grammar_build_seq(struct grammar_build *b, const grammar_part *parts,
			       size_t n);
/* One of n parts. With n = 0, no text matches. */
grammar_part grammar_build_alt(struct grammar_build *b, const grammar_part *parts,
			       size_t n);
/* One of n texts. Common beginnings are stored once. Reorders `texts`. */
grammar_part grammar_build_choice(struct grammar_build *b, struct str *texts,
				  size_t n);
grammar_part grammar_build_repeat(struct grammar_build *b, grammar_part part,
				  uint32_t min, uint32_t max);
/* The part, or nothing. */
grammar_part grammar_build_opt(struct grammar_build *b, grammar_part part);

/* A rule may be referred to before it is set. The name is copied and used in error texts. */
uint32_t grammar_build_rule(struct grammar_build *b, struct str name);
void grammar_build_set_rule(struct grammar_build *b, uint32_t rule,
			    grammar_part part);
grammar_part grammar_build_ref(struct grammar_build *b, uint32_t rule);
/* A reference to a rule that stands last in its surrounding rule (a tail call). Such
 * references do not nest. */
grammar_part grammar_build_tail(struct grammar_build *b, uint32_t rule);

/* The texts that the whole regex matches (lang_regex). */
enum status grammar_build_regex(struct grammar_build *b, struct str text,
				grammar_part *out, struct fail *fail) MUST_USE;
/* One character of the ranges, in the form in which a JSON string holds it between its
 * quotes. */
grammar_part grammar_build_json_class(struct grammar_build *b,
				      const struct grammar_range *r, size_t n);

/* Makes the grammar that starts with rule `root`. Errors: E_LIMIT; E_INVAL if a rule
 * begins with itself, is not set, or if no text matches at all. fail->param is the rule's
 * name. */
enum status grammar_build_finish(struct grammar_build *b, uint32_t root,
				 struct grammar **out, struct fail *fail) MUST_USE;
