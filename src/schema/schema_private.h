/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files that read a schema; only they include this header.
 *
 * Each place of a document has a list of schemas that must all hold. References and allOf
 * add to the list, and a keyword is read from all schemas of the list together. Each
 * distinct list becomes one rule, so recursive schemas end.
 */
#pragma once
#include "schema/schema.h"
#include "base/arena.h"
#include "base/map.h"
#include "json/json_digits.h"
#include "grammar/grammar_build.h"
#include "grammar/grammar_lang.h"

enum {
	TYPE_NULL = 1, TYPE_BOOL = 2, TYPE_INTEGER = 4, TYPE_FRACTION = 8,
	TYPE_STRING = 16, TYPE_ARRAY = 32, TYPE_OBJECT = 64, TYPE_ALL = 127,
	TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
};

enum { /* bits of schema_item.done: keywords that were already turned into alternatives */
	DONE_ANY = 1, DONE_ONE = 2, DONE_NOT = 4, DONE_IF = 8, DONE_DEPENDENT = 16,
};

struct schema_item {
	const struct json_node *at; /* the schema, an object; the reader's arena owns the node */
	uint32_t parent; /* index + 1 of the item that led to this one; 0: none */
	uint8_t done;
	bool is_made;   /* derived by the reader, not written by the client */
	bool is_silent; /* from a negation: its properties do not count as evaluated */
};

struct schema_list {
	struct schema_item *p;
	size_t n, cap;
	bool is_never; /* a schema of the list is `false` */
};

struct schema_job {
	uint32_t rule;
	struct schema_list list;
	struct schema_job *next;
};

struct schema_reader {
	struct grammar_build *b;
	struct arena arena;
	struct json_node root;
	struct strmap rules; /* rules by list; common ones by name */
	struct schema_job *jobs, **last_job;
	size_t n_work; /* work done so far, at most MAX_WORK */
	grammar_part comma, colon; /* with the optional space after them */
	const struct schema_relaxed *relaxed; /* NULL: documents are JSON */
	bool is_python; /* documents are Python's: True, False, None */
	struct lang_pool *langs;
	struct strmap regexes;     /* text of a `pattern` to its lang */
	size_t n_narrowed;         /* number of languages made smaller than the schema asked for */
	json_t *made;              /* array of the schemas that the reader derived */
	struct strmap made_of;     /* description of the origin to index in `made` */
	struct schema_ids *ids;    /* ids of the document; NULL until the first reference */
	struct fail *fail;
	enum status st; /* status of the first error; reading stops after it */
};

/* Keywords of derived schemas. Clients cannot write them. */
#define SCHEMA_NOT_VALUES "\x01not values"   /* a list of excluded values */
#define SCHEMA_NOT_PATTERN "\x01not pattern" /* an excluded regex */
#define SCHEMA_FRACTION "\x01" "fraction"      /* a type: numbers without the integers */

/* --- shorthands of the grammar's parts --- */
static inline grammar_part lit(struct schema_reader *x, const char *s)
{
	return grammar_build_lit(x->b, str_of(s));
}
static inline grammar_part seq(struct schema_reader *x, grammar_part a, grammar_part b,
			       grammar_part c)
{
	grammar_part parts[3] = {a, b, c};
	return grammar_build_seq(x->b, parts, 3);
}
static inline grammar_part never(struct schema_reader *x)
{
	return grammar_build_alt(x->b, NULL, 0);
}
static inline uint32_t rule_count(int64_t n)
{
	return n >= GRAMMAR_NO_MAX ? GRAMMAR_NO_MAX : (uint32_t)n;
}

/* --- schema.c --- */
/* The child node, in the reader's arena. */
const struct json_node *schema_get(struct schema_reader *x,
				   const struct json_node *up, const char *key);
const struct json_node *schema_item(struct schema_reader *x,
				    const struct json_node *up, size_t i);
/* A node for v, a schema derived from `up`. Takes ownership of v. */
const struct json_node *schema_make(struct schema_reader *x, const struct json_node *up,
				    json_t *v);
/* A new reference to the schema that was derived from `of` before; NULL: none was. Equal
 * lists share a rule only if they hold the same schema objects. */
json_t *schema_made(struct schema_reader *x, struct str of);
/* Records that v was derived from `of`; returns v. */
json_t *schema_remember(struct schema_reader *x, struct str of, json_t *v);
void schema_work(struct schema_reader *x, size_t n);
/* True: much of the work limit is used. Alternatives that may be left out then are, so that
 * the rest fits. */
bool schema_is_frugal(const struct schema_reader *x);
/* Adds a schema and all that it refers to. */
void schema_add(struct schema_reader *x, struct schema_list *to,
		const struct json_node *at);
/* Like schema_add, for a schema that the list's item `like` led to; it gets that item's
 * marks. */
void schema_add_below(struct schema_reader *x, struct schema_list *to,
		      const struct json_node *at, struct schema_item like);
void schema_add_item(struct schema_reader *x, struct schema_list *to,
		     struct schema_item item);
/* The part of all documents that match every schema of the list. Takes ownership of the list. */
grammar_part schema_part(struct schema_reader *x, struct schema_list *list);
/* Records an error, unless there is one already. */
void schema_refuse(struct schema_reader *x, const struct json_node *at,
		   const char *fmt, ...) PRINTF_LIKE(3, 4);
void schema_check(struct schema_reader *x, enum status st);
/* Finds or makes the rule of this name. True: it is new, and the caller must set it. */
bool schema_rule(struct schema_reader *x, const char *name, uint32_t *out);
/* Read the smallest maximum (or largest minimum) of a keyword in the list. *out is
 * unchanged if no schema has the keyword. */
void schema_read_max(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out);
void schema_read_min(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out);
/* True if the item is `above`, or if `above` led to it. */
bool schema_is_below(const struct schema_list *l, size_t item, size_t above);

/* The types that the list, or one schema, permits: bits TYPE_. */
int schema_types(struct schema_reader *x, const struct schema_list *l);
int schema_type(struct schema_reader *x, const struct json_node *schema);
int schema_type_of(const json_t *v);
/* The values of these types that satisfy enum, const and all other keywords. The arena
 * owns the array. False: the list has no enum or const, or a keyword cannot be judged. */
bool schema_values(struct schema_reader *x, const struct schema_list *l, int types,
		   const json_t ***out, size_t *out_n);
/* One of these values. */
grammar_part schema_choice(struct schema_reader *x, const json_t *const *values, size_t n);
/* The string values that enum and const of the list permit. */
bool schema_texts(struct schema_reader *x, const struct schema_list *l,
		  struct str **out, size_t *out_n);

/* --- schema_keyword.c --- */
/* Refuses invalid schemas and reports ignored keywords. */
void schema_check_keywords(struct schema_reader *x, const struct json_node *at);
/* The types that a keyword applies to, bits TYPE_; 0: to all, or unknown. */
int schema_keyword_types(const char *key);

/* --- schema_ref.c --- */
/* The target of a $ref or $dynamicRef; NULL: an error was recorded. */
const struct json_node *schema_resolve(struct schema_reader *x,
				       const struct json_node *ref);
void schema_ids_destroy(struct schema_ids *ids);

/* --- schema_branch.c --- */
/* schema_has_branches is true if the list has alternatives left to write. schema_branches
 * writes the first ones; false: there are none. */
bool schema_has_branches(const struct schema_list *l);
bool schema_branches(struct schema_reader *x, const struct schema_list *l,
		     grammar_part *out);

/* --- schema_not.c --- */
/* A new schema of documents that do not match the one at `at`. It may miss some of them.
 * NULL: no such schema can be expressed. */
json_t *schema_not(struct schema_reader *x, const struct json_node *at);

/* --- schema_value.c --- */
enum schema_verdict { VALUE_NO, VALUE_YES, VALUE_UNKNOWN };
/* Does v match the schema? VALUE_UNKNOWN: a keyword cannot be judged. */
enum schema_verdict schema_allows(struct schema_reader *x, const struct json_node *at,
				  const json_t *v);

/* --- schema_split.c --- */
enum { SCHEMA_GROUPS = 10 };
/* A new array of at most SCHEMA_GROUPS schemas. No value matches two of them. The values
 * of the list match one each, or none. */
json_t *schema_split(struct schema_reader *x, const struct schema_list *l);
/* Writes patterns of at most SCHEMA_GROUPS groups of the language's texts; returns how many.
 * The arena owns them. */
size_t schema_split_names(struct schema_reader *x, lang l, const char **out);

/* --- schema_string.c --- */
/* The strings that the list's own keywords permit; LANG_ANY: at most their length is
 * limited. */
lang schema_string_lang(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_any_string(struct schema_reader *x);
grammar_part schema_string(struct schema_reader *x, const struct schema_list *l);
/* A string without quotes, which never contains the character `avoid`. *out_free becomes
 * true where the schemas put no other limit on the string. */
grammar_part schema_bare_string(struct schema_reader *x, const struct schema_list *l,
				char avoid, bool *out_free);
/* The language of the regex in the node's text. False: an error was recorded. */
bool schema_pattern(struct schema_reader *x, const struct json_node *at, lang *out);
/* A text of the language, between quotes, for the schema at `at`. */
grammar_part schema_quoted(struct schema_reader *x, const struct json_node *at, lang l);
/* The regex that enforces a format; NULL: the format is not enforced. */
const char *schema_format(struct str name);
/* A regex that every text of a format matches somewhere, whichever reader judges it. NULL:
 * none is known, or the document's draft does not have the format. */
const char *schema_format_outline(const struct schema_reader *x, struct str name);
/* The strings that a schema permits, for example one of property names. */
lang schema_names(struct schema_reader *x, const struct json_node *at);

/* --- schema_number.c, schema_multiple.c --- */
grammar_part schema_integer(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_number(struct schema_reader *x, const struct schema_list *l,
			   bool is_fraction);
/* Bounds of a number. For integers both bounds are included. */
struct schema_bounds {
	double lo, hi; /* infinite if there is no bound */
	bool lo_excluded, hi_excluded;
	json_wide int_lo, int_hi; /* the bounds for integers, both included */
	const struct json_node *where;
};
/* The bounds of the list. Without one the integer's is beyond JSON_WIDE_MAX. */
struct schema_bounds schema_number_bounds(struct schema_reader *x, const struct schema_list *l);
/* If the list has multipleOf, sets *out to its numbers and returns true. */
bool schema_multiple(struct schema_reader *x, const struct schema_list *l,
		     const struct schema_bounds *b, bool is_integer, grammar_part *out);

/* --- schema_array.c, _unique.c, _object.c, _additional.c --- */
grammar_part schema_array(struct schema_reader *x, const struct schema_list *l);
/* Adds what the list says of item i. */
void schema_add_for_item(struct schema_reader *x, const struct schema_list *l, size_t i,
			 struct schema_list *out);
/* min to max items with their commas, all different. */
grammar_part schema_unique(struct schema_reader *x, struct schema_list *item, int64_t min,
			   int64_t max);
grammar_part schema_object(struct schema_reader *x, const struct schema_list *l);
/* The root's object as keyword arguments of a call. */
grammar_part schema_keywords(struct schema_reader *x, const struct schema_list *l);
/* Calls fn for each property in the schema's order, with the schemas of its value. */
typedef void (*schema_property_fn)(void *ctx, const char *name, bool is_required,
				   struct schema_list *value);
void schema_each_property(struct schema_reader *x, const struct schema_list *l,
			  schema_property_fn fn, void *ctx);
/* Like schema_each_property, which refuses lists that count properties: this takes them. */
void schema_each_name(struct schema_reader *x, const struct schema_list *l,
		      schema_property_fn fn, void *ctx);
/* Additional members `"name": value`, whose names are none of the n sorted names. False:
 * there are none. is_open: also permits names that match no pattern. among: names of this
 * language only. */
bool schema_additional(struct schema_reader *x, const struct schema_list *l,
		    const char *const *names, size_t n, bool is_open, lang among,
		    grammar_part *out);
/* The names that additional members may have, without regard to the sorted names. */
lang schema_additional_names(struct schema_reader *x, const struct schema_list *l, bool is_open);

/* --- schema_relaxed.c: with x->relaxed --- */
enum { SCHEMA_RELAXED_RANGES = 7 };
/* SCHEMA_RELAXED_RANGES ranges: what a bare key does not contain. */
const struct grammar_range *schema_relaxed_not_in_keys(void);
bool schema_relaxed_is_in_keys(uint32_t cp);
/* Append a string, or a key. False: it contains the mark, so it cannot be written. */
bool schema_relaxed_add_string(const struct schema_relaxed *l, struct str text, struct buf *out);
bool schema_relaxed_add_key(const struct schema_relaxed *l, struct str name, struct buf *out);
/* min to max characters of a string. */
grammar_part schema_relaxed_chars(struct schema_reader *x, uint32_t min, uint32_t max);
/* Any string, with its marks. */
grammar_part schema_relaxed_text(struct schema_reader *x);
grammar_part schema_relaxed_any_key(struct schema_reader *x);

/* --- schema_tagged.c --- */
/* Refuses arguments of a call that are no single object. */
void schema_check_arguments(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_tagged(struct schema_reader *x, const struct schema_list *l,
			   const struct schema_tags *tags);
