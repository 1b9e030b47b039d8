/* SPDX-License-Identifier: Apache-2.0
 *
 * A parsed template: trees of statements and expressions, with names bound to slots.
 * jinja_parse*.c makes the trees, jinja_scope.c binds the names, and after that nothing
 * changes. The template's arena owns everything. Thread: any.
 */
#pragma once
#include "base/map.h"
#include "jinja/jinja_op.h"

enum expr_kind {
	EX_CONST,   /* uses: value */
	EX_NAME,    /* uses: name; binding sets (up, slot) */
	EX_NSREF,   /* target `name.attr` of a set: a is the NAME, name is the attribute */
	EX_TUPLE, EX_LIST, /* uses: items */
	EX_DICT,    /* items: key, value, key, value, … */
	EX_COND,    /* `a if b else c`; c may be NULL */
	EX_OR, EX_AND, EX_CONCAT, /* uses: items */
	EX_NOT, EX_NEG, EX_POS,   /* a */
	EX_COMPARE, /* items[0] ops[0] items[1] ops[1] …; ops are enum jcmp */
	EX_ARITH,   /* like COMPARE, evaluated left to right; ops are enum jop */
	EX_ATTR,    /* a.name */
	EX_ITEM,    /* a[b] */
	EX_SLICE,   /* a[items[0]:items[1]:items[2]]; an omitted part is NULL */
	EX_CALL,    /* a(args) */
	EX_FILTER,  /* a | name(args); a NULL: applies to the text of a block */
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
	struct expr *star, *star_star; /* the a and b of f(*a, **b); NULL if absent */
};

struct expr {
	enum expr_kind kind;
	int line, column;
	struct expr *a, *b, *c;
	struct expr **items;
	int n;
	uint8_t *ops;
	struct str name;
	bool is_method;             /* for ATTR: some type has a method of this name */
	int up, slot;               /* for NAME: `up` frames outward, then index `slot` */
	struct jinja_value *value;  /* for CONST */
	struct argexprs *args;      /* for CALL, FILTER, TEST */
	const struct jbuiltin *fn;  /* for FILTER, TEST; NULL: unknown name, fails when evaluated */
};

struct jblock {
	struct stmt **p;
	int n;
};

/* How a name's slot gets its first value when its scope is entered. */
enum load_how {
	LOAD_NONE,   /* undefined until assigned */
	LOAD_PARAM,  /* set by the code that enters the scope */
	LOAD_GLOBAL, /* looked up in the context; `from` is the index in global_names */
	LOAD_OUTER,  /* copied from slot `from`, `up` frames outward */
};
struct jload {
	enum load_how how;
	int up, from;
};

/* A part of the template that runs with a frame of its own. */
struct scope {
	struct scope *parent;
	struct jload *loads; /* one entry per slot */
	int n_slots;
	bool is_captured; /* a macro inside keeps the frame, so each run needs a new frame */
	struct strmap names; /* name to slot; used while binding only */
};

struct branch {
	struct expr *test; /* NULL: the else branch */
	struct jblock body;
	int line;
};

/* Extra variables of a macro, set only if the macro's body mentions them. */
enum special { SPECIAL_CALLER, SPECIAL_KWARGS, SPECIAL_VARARGS };
extern const char *const jparse_special_names[3];

enum stmt_kind {
	ST_OUTPUT,     /* {{ }} and text; uses: items */
	ST_IF,         /* uses: branches */
	ST_FOR,        /* for target in expr if test: body else else_ */
	ST_SET,        /* target = expr */
	ST_SET_BLOCK,  /* target = body, passed through filter expr (may be NULL) */
	ST_MACRO,      /* macro named target, with params and body */
	ST_CALL,       /* call of expr, with body as its caller() and params */
	ST_FILTER,     /* body, passed through filter expr */
	ST_WITH,       /* with params = items: body */
	ST_GENERATION, /* uses: body */
	ST_BREAK, ST_CONTINUE,
};

struct stmt {
	enum stmt_kind kind;
	int line;
	struct str name;      /* for MACRO */
	struct expr *expr, *target, *test;
	struct expr **items;  /* for OUTPUT, WITH */
	int n;
	struct expr **params; /* for MACRO, CALL, WITH: EX_NAME nodes */
	struct expr **defaults; /* [n_params]; NULL: no default */
	int n_params;
	unsigned mentions;    /* for MACRO, CALL: bit set of enum special that the body mentions */
	int special_slot[3];  /* slot per enum special; -1: not mentioned, or declared as a
			       * parameter */
	struct branch *branches;
	int n_branches;
	struct jblock body, else_;
	struct scope *scope, *else_scope, *test_scope;
	int loop_slot;        /* for FOR: slot of the variable `loop` */
};

struct jinja {
	struct arena arena;
	struct jblock body;
	struct scope *scope;
	struct str *global_names; /* names that are looked up in the context */
	int n_globals;
};

/* A frame at run time: the values of one scope's slots. */
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
	struct str text; /* DATA, NAME, STRING: the text without escapes; others: the source
			  * text */
	union {
		int64_t i;
		double f;
	};
};

/* Splits source into tokens. The last token is T_EOF. Arena a owns the tokens. */
enum status jlex_run(struct arena *a, struct str source, struct token **out,
		     struct fail *fail) MUST_USE;
/* Fails with E_FORMAT and a text that gives line and column. */
enum status jlex_fail(struct fail *fail, int line, int column, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* State of the parser. After a failure, its functions return NULL. */
struct jparser {
	struct arena *a;
	const struct token *t; /* the current token */
	struct fail *fail;
	bool failed;
	int depth;      /* levels of nesting that are still permitted */
	int loops;      /* number of enclosing `for` statements within this function */
	unsigned mentions; /* bit set of enum special mentioned in this function so far */
};
void *jparse_fail(struct jparser *p, const struct token *at, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
bool jparse_enter(struct jparser *p);
bool jparse_expect(struct jparser *p, enum tok type);
bool jparse_skip(struct jparser *p, enum tok type);
bool jparse_is_name(const struct jparser *p, const char *name);
bool jparse_skip_name(struct jparser *p, const char *name);
/* Returns an array with room for item number n. The array's capacity doubles, in the
 * arena. */
void *jparse_grow(struct arena *a, void *items, int n, size_t size);
/* Appends item to `list`, an array of pointers that jparse_grow grows. */
void jparse_push(struct jparser *p, void *list, int *n, void *item);

struct expr *jexpr_new(struct jparser *p, enum expr_kind kind, const struct token *at);
struct expr *jexpr_parse(struct jparser *p);
/* Parses expressions; several with commas between them are a tuple. */
struct expr *jexpr_parse_tuple(struct jparser *p, bool with_cond);
/* `end` is a name that ends the targets, or NULL. */
struct expr *jexpr_parse_target(struct jparser *p, bool with_namespace, const char *end);
struct expr *jexpr_parse_name(struct jparser *p);
/* Parses `a | filter | …`; a may be NULL. is_inline: no bar precedes the first filter. */
struct expr *jexpr_parse_filters(struct jparser *p, struct expr *a, bool is_inline);

/* Binds every name to a slot. False: failed, with E_FORMAT. */
bool jscope_bind(struct jinja *j, struct fail *fail) MUST_USE;
