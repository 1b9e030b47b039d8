/* SPDX-License-Identifier: Apache-2.0
 *
 * One rendering: its bounds, its failure, its text under construction, and how
 * its parts call each other.
 *
 * Failure. A function that makes a value returns NULL when it failed, after it said
 * why with jrt_fail (or one of its kin); callers pass the NULL on. The first
 * failure is kept.
 *
 * Bounds. Each evaluated node is a step, and work that is proportional to data
 * takes steps for it (jrt_work). Memory is what the arena handed out since the start:
 * small pieces are taken without asking and noticed at the next step;
 * whatever a template can size by a number asks first (jrt_room).
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
	int64_t steps;              /* left */
	size_t work;                /* not yet a whole step */
	int depth;                  /* left */
	int line;                   /* of the node last entered */
	struct fail fail;           /* fail.code is OK until something failed */
	struct marked *out;
	struct jtext *capture;      /* where output goes instead of `out`, or NULL */
	struct jinja_value *block_text; /* what `filter` and `set` blocks filter */
	struct jinja_value **globals;   /* [j->n_globals] looked up, NULL: not yet */
};

/* The template is at fault, or the messages are: E_TEMPLATE and the line. */
void *jrt_fail(struct jrt *rt, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A bound was hit: E_LIMIT and the line. */
void *jrt_limit(struct jrt *rt, const char *what);
/* Complain that v was used while undefined, in Jinja's words. */
void *jrt_undefined(struct jrt *rt, const struct jinja_value *v);
static inline bool jrt_failed(const struct jrt *rt)
{
	return rt->fail.code != OK;
}
/* May n more bytes be taken? Fails with E_LIMIT where not. */
bool jrt_room(struct jrt *rt, size_t n);
/* Count n elementary operations as steps; fails with E_LIMIT at the bound. */
bool jrt_work(struct jrt *rt, size_t n);
/* Go one level deeper, and one step; false (failed) at a bound. */
bool jrt_enter(struct jrt *rt, int line);
static inline void jrt_leave(struct jrt *rt)
{
	rt->depth++;
}

struct jinja_value *jrt_undef(struct jrt *rt, int why, const char *type,
			      struct str name);
struct jinja_value *jrt_undef_hint(struct jrt *rt, const char *hint);

/* --- text under construction --------------------------------------------- */

/* Grows in the arena. A finished string keeps it as its tail, so that
 * `s = s + x` in a loop extends the bytes in place instead of copying them. */
struct jtext {
	struct jrt *rt;
	char *p;
	size_t n, cap;
	struct mark *marks;
	size_t n_marks, cap_marks;
	bool failed; /* out of room: what was added is lost */
};

struct jtext *jtext_new(struct jrt *rt, size_t cap);
void jtext_add(struct jtext *t, struct str s, enum trust trust);
static inline void jtext_add_z(struct jtext *t, const char *s)
{
	jtext_add(t, str_of(s), TRUST_TEMPLATE);
}
void jtext_addf(struct jtext *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void jtext_add_cp(struct jtext *t, uint32_t cp, enum trust trust);
/* s whole, or its bytes from..to, with their marks. */
void jtext_add_jstr(struct jtext *t, const struct jstr *s);
void jtext_add_part(struct jtext *t, const struct jstr *s, size_t from, size_t to);
void jtext_fill(struct jtext *t, struct str s, enum trust trust, size_t times);
/* The string built, or NULL when it failed. */
struct jinja_value *jtext_finish(struct jtext *t);

enum trust jstr_trust_at(const struct jstr *s, size_t at);
/* Bytes from..to of s as a value that shares its bytes. */
struct jinja_value *jstr_slice(struct jrt *rt, const struct jstr *s, size_t from,
			       size_t to);
struct jinja_value *jstr_concat(struct jrt *rt, const struct jstr *a,
				const struct jstr *b);

/* --- calls --------------------------------------------------------------- */

struct jkw {
	struct str name;
	struct jinja_value *value; /* NULL: taken */
	struct jinja_value *key;   /* the name with its marks; NULL: the template's */
};
struct jargs {
	struct jinja_value **pos;
	int n_pos;
	struct jkw *kw;
	int n_kw;
};

#define JPARAMS_MAX 6
/* self is what a method or filter is applied to (NULL for functions); v the
 * arguments bound to the parameters, NULL where left out. */
typedef struct jinja_value *(*jnative)(struct jrt *rt, struct jinja_value *self,
				       struct jinja_value **v,
				       const struct jargs *args);
#define JNATIVE(name) \
	static struct jinja_value *name(struct jrt *rt, struct jinja_value *self, \
		struct jinja_value **v, const struct jargs *args)
/* params: names in order, "?" behind those that may be left out; "*": the
 * function looks at args itself. */
struct jbuiltin {
	const char *name, *params;
	jnative fn;
};

/* The row of that name in a table that ends with a NULL name. */
const struct jbuiltin *jcall_find(const struct jbuiltin *table, struct str name);
const struct jbuiltin *jfilter_find(struct str name);
const struct jbuiltin *jtest_find(struct str name);
const struct jbuiltin *jglobal_find(struct str name);
/* A method of values of v's kind, or NULL. */
const struct jbuiltin *jmethod_find(const struct jinja_value *v, struct str name);
/* Some kind of value has a method of that name. */
bool jmethod_is_name(struct str name);

struct jinja_value *jcall_native(struct jrt *rt, const struct jbuiltin *fn,
				 struct jinja_value *self,
				 const struct jargs *args);
/* Call any value; caller is the body of a call block or NULL. */
struct jinja_value *jcall_value(struct jrt *rt, struct jinja_value *callee,
				const struct jargs *args);
/* Take keyword `name` out of args, or NULL. */
struct jinja_value *jcall_take_kw(const struct jargs *args, const char *name);
/* What is left of the keywords, put into d. */
void jcall_put_kws(struct jrt *rt, const struct jargs *args, struct jdict *d);
/* An optional integer argument: *out stays when v is NULL or none. */
bool jcall_int(struct jrt *rt, struct jinja_value *v, int64_t *out);
/* An argument that must be a string: NULL (failed) otherwise. */
const struct jstr *jcall_str(struct jrt *rt, const struct jinja_value *v);

/* --- the parts of the evaluator ------------------------------------------ */

/* jinja_eval.c */
struct jinja_value *jeval(struct jrt *rt, struct jframe *f, const struct expr *e);
struct jinja_value *jeval_call(struct jrt *rt, struct jframe *f,
			       const struct expr *e, struct jinja_value *caller);
/* Attribute, then item; and the reverse. `v.name` and `v[key]`. */
struct jinja_value *jeval_attr(struct jrt *rt, struct jinja_value *v,
			       struct str name);
struct jinja_value *jeval_item(struct jrt *rt, struct jinja_value *v,
			       struct jinja_value *key);

/* jinja_loop.c: `loop`, and what it stands on */
struct jiter {
	struct jinja_value *src;
	size_t pos;
	const struct stmt *filter; /* a for with an `if`, or NULL */
	struct jframe *frame;      /* in which the filter is evaluated */
};
/* false (failed) where src cannot be iterated. */
bool jiter_init(struct jrt *rt, struct jiter *it, struct jinja_value *src);
/* The next item; NULL at the end or where jrt_failed. */
struct jinja_value *jiter_next(struct jrt *rt, struct jiter *it);
/* All of an iterable as a list; NULL where failed. */
struct jinja_value *jiter_list(struct jrt *rt, struct jinja_value *src);

struct jloop {
	struct jiter it;
	struct jinja_value *current, *before, *after; /* NULL: none */
	bool after_known;
	int64_t index0, length; /* length -1: not asked for yet */
	int depth0;
	struct jinja_value *changed; /* arguments of the last loop.changed() */
	const struct stmt *def;
	struct jframe *frame; /* around the loop */
};
struct jinja_value *jloop_attr(struct jrt *rt, struct jinja_value *v, struct str name);
bool jloop_next(struct jrt *rt, struct jloop *loop);
extern const struct jbuiltin jloop_methods[];

/* jinja_stmt.c */
enum jflow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };
enum jflow jstmt_run(struct jrt *rt, struct jframe *f, const struct stmt *s);
struct jinja_value *jstmt_call_macro(struct jrt *rt, struct jinja_value *macro,
				     const struct jargs *args);
/* loop(iterable) of a recursive loop. */
struct jinja_value *jstmt_recurse(struct jrt *rt, struct jloop *loop,
				  struct jinja_value *iterable);
/* Does the `if` of a for let this item pass? false also where failed. */
bool jstmt_for_test(struct jrt *rt, const struct stmt *s, struct jframe *f,
		    struct jinja_value *item);

/* jinja_filter_seq.c, jinja_filter_str.c: the other tables of filters */
extern const struct jbuiltin jfilter_seqs[], jfilter_strs[];
/* jinja_method_str.c: methods of str */
extern const struct jbuiltin jmethod_strs[];
/* int(s) and float(s) of Python; false where s is no number (not failed, but for an
 * int that does not fit). */
bool jformat_parse_int(struct jrt *rt, struct str s, int64_t base, int64_t *out);
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
/* fmt % args: args is a tuple, a dict or one value. */
struct jinja_value *jformat_percent(struct jrt *rt, const struct jstr *fmt,
				    struct jinja_value *args);
/* fmt.format(*args, **kwargs) */
struct jinja_value *jformat_braces(struct jrt *rt, const struct jstr *fmt,
				   const struct jargs *args);

/* jinja_sort.c */
/* Sort items by keys, stable, in place; false where two keys have no order. */
bool jsort_by_keys(struct jrt *rt, struct jinja_value **items,
		   struct jinja_value **keys, size_t n, bool reverse);

/* jinja_case.c: characters, Python's way */
bool jcase_is_space(uint32_t cp);
bool jcase_is_alpha(uint32_t cp);
bool jcase_is_digit(uint32_t cp);
bool jcase_is_alnum(uint32_t cp);
bool jcase_is_printable(uint32_t cp);
/* The case of a character: 1 for upper or title case, -1 for lower, 0 for none. */
int jcase_of(uint32_t cp);
enum jcase_to { CASE_UPPER, CASE_LOWER, CASE_CAPITALIZE, CASE_TITLE, CASE_SWAP };
/* Append bytes from..to of s in another case, each character with its mark. */
void jcase_add(struct jtext *t, const struct jstr *s, size_t from, size_t to,
	       enum jcase_to to_case);
struct jinja_value *jcase_change(struct jrt *rt, const struct jstr *s,
				 enum jcase_to to_case);
/* Offsets of the first and behind the last byte that is not white space (or not
 * one of chars, where not NULL). */
void jcase_strip(const struct jstr *s, const struct jstr *chars, bool left,
		 bool right, size_t *out_from, size_t *out_to);
