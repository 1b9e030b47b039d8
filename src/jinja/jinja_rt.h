/* SPDX-License-Identifier: Apache-2.0
 *
 * One rendering: its limits, its failure, its text under construction, and the interfaces
 * between the evaluator's files.
 *
 * Failure. A function that makes a value calls jrt_fail (or a sibling) on failure and
 * returns NULL. Callers pass the NULL on. The first failure is kept.
 *
 * Limits. Each evaluated node is a step. Work proportional to data counts as further
 * steps (jrt_work). Memory is what the arena handed out since the start. Small
 * allocations do not check the limit; the next step does. An allocation whose size a
 * template can choose checks first (jrt_room).
 *
 * Thread: one at a time.
 */
#pragma once
#include "jinja/jinja_value.h"

struct expr;

struct jrt {
	struct arena *arena;
	const struct jinja *j;
	const struct jinja_env *env;
	size_t mem_base, mem_max;
	size_t out_base, out_max;
	int64_t steps;              /* steps that remain */
	size_t work;                /* elementary operations that do not make a whole step yet */
	int depth;                  /* levels of nesting that remain */
	int line;                   /* source line of the node entered last */
	struct fail fail;           /* fail.code is OK until the first failure */
	struct marked *out;
	struct jtext *capture;      /* receives the output instead of `out`; NULL: no capture */
	struct jinja_value *block_text; /* input of the filters of `filter` and `set` blocks */
	struct jinja_value **globals;   /* [j->n_globals] values looked up; NULL: not looked up
					 * yet */
};

/* Fails with E_TEMPLATE and the line: the template or the messages are at fault. */
void *jrt_fail(struct jrt *rt, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Fails with E_LIMIT and the line. */
void *jrt_limit(struct jrt *rt, const char *what);
/* Fails because v was used while undefined, in Jinja's words. */
void *jrt_undefined(struct jrt *rt, const struct jinja_value *v);
static inline bool jrt_failed(const struct jrt *rt)
{
	return rt->fail.code != OK;
}
/* Checks that n more bytes may be allocated. False: failed with E_LIMIT. */
bool jrt_room(struct jrt *rt, size_t n);
/* Counts n elementary operations. False: failed with E_LIMIT. */
bool jrt_work(struct jrt *rt, size_t n);
/* Enters one more level of nesting and counts one step. False: failed with E_LIMIT. */
bool jrt_enter(struct jrt *rt, int line);
static inline void jrt_leave(struct jrt *rt)
{
	rt->depth++;
}

struct jinja_value *jrt_undef(struct jrt *rt, int why, const char *type,
			      struct str name);
struct jinja_value *jrt_undef_hint(struct jrt *rt, const char *hint);

/* --- text under construction --------------------------------------------- */

/* Text under construction, which grows in the arena. The finished string keeps it as its
 * tail. `s = s + x` in a loop then extends the bytes in place instead of copying them. */
struct jtext {
	struct jrt *rt;
	char *p;
	size_t n, cap;
	struct mark *marks;
	size_t n_marks, cap_marks;
	bool failed; /* memory ran out; later additions are dropped */
};

struct jtext *jtext_new(struct jrt *rt, size_t cap);
void jtext_add(struct jtext *t, struct str s, enum trust trust);
static inline void jtext_add_z(struct jtext *t, const char *s)
{
	jtext_add(t, str_of(s), TRUST_TEMPLATE);
}
void jtext_addf(struct jtext *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void jtext_add_cp(struct jtext *t, uint32_t cp, enum trust trust);
/* Appends all of s, or its bytes from..to, with their trust marks. */
void jtext_add_jstr(struct jtext *t, const struct jstr *s);
void jtext_add_part(struct jtext *t, const struct jstr *s, size_t from, size_t to);
void jtext_fill(struct jtext *t, struct str s, enum trust trust, size_t times);
/* The finished string; NULL: an addition failed. */
struct jinja_value *jtext_finish(struct jtext *t);

enum trust jstr_trust_at(const struct jstr *s, size_t at);
/* Bytes from..to of s, as a value that shares these bytes. */
struct jinja_value *jstr_slice(struct jrt *rt, const struct jstr *s, size_t from,
			       size_t to);
struct jinja_value *jstr_concat(struct jrt *rt, const struct jstr *a,
				const struct jstr *b);

/* --- calls --------------------------------------------------------------- */

struct jkw {
	struct str name;
	struct jinja_value *value; /* NULL: already bound to a parameter */
	struct jinja_value *key;   /* the name with its trust marks; NULL: the template wrote it */
};
struct jargs {
	struct jinja_value **pos;
	int n_pos;
	struct jkw *kw;
	int n_kw;
};

#define JPARAMS_MAX 6
/* A builtin. self: the value that a method or filter applies to (NULL for functions). v:
 * the arguments bound to the parameters; NULL for omitted ones. */
typedef struct jinja_value *(*jnative)(struct jrt *rt, struct jinja_value *self,
				       struct jinja_value **v,
				       const struct jargs *args);
#define JNATIVE(name) \
	static struct jinja_value *name(struct jrt *rt, struct jinja_value *self, \
		struct jinja_value **v, const struct jargs *args)
/* params: names in order, with "?" after optional ones. "*": the function reads args
 * itself. */
struct jbuiltin {
	const char *name, *params;
	jnative fn;
};

/* The row with this name in a table that ends with a NULL name; NULL: none. */
const struct jbuiltin *jcall_find(const struct jbuiltin *table, struct str name);
const struct jbuiltin *jfilter_find(struct str name);
const struct jbuiltin *jtest_find(struct str name);
const struct jbuiltin *jglobal_find(struct str name);
/* The method of this name for values of v's kind; NULL: none. */
const struct jbuiltin *jmethod_find(const struct jinja_value *v, struct str name);
/* True if values of some kind have a method of this name. */
bool jmethod_is_name(struct str name);

struct jinja_value *jcall_native(struct jrt *rt, const struct jbuiltin *fn,
				 struct jinja_value *self,
				 const struct jargs *args);
/* Calls any value. caller: the body of a call block, or NULL. */
struct jinja_value *jcall_value(struct jrt *rt, struct jinja_value *callee,
				const struct jargs *args);
/* Removes the keyword `name` from args and returns its value; NULL: absent. */
struct jinja_value *jcall_take_kw(const struct jargs *args, const char *name);
/* Puts the keywords that are still in args into d. */
void jcall_put_kws(struct jrt *rt, const struct jargs *args, struct jdict *d);
/* Reads an optional integer argument. *out is unchanged if v is NULL or none. */
bool jcall_int(struct jrt *rt, struct jinja_value *v, int64_t *out);
/* The argument v, which must be a string; NULL: failed. */
const struct jstr *jcall_str(struct jrt *rt, const struct jinja_value *v);

/* --- the parts of the evaluator ------------------------------------------ */

/* jinja_eval.c */
struct jinja_value *jeval(struct jrt *rt, struct jframe *f, const struct expr *e);
struct jinja_value *jeval_call(struct jrt *rt, struct jframe *f,
			       const struct expr *e, struct jinja_value *caller);
/* Reads `v[key]`: the item, else the attribute. */
struct jinja_value *jeval_item(struct jrt *rt, struct jinja_value *v,
			       struct jinja_value *key);

/* jinja_loop.c: iteration and the variable `loop` */
struct jiter {
	struct jinja_value *src;
	size_t pos;
	const struct stmt *filter; /* the `for` whose `if` selects items, or NULL */
	struct jframe *frame;      /* the frame in which the filter is evaluated */
};
/* False: failed, because src cannot be iterated over. */
bool jiter_init(struct jrt *rt, struct jiter *it, struct jinja_value *src);
/* The next item; NULL: at the end, or failed (ask jrt_failed). */
struct jinja_value *jiter_next(struct jrt *rt, struct jiter *it);
/* All items of an iterable as a list; NULL: failed. */
struct jinja_value *jiter_list(struct jrt *rt, struct jinja_value *src);

struct jloop {
	struct jiter it;
	struct jinja_value *current, *before, *after; /* neighbouring items; NULL: none */
	bool after_known;
	int64_t index0, length; /* length -1: not asked for yet */
};
struct jinja_value *jloop_attr(struct jrt *rt, struct jinja_value *v, struct str name);
bool jloop_next(struct jrt *rt, struct jloop *loop);
extern const struct jbuiltin jloop_methods[];

/* jinja_stmt.c */
struct jinja_value *jstmt_call_macro(struct jrt *rt, struct jinja_value *macro,
				     const struct jargs *args);
/* True if the `if` of a `for` accepts this item; false also if it failed. */
bool jstmt_for_test(struct jrt *rt, const struct stmt *s, struct jframe *f,
		    struct jinja_value *item);

/* the tables of filters in jinja_filter_seq.c and jinja_filter_str.c */
extern const struct jbuiltin jfilter_seqs[], jfilter_strs[];
/* the methods of str, in jinja_method_str.c */
extern const struct jbuiltin jmethod_strs[];
/* Python's int(s) and float(s). False: s is no number; this is a failure only for an int
 * that does not fit 64 bits. */
bool jformat_parse_int(struct jrt *rt, struct str s, int64_t *out);
bool jformat_parse_float(struct str s, double *out);

/* jinja_repr.c */
/* str(v) as a value. */
struct jinja_value *jrepr_str(struct jrt *rt, struct jinja_value *v);
void jrepr_add_str(struct jtext *t, const struct jinja_value *v);
void jrepr_add_repr(struct jtext *t, const struct jinja_value *v, int depth);
void jrepr_add_float(struct jtext *t, double v);

/* jinja_json.c */
struct jjson_style {
	bool ensure_ascii, sort_keys, is_indented;
	struct jstr indent, item_sep, key_sep;
};
struct jinja_value *jjson_dump(struct jrt *rt, const struct jinja_value *v,
			       const struct jjson_style *style);

/* jinja_format.c */
/* fmt % args, where args is a tuple, a dict or a single value. */
struct jinja_value *jformat_percent(struct jrt *rt, const struct jstr *fmt,
				    struct jinja_value *args);
/* fmt.format(*args, **kwargs) */
struct jinja_value *jformat_braces(struct jrt *rt, const struct jstr *fmt,
				   const struct jargs *args);

/* jinja_compare.c */
/* Sorts items by keys in place; the sort is stable. False: two keys have no order. */
bool jsort_by_keys(struct jrt *rt, struct jinja_value **items,
		   struct jinja_value **keys, size_t n, bool reverse);

/* jinja_case.c: Python's rules for characters */
bool jcase_is_space(uint32_t cp);
bool jcase_is_alnum(uint32_t cp);
bool jcase_is_printable(uint32_t cp);
enum jcase_to { CASE_UPPER, CASE_LOWER, CASE_CAPITALIZE, CASE_TITLE };
/* Appends bytes from..to of s in another case. Each character keeps its trust mark. */
void jcase_add(struct jtext *t, const struct jstr *s, size_t from, size_t to,
	       enum jcase_to to_case);
struct jinja_value *jcase_change(struct jrt *rt, const struct jstr *s,
				 enum jcase_to to_case);
/* Byte offsets of what remains after stripping white space (or the characters in `chars`,
 * if not NULL) from the chosen ends. */
void jcase_strip(const struct jstr *s, const struct jstr *chars, bool left,
		 bool right, size_t *out_from, size_t *out_to);
