/* SPDX-License-Identifier: Apache-2.0
 *
 * A parsed template: statements and expressions as trees, names bound to slots.
 * Made by jinja_parse*.c, bound by jinja_scope.c, read-only afterwards. Everything
 * lives in the template's arena. Thread: any.
 */
#pragma once
#include "base/map.h"
#include "jinja/jinja_op.h"

enum expr_kind {
	EX_CONST,   /* value */
	EX_NAME,    /* name; bound to (up, slot) */
	EX_NSREF,   /* target `name.attr` of a set: a is the NAME, name the attr */
	EX_TUPLE, EX_LIST, /* items */
	EX_DICT,    /* items: key, value, key, value, … */
	EX_COND,    /* a if b else c; c may be NULL */
	EX_OR, EX_AND, EX_CONCAT, /* items */
	EX_NOT, EX_NEG, EX_POS,   /* a */
	EX_COMPARE, /* items[0] ops[0] items[1] ops[1] … (enum jcmp) */
	EX_ARITH,   /* the same from left to right (enum jop) */
	EX_ATTR,    /* a.name */
	EX_ITEM,    /* a[b] */
	EX_SLICE,   /* a[items[0]:items[1]:items[2]], NULL for parts left out */
	EX_CALL,    /* a(args) */
	EX_FILTER,  /* a | name(args); a NULL: the text of the block */
	EX_TEST,    /* a is name(args) */
};

struct kwexpr {
	struct str name;
	struct expr *value;
};

struct argexprs {
	struct expr **pos;
	int n_pos;
	struct kwexpr *kw;
	int n_kw;
	struct expr *star, *star_star; /* *a, **b; or NULL */
};

struct expr {
	enum expr_kind kind;
	int line, column;
	struct expr *a, *b, *c;
	struct expr **items;
	int n;
	uint8_t *ops;
	struct str name;
	bool is_method;             /* ATTR: some type has such a method */
	int up, slot;               /* NAME */
	struct jinja_value *value;  /* CONST */
	struct argexprs *args;      /* CALL, FILTER, TEST */
	const struct jbuiltin *fn;  /* FILTER, TEST; NULL: fails when it is reached */
};

struct jblock {
	struct stmt **p;
	int n;
};

/* Where a name's slot gets its value when its scope is entered. */
enum load_how {
	LOAD_NONE,   /* undefined until assigned */
	LOAD_PARAM,  /* set by whoever enters */
	LOAD_GLOBAL, /* looked up in the context: index in `from` */
	LOAD_OUTER,  /* copied from slot (up, from) */
};
struct jload {
	enum load_how how;
	int up, from;
};

/* What runs with a frame of its own. */
struct scope {
	struct scope *parent;
	struct jload *loads; /* one for each slot */
	int n_slots;
	bool is_captured; /* a macro inside keeps the frame: one for each run */
	struct strmap names; /* name to slot, while binding */
};

struct branch {
	struct expr *test; /* NULL: else */
	struct jblock body;
	int line;
};

/* What a macro gets besides its parameters, when its body asks for it. */
enum special { SPECIAL_CALLER, SPECIAL_KWARGS, SPECIAL_VARARGS };
extern const char *const jparse_special_names[3];

enum stmt_kind {
	ST_OUTPUT,     /* items */
	ST_IF,         /* branches */
	ST_FOR,        /* target in expr if test: body else else_ */
	ST_SET,        /* target = expr */
	ST_SET_BLOCK,  /* target = body, through filter expr (may be NULL) */
	ST_MACRO,      /* target name, params, body */
	ST_CALL,       /* expr with body as caller, params */
	ST_FILTER,     /* body through expr */
	ST_WITH,       /* params = items, body */
	ST_GENERATION, /* body */
	ST_BREAK, ST_CONTINUE,
};

struct stmt {
	enum stmt_kind kind;
	int line;
	struct str name;      /* MACRO */
	struct expr *expr, *target, *test;
	struct expr **items;  /* OUTPUT, WITH */
	int n;
	struct expr **params; /* MACRO, CALL, WITH: names */
	struct expr **defaults; /* [n_params], NULL: none */
	int n_params;
	unsigned mentions;    /* MACRO, CALL: the body names one of enum special */
	int special_slot[3];  /* of those it mentions and does not declare, else -1 */
	bool has_caller_param; /* declares `caller` itself */
	struct branch *branches;
	int n_branches;
	struct jblock body, else_;
	struct scope *scope, *else_scope, *test_scope;
	int loop_slot;        /* FOR */
	bool is_recursive;
};

struct jinja {
	struct arena arena;
	struct jblock body;
	struct scope *scope;
	struct str *global_names; /* names the context is asked for */
	int n_globals;
};

/* A frame at run time: the slots of one scope, and the frame around it. */
struct jframe {
	struct jframe *parent;
	struct jinja_value *slots[]; /* NULL: not assigned */
};

/* --- between the passes -------------------------------------------------- */

enum tok {
	T_EOF, T_DATA, T_VAR_BEGIN, T_VAR_END, T_BLOCK_BEGIN, T_BLOCK_END,
	T_NAME, T_STRING, T_INT, T_FLOAT,
	T_ADD, T_SUB, T_DIV, T_FLOORDIV, T_MUL, T_MOD, T_POW, T_TILDE,
	T_LBRACKET, T_RBRACKET, T_LPAREN, T_RPAREN, T_LBRACE, T_RBRACE,
	T_EQ, T_NE, T_GT, T_GE, T_LT, T_LE, T_ASSIGN, T_DOT, T_COLON, T_PIPE,
	T_COMMA, T_SEMICOLON,
};

struct token {
	enum tok type;
	int line, column;
	struct str text; /* DATA, NAME, STRING: what it stands for; else as written */
	union {
		int64_t i;
		double f;
	};
};

/* All tokens of a template, the last is T_EOF; in the arena. */
enum status jlex_run(struct arena *a, struct str source, struct token **out,
		     struct fail *fail) MUST_USE;
/* E_FORMAT with the place. */
enum status jlex_fail(struct fail *fail, int line, int column, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* State of the parser; functions give NULL once failed. */
struct jparser {
	struct arena *a;
	const struct token *t; /* the current one */
	struct fail *fail;
	bool failed;
	int depth;      /* left */
	int loops;      /* for statements around, in this function */
	unsigned mentions; /* bits of enum special, in this function so far */
};
void *jparse_fail(struct jparser *p, const struct token *at, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
bool jparse_enter(struct jparser *p);
bool jparse_expect(struct jparser *p, enum tok type);
bool jparse_skip(struct jparser *p, enum tok type);
bool jparse_is_name(const struct jparser *p, const char *name);
bool jparse_skip_name(struct jparser *p, const char *name);
/* An array of n items, with room for one more: it doubles in the arena. */
void *jparse_grow(struct arena *a, void *items, int n, size_t size);
/* Append to an array of pointers that grows so. */
void jparse_push(struct jparser *p, void *list, int *n, void *item);

struct expr *jexpr_new(struct jparser *p, enum expr_kind kind, const struct token *at);
struct expr *jexpr_parse(struct jparser *p);
/* Several expressions with commas are a tuple; `end` is a name that ends it, or
 * NULL. */
struct expr *jexpr_parse_tuple(struct jparser *p, bool with_cond, const char *end);
struct expr *jexpr_parse_target(struct jparser *p, bool with_namespace, const char *end);
struct expr *jexpr_parse_name(struct jparser *p);
/* `a | filter…`; a may be NULL. Inline: the first filter has no bar before it. */
struct expr *jexpr_parse_filters(struct jparser *p, struct expr *a, bool is_inline);

/* Give every name its slot. false: failed, with E_FORMAT. */
bool jscope_bind(struct jinja *j, struct fail *fail) MUST_USE;
