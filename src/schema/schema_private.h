/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that read a schema share. Nobody else includes this.
 *
 * A list of schemas that must all hold stands for every place of a document:
 * references and allOf add to it, and each keyword is read as what all of the list
 * say together. Each different list is one rule, so recursion closes by itself.
 */
#pragma once
#include "schema/schema.h"
#include "base/arena.h"
#include "base/map.h"
#include "grammar/grammar_build.h"
#include "grammar/grammar_lang.h"

enum {
	TYPE_NULL = 1, TYPE_BOOL = 2, TYPE_INTEGER = 4, TYPE_FRACTION = 8,
	TYPE_STRING = 16, TYPE_ARRAY = 32, TYPE_OBJECT = 64, TYPE_ALL = 127,
	TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
};

enum { /* keywords of an item that have been turned into alternatives */
	DONE_ANY = 1, DONE_ONE = 2, DONE_NOT = 4, DONE_IF = 8, DONE_DEPENDENT = 16,
};

struct schema_item {
	const struct json_node *at; /* an object; lives in the reader's arena */
	uint32_t parent; /* the item that led to it, from 1; 0: none */
	uint8_t done;
	bool is_made;   /* not the client's, but what follows from one */
	bool is_silent; /* of a negation: what it speaks of counts as not evaluated */
};

struct schema_list {
	struct schema_item *p;
	size_t n, cap;
	bool is_never; /* one of them is false */
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
	struct strmap rules; /* by list, or by name for the common ones */
	struct schema_job *jobs, **last_job;
	size_t n_work; /* against MAX_WORK, so that no schema takes long */
	grammar_part comma, colon; /* with their space */
	struct lang_pool *langs;
	struct strmap regexes;     /* text -> lang, of `pattern` */
	size_t n_narrowed;         /* languages that are smaller than what was asked for */
	json_t *made;              /* schemas that follow from the client's */
	struct strmap made_of;     /* what they follow from -> index in made */
	struct schema_ids *ids;    /* of the document; NULL until one is asked for */
	struct fail *fail;
	enum status st; /* of the first fault; nothing is read behind it */
};

/* Keywords of made schemas; no client can mean them. */
#define SCHEMA_NOT_VALUES "\x01not values"   /* a list of values that it is not */
#define SCHEMA_NOT_PATTERN "\x01not pattern" /* a regex that it does not match */
#define SCHEMA_FRACTION "\x01" "fraction"      /* a type: numbers but integers */

/* --- schema.c --- */
/* Children in the arena. */
const struct json_node *schema_get(struct schema_reader *x,
				   const struct json_node *up, const char *key);
const struct json_node *schema_item(struct schema_reader *x,
				    const struct json_node *up, size_t i);
/* Takes v, a schema that follows from what stands at `up`. */
const struct json_node *schema_make(struct schema_reader *x, const struct json_node *up,
				    json_t *v);
/* The one that was made of this before: a new reference. NULL: none was. Equal lists are one
 * rule only where they have the same schemas. */
json_t *schema_made(struct schema_reader *x, struct str of);
/* Remembers v as made of this; returns v. */
json_t *schema_remember(struct schema_reader *x, struct str of, json_t *v);
void schema_work(struct schema_reader *x, size_t n);
/* Add a schema with all that it refers to. */
void schema_add(struct schema_reader *x, struct schema_list *to,
		const struct json_node *at);
/* The same, as what an item of the list leads to; like says how it is marked. */
void schema_add_below(struct schema_reader *x, struct schema_list *to,
		      const struct json_node *at, struct schema_item like);
void schema_add_item(struct schema_reader *x, struct schema_list *to,
		     struct schema_item item);
/* What may be written where the list holds; takes the list. */
grammar_part schema_part(struct schema_reader *x, struct schema_list *list);
/* Remember a fault, unless there is one. */
void schema_refuse(struct schema_reader *x, const struct json_node *at,
		   const char *fmt, ...) PRINTF_LIKE(3, 4);
void schema_check(struct schema_reader *x, enum status st);
/* The rule of that name; true when it is new, and the caller's to set. */
bool schema_rule(struct schema_reader *x, const char *name, uint32_t *out);
/* The least (or greatest) number of a keyword in the list; out as it was where nobody
 * has it. */
void schema_read_max(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out);
void schema_read_min(struct schema_reader *x, const struct schema_list *l,
		     const char *key, int64_t *out);
/* Is an item `above`, or did `above` lead to it? */
bool schema_is_below(const struct schema_list *l, size_t item, size_t above);

/* The types that the list, or one schema, allows, TYPE_ bits. */
int schema_types(struct schema_reader *x, const struct schema_list *l);
int schema_type(struct schema_reader *x, const struct json_node *schema);
int schema_type_of(const json_t *v);
/* The values that enum and const of the list leave, of these types, into values (in the
 * arena); false: there is neither, or it cannot be said which they leave. */
bool schema_values(struct schema_reader *x, const struct schema_list *l, int types,
		   const json_t ***out, size_t *out_n);
/* One of these values. */
grammar_part schema_choice(struct schema_reader *x, const json_t *const *values, size_t n);
/* The string values of the list, as their texts. */
bool schema_texts(struct schema_reader *x, const struct schema_list *l,
		  struct str **out, size_t *out_n);

/* --- schema_keyword.c --- */
/* Refuses what is no schema; says what is ignored. */
void schema_check_keywords(struct schema_reader *x, const struct json_node *at);
/* The types that a keyword speaks of, TYPE_ bits; 0: of all or none. */
int schema_keyword_types(const char *key);

/* --- schema_ref.c --- */
/* What a $ref or $dynamicRef refers to; NULL with the fault said. */
const struct json_node *schema_resolve(struct schema_reader *x,
				       const struct json_node *ref);
void schema_ids_destroy(struct schema_ids *ids);

/* --- schema_branch.c --- */
/* What can be written by the first alternatives of the list; false: it has none. */
bool schema_has_branches(const struct schema_list *l);
bool schema_branches(struct schema_reader *x, const struct schema_list *l,
		     grammar_part *out);

/* --- schema_not.c --- */
/* A schema of documents that do not match the one at `at`: some of them, where not all
 * can be said. NULL: none can. New. */
json_t *schema_not(struct schema_reader *x, const struct json_node *at);

/* --- schema_value.c --- */
enum schema_verdict { VALUE_NO, VALUE_YES, VALUE_UNKNOWN };
/* Does a value match a schema? */
enum schema_verdict schema_allows(struct schema_reader *x, const struct json_node *at,
				  const json_t *v);

/* --- schema_string.c --- */
grammar_part schema_any_string(struct schema_reader *x);
grammar_part schema_string(struct schema_reader *x, const struct schema_list *l);
/* A string as its bare text without the character `avoid`. *out_free: nothing is said
 * of it but that it is a string. */
grammar_part schema_bare_string(struct schema_reader *x, const struct schema_list *l,
				char avoid, bool *out_free);
/* The language of a `pattern`, of the node's text; false with the fault said. */
bool schema_pattern(struct schema_reader *x, const struct json_node *at, lang *out);
/* A text of the language between quotes. */
grammar_part schema_quoted(struct schema_reader *x, const struct json_node *at, lang l);
/* The regex of a format that strings are held to, or NULL. */
const char *schema_format(struct str name);
/* The strings that a schema, such as one of property names, allows. */
lang schema_names(struct schema_reader *x, const struct json_node *at);

/* --- schema_number.c, schema_multiple.c --- */
grammar_part schema_integer(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_number(struct schema_reader *x, const struct schema_list *l,
			   bool is_fraction);
/* Bounds of a number, both included where they are integers. */
struct schema_bounds {
	double lo, hi; /* infinite where there is none */
	bool lo_excluded, hi_excluded;
	int64_t int_lo, int_hi; /* the same for integers, both included */
	const struct json_node *where;
};
/* Does the list have a multipleOf? Then its numbers. */
bool schema_multiple(struct schema_reader *x, const struct schema_list *l,
		     const struct schema_bounds *b, bool is_integer, grammar_part *out);
grammar_part schema_integer_range(struct schema_reader *x, int64_t lo, int64_t hi);

/* --- schema_array.c, _unique.c, _object.c, _further.c --- */
grammar_part schema_array(struct schema_reader *x, const struct schema_list *l);
/* Between min and max of these items with their commas, all different. */
grammar_part schema_unique(struct schema_reader *x, struct schema_list *item, int64_t min,
			   int64_t max);
grammar_part schema_object(struct schema_reader *x, const struct schema_list *l);
/* Calls fn for each property in the schema's order, with what must hold for it. */
typedef void (*schema_property_fn)(void *ctx, const char *name, bool is_required,
				   struct schema_list *value);
void schema_each_property(struct schema_reader *x, const struct schema_list *l,
			  schema_property_fn fn, void *ctx);
/* What must hold for the value of a name. */
void schema_add_for_name(struct schema_reader *x, const struct schema_list *l,
			 const char *name, struct schema_list *out);
/* Members whose names are none of n (sorted): `"name": value`; false: there are none.
 * is_open: also names that no pattern matches. */
bool schema_further(struct schema_reader *x, const struct schema_list *l,
		    const char *const *names, size_t n, bool is_open, grammar_part *out);

/* --- schema_tagged.c --- */
grammar_part schema_tagged(struct schema_reader *x, const struct schema_list *l,
			   const struct schema_tags *tags);
