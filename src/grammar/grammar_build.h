/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a grammar from parts. Thread: one at a time.
 *
 * A part is a small number; it may be used in several places. Nothing here fails:
 * what goes beyond a bound is remembered and said by grammar_build_finish.
 */
#pragma once
#include "grammar/grammar.h"

#define GRAMMAR_NO_MAX UINT32_MAX

typedef uint32_t grammar_part;

/* Code points lo..hi, both included. */
struct grammar_range {
	uint32_t lo, hi;
};

/* A list of parts that grows; free p. */
struct grammar_parts {
	grammar_part *p;
	size_t n, cap;
};
void grammar_parts_add(struct grammar_parts *to, grammar_part part);

struct grammar_build;
struct grammar_build *grammar_build_create(void);
void grammar_build_destroy(struct grammar_build *b);

/* These bytes; "" is the empty text. */
grammar_part grammar_build_lit(struct grammar_build *b, struct str bytes);
/* One character of the ranges (any order, overlaps allowed), or of all others. */
grammar_part grammar_build_class(struct grammar_build *b,
				 const struct grammar_range *r, size_t n,
				 bool is_negated);
grammar_part grammar_build_seq(struct grammar_build *b, const grammar_part *parts,
			       size_t n);
/* One of n; of none: nothing can be written here. */
grammar_part grammar_build_alt(struct grammar_build *b, const grammar_part *parts,
			       size_t n);
/* One of n texts; shared beginnings are shared. Sorts texts. */
grammar_part grammar_build_choice(struct grammar_build *b, struct str *texts,
				  size_t n);
grammar_part grammar_build_repeat(struct grammar_build *b, grammar_part part,
				  uint32_t min, uint32_t max);
/* Empty or part. */
grammar_part grammar_build_opt(struct grammar_build *b, grammar_part part);

/* A rule can be referred to before it is set. The name (copied) is for errors. */
uint32_t grammar_build_rule(struct grammar_build *b, struct str name);
void grammar_build_set_rule(struct grammar_build *b, uint32_t rule,
			    grammar_part part);
grammar_part grammar_build_ref(struct grammar_build *b, uint32_t rule);
size_t grammar_build_n_rules(const struct grammar_build *b);

/* Add a regex that matches a whole text. With is_json it is about a JSON string's
 * characters and writes them as they stand between the quotes. is_search: what is not
 * anchored may have anything around it. avoid: a character that no text of it is to have;
 * 0: none. */
struct grammar_regex_opts {
	bool is_json, is_search;
	char avoid;
};
struct grammar_regex {
	grammar_part part;
	uint32_t min, max; /* characters; GRAMMAR_NO_MAX */
	/* Is one class repeated min..max times, and may be repeated otherwise. */
	bool is_class;
	grammar_part body;
};
enum status grammar_build_regex(struct grammar_build *b, struct str text,
				const struct grammar_regex_opts *o,
				struct grammar_regex *out,
				struct fail *fail) MUST_USE;
/* One character of a JSON string, of the ranges, as it is written between quotes. */
grammar_part grammar_build_json_class(struct grammar_build *b,
				      const struct grammar_range *r, size_t n);

/* E_LIMIT; E_INVAL for a rule that begins with itself, or one that is not set, or
 * when nothing can be written at all. fail->param is the rule's name. */
enum status grammar_build_finish(struct grammar_build *b, uint32_t root,
				 struct grammar **out, struct fail *fail) MUST_USE;
