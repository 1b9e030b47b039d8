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
/* The same, where it is the last that the rule it stands in writes: rules that go on with
 * each other like this do not nest. */
grammar_part grammar_build_tail(struct grammar_build *b, uint32_t rule);
size_t grammar_build_n_rules(const struct grammar_build *b);

/* The texts that the whole of a regex matches (lang_regex). */
enum status grammar_build_regex(struct grammar_build *b, struct str text,
				grammar_part *out, struct fail *fail) MUST_USE;
/* One character of a JSON string, of the ranges, as it is written between quotes. */
grammar_part grammar_build_json_class(struct grammar_build *b,
				      const struct grammar_range *r, size_t n);

/* E_LIMIT; E_INVAL for a rule that begins with itself, or one that is not set, or
 * when nothing can be written at all. fail->param is the rule's name. */
enum status grammar_build_finish(struct grammar_build *b, uint32_t root,
				 struct grammar **out, struct fail *fail) MUST_USE;
