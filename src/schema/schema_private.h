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

enum {
	TYPE_NULL = 1, TYPE_BOOL = 2, TYPE_INTEGER = 4, TYPE_FRACTION = 8,
	TYPE_STRING = 16, TYPE_ARRAY = 32, TYPE_OBJECT = 64, TYPE_ALL = 127,
	TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
};

struct schema_item {
	const struct json_node *at; /* an object; lives in the reader's arena */
	bool any_done, one_done;    /* its anyOf, oneOf: a branch is in the list */
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
	struct fail *fail;
	enum status st; /* of the first fault; nothing is read behind it */
};

/* --- schema.c --- */
/* Children in the arena. */
const struct json_node *schema_get(struct schema_reader *x,
				   const struct json_node *up, const char *key);
const struct json_node *schema_item(struct schema_reader *x,
				    const struct json_node *up, size_t i);
/* Add a schema with all that it refers to. */
void schema_add(struct schema_reader *x, struct schema_list *to,
		const struct json_node *at);
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

/* The types that the list allows, TYPE_ bits. */
int schema_types(struct schema_reader *x, const struct schema_list *l);
/* The string values that enum and const of the list leave, into texts (in the arena);
 * false: there is neither. */
bool schema_texts(struct schema_reader *x, const struct schema_list *l,
		  struct str **out, size_t *out_n);

/* --- schema_string.c, schema_number.c, schema_object.c --- */
grammar_part schema_any_string(struct schema_reader *x);
grammar_part schema_string(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_integer(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_number(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_array(struct schema_reader *x, const struct schema_list *l);
grammar_part schema_object(struct schema_reader *x, const struct schema_list *l);
/* A string as its bare text without the character `avoid`. *out_free: nothing is said
 * of it but that it is a string. */
grammar_part schema_bare_string(struct schema_reader *x, const struct schema_list *l,
				char avoid, bool *out_free);
/* Calls fn for each property in the schema's order, with what must hold for it. */
typedef void (*schema_property_fn)(void *ctx, const char *name, bool is_required,
				   struct schema_list *value);
void schema_each_property(struct schema_reader *x, const struct schema_list *l,
			  schema_property_fn fn, void *ctx);

/* --- schema_tagged.c --- */
grammar_part schema_tagged(struct schema_reader *x, const struct schema_list *l,
			   const struct schema_tags *tags);
