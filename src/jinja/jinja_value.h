/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of a template, and Python's rules for them. The rendering's arena owns
 * everything and frees nothing before its end. A list that grows leaves its old array
 * behind, so a loop may continue to read it. Strings are immutable views with trust
 * marks. Lists, dicts and namespaces can change.
 *
 * Thread: the one that owns the arena. Values inside a compiled template are strings and
 * numbers only and are never written. Names: a file jinja_x.c exports functions jx_… .
 */
#pragma once
#include "jinja/jinja.h"

struct jrt;
struct jframe;
struct jloop;
struct stmt;

enum jkind {
	J_UNDEFINED, J_NONE, J_BOOL, J_INT, J_FLOAT, J_STRING,
	J_LIST, J_TUPLE, J_RANGE,
	J_GENERATOR, /* result of map, select, …: always true, has no length, can be read once */
	J_VIEW,      /* keys(), values() or items() of a dict */
	J_DICT, J_NAMESPACE,
	J_NATIVE,    /* a builtin, possibly bound to a value */
	J_MACRO, J_LOOP,
};

/* Bytes and their writers. The marks are in order, each with its end offset. Without
 * marks, all bytes have the one `trust`. The last mark may end after n, if another string
 * has extended the shared buffer (tail). */
struct jstr {
	const char *p;
	size_t n;
	const struct mark *marks;
	uint32_t n_marks;
	enum trust trust;
	struct jtext *tail; /* the buffer that p points into; NULL: it cannot be extended */
};

struct jlist {
	struct jinja_value **items;
	size_t n, cap;
	size_t pos; /* for GENERATOR: the items before this index were read */
};

struct jrange {
	int64_t start, stop, step;
	size_t n;
};

struct jentry {
	struct jinja_value *key; /* NULL: the entry was removed */
	struct jinja_value *value;
	uint64_t hash;
};

/* Entries in insertion order. A dict of more than a few entries has an open-addressing
 * index that holds entry number + 1. */
struct jdict {
	struct jentry *entries;
	size_t n, cap; /* array length in use (removed entries included) and capacity */
	size_t n_live;
	uint32_t *index;
	size_t n_index; /* a power of two; 0: no index yet */
};

enum jview_what { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

/* Records why a value is undefined, for the error text when someone uses it. */
struct jundef {
	enum { UNDEF_NAME, UNDEF_ATTR, UNDEF_ITEM, UNDEF_UNSAFE, UNDEF_HINT } why;
	const char *type;    /* type of the object that lacks the attribute */
	struct str name;     /* missing name, or the hint to show */
};

struct jinja_value {
	enum jkind kind;
	union {
		bool b;
		int64_t i;
		struct {
			double f;
			const char *digits; /* how to write it; NULL: as Python does */
		};
		struct jstr s;
		struct jlist l;
		struct jrange r;
		struct jdict d; /* for DICT, NAMESPACE */
		struct {
			struct jinja_value *dict;
			enum jview_what what;
		} view;
		struct jundef u;
		struct {
			const struct jbuiltin *fn;
			struct jinja_value *self; /* the value the method is bound to; NULL: a
						   * plain function */
		} native;
		struct {
			const struct stmt *def;
			struct jframe *frame; /* frame of the macro's definition */
		} macro;
		struct jloop *loop;
	};
};

extern struct jinja_value jval_none, jval_true, jval_false, jval_empty;

static inline struct jinja_value *jval_bool(bool b)
{
	return b ? &jval_true : &jval_false;
}
static inline bool jval_is_seq(const struct jinja_value *v)
{
	return v->kind == J_LIST || v->kind == J_TUPLE;
}
static inline bool jval_is_num(const struct jinja_value *v)
{
	return v->kind == J_INT || v->kind == J_FLOAT || v->kind == J_BOOL;
}
/* The integer value of a BOOL or INT. */
static inline int64_t jval_int(const struct jinja_value *v)
{
	return v->kind == J_BOOL ? v->b : v->i;
}
static inline bool jval_is_int(const struct jinja_value *v)
{
	return v->kind == J_INT || v->kind == J_BOOL;
}
static inline struct str jval_str(const struct jinja_value *v)
{
	return (struct str){v->s.p, v->s.n};
}

struct jinja_value *jval_new(struct arena *a, enum jkind kind);
struct jinja_value *jval_from_jstr(struct arena *a, struct jstr s);
/* A string with the template's trust. Its bytes are not copied and must live as long as
 * the program. */
struct jinja_value *jval_text(struct arena *a, struct str s);
/* A new list, tuple or generator with room for `cap` items. */
struct jinja_value *jval_seq(struct arena *a, enum jkind kind, size_t cap);
void jval_seq_add(struct arena *a, struct jinja_value *seq,
		  struct jinja_value *item);
/* Reverses in place and returns list. */
struct jinja_value *jval_reverse(struct jinja_value *list);
struct jinja_value *jval_pair(struct arena *a, struct jinja_value *x,
			      struct jinja_value *y);
struct jinja_value *jval_range(struct arena *a, int64_t start, int64_t stop,
			       int64_t step);
/* Python's name of the type: "str", "dict", … */
const char *jval_type(const struct jinja_value *v);
/* Python's bool(v). */
bool jval_truth(const struct jinja_value *v);
/* Python's len(v), or -1 if v has no length. For strings it counts characters. */
int64_t jval_len(const struct jinja_value *v);
/* Item i of a list, tuple or range (0 <= i < len). */
struct jinja_value *jval_at(struct arena *a, const struct jinja_value *v, size_t i);

/* Functions on dicts. jdict_hash returns false if v is not hashable. */
uint64_t jdict_hash_str(struct str s);
bool jdict_hash(const struct jinja_value *v, uint64_t *out_hash);
struct jentry *jdict_find(const struct jdict *d, const struct jinja_value *key,
			  uint64_t hash);
struct jinja_value *jdict_get_str(const struct jdict *d, struct str key);
void jdict_put(struct arena *a, struct jdict *d, struct jinja_value *key,
	       uint64_t hash, struct jinja_value *value);
void jdict_remove(struct jdict *d, struct jentry *e);
/* Stores a value under a string key that has the template's trust. */
void jdict_put_str(struct arena *a, struct jdict *d, struct str key,
		   struct jinja_value *value);
