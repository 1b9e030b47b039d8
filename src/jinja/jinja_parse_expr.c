/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses expressions. Precedence from low to high:
 *
 *   a if b else c
 *   or
 *   and
 *   not
 *   == != < <= > >= in, not in      (chained as in Python)
 *   + -
 *   ~
 *   * / // %
 *   **                              (left-associative, unlike Python)
 *   unary - +
 *   .name [item] (call) | filter  is test
 *
 * Each level is a function; the arithmetic levels are rows of a table. All operands
 * of one level stand in one node, so a long chain does not make a deep tree.
 */
#include "jinja/jinja_ast.h"

static struct expr *parse_unary(struct jparser *p, bool with_filters);
static struct expr *parse_primary(struct jparser *p, bool with_namespace);

struct expr *jexpr_new(struct jparser *p, enum expr_kind kind, const struct token *at)
{
	struct expr *e = arena_alloc(p->a, sizeof *e);
	e->kind = kind;
	e->line = at->line;
	e->column = at->column;
	return e;
}

static struct expr *new_const(struct jparser *p, const struct token *at,
			      struct jinja_value *value)
{
	struct expr *e = jexpr_new(p, EX_CONST, at);
	e->value = value;
	return e;
}

static void push_item(struct jparser *p, struct expr *e, struct expr *item)
{
	jparse_push(p, &e->items, &e->n, item);
}

/* Appends the operator after the last item. */
static void push_op(struct jparser *p, struct expr *e, int op)
{
	int n = e->n - 1; /* number of operators before this one */
	e->ops = jparse_grow(p->a, e->ops, n, sizeof *e->ops);
	e->ops[n] = (uint8_t)op;
}

/* --- operators ----------------------------------------------------------- */

static const struct {
	enum expr_kind kind;
	struct {
		enum tok tok;
		int op;
	} ops[4];
	int n;
} levels[] = {
	{EX_ARITH, {{T_ADD, OP_ADD}, {T_SUB, OP_SUB}}, 2},
	{EX_CONCAT, {{T_TILDE, 0}}, 1},
	{EX_ARITH, {{T_MUL, OP_MUL}, {T_DIV, OP_DIV}, {T_FLOORDIV, OP_FLOORDIV},
		    {T_MOD, OP_MOD}}, 4},
};
#define N_LEVELS 3

static int level_op(int level, enum tok type)
{
	for (int i = 0; i < levels[level].n; i++)
		if (levels[level].ops[i].tok == type)
			return levels[level].ops[i].op;
	return -1;
}

static struct expr *parse_arith(struct jparser *p, int level)
{
	if (level == N_LEVELS)
		return parse_unary(p, true);
	const struct token *at = p->t;
	struct expr *first = parse_arith(p, level + 1), *e = NULL;
	int op;
	while (first && (op = level_op(level, p->t->type)) >= 0) {
		if (!e) {
			e = jexpr_new(p, levels[level].kind, at);
			push_item(p, e, first);
		}
		push_op(p, e, op);
		p->t++;
		struct expr *next = parse_arith(p, level + 1);
		if (!next)
			return NULL;
		push_item(p, e, next);
	}
	return e ? e : first;
}

static int compare_op(struct jparser *p)
{
	switch (p->t->type) {
	case T_EQ: p->t++; return CMP_EQ;
	case T_NE: p->t++; return CMP_NE;
	case T_LT: p->t++; return CMP_LT;
	case T_LE: p->t++; return CMP_LE;
	case T_GT: p->t++; return CMP_GT;
	case T_GE: p->t++; return CMP_GE;
	default: break;
	}
	if (jparse_skip_name(p, "in"))
		return CMP_IN;
	if (jparse_is_name(p, "not") && p->t[1].type == T_NAME &&
	    str_is(p->t[1].text, "in")) {
		p->t += 2;
		return CMP_NOT_IN;
	}
	return -1;
}

static struct expr *parse_compare(struct jparser *p)
{
	const struct token *at = p->t;
	struct expr *first = parse_arith(p, 0), *e = NULL;
	int op;
	while (first && (op = compare_op(p)) >= 0) {
		if (!e) {
			e = jexpr_new(p, EX_COMPARE, at);
			push_item(p, e, first);
		}
		push_op(p, e, op);
		struct expr *next = parse_arith(p, 0);
		if (!next)
			return NULL;
		push_item(p, e, next);
	}
	return e ? e : first;
}

static struct expr *parse_not(struct jparser *p)
{
	const struct token *at = p->t;
	if (!jparse_skip_name(p, "not"))
		return parse_compare(p);
	if (!jparse_enter(p))
		return NULL;
	struct expr *e = jexpr_new(p, EX_NOT, at);
	e->a = parse_not(p);
	p->depth++;
	return e->a ? e : NULL;
}

/* Parses `and` with operands of `not`, or `or` with operands of `and`. */
static struct expr *parse_logic(struct jparser *p, bool is_or)
{
	const struct token *at = p->t;
	struct expr *first = is_or ? parse_logic(p, false) : parse_not(p), *e = NULL;
	while (first && jparse_skip_name(p, is_or ? "or" : "and")) {
		if (!e) {
			e = jexpr_new(p, is_or ? EX_OR : EX_AND, at);
			push_item(p, e, first);
		}
		struct expr *next = is_or ? parse_logic(p, false) : parse_not(p);
		if (!next)
			return NULL;
		push_item(p, e, next);
	}
	return e ? e : first;
}

static struct expr *parse_cond(struct jparser *p)
{
	const struct token *at = p->t;
	struct expr *e = parse_logic(p, true);
	int nested = 0; /* each further `if` of `a if b if c` nests one level deeper */
	while (e && jparse_skip_name(p, "if")) {
		if (!jparse_enter(p))
			return NULL;
		nested++;
		struct expr *cond = jexpr_new(p, EX_COND, at);
		cond->a = e;
		cond->b = parse_logic(p, true);
		if (!cond->b)
			return NULL;
		if (jparse_skip_name(p, "else") && !(cond->c = parse_cond(p)))
			return NULL;
		e = cond;
	}
	p->depth += nested;
	return e;
}

static struct expr *parse_expression(struct jparser *p, bool with_cond)
{
	if (!jparse_enter(p))
		return NULL;
	struct expr *e = with_cond ? parse_cond(p) : parse_logic(p, true);
	p->depth++;
	return e;
}

struct expr *jexpr_parse(struct jparser *p) { return parse_expression(p, true); }

/* --- what follows a value ------------------------------------------------ */

static bool parse_argument(struct jparser *p, struct argexprs *args)
{
	const struct token *at = p->t;
	if (at->type == T_MUL || at->type == T_POW) {
		bool twice = args->star_star || (at->type == T_MUL && args->star);
		p->t++;
		struct expr *e = twice ? NULL : jexpr_parse(p);
		if (twice)
			jparse_fail(p, at, "this argument cannot stand here");
		*(at->type == T_MUL ? &args->star : &args->star_star) = e;
		return e != NULL;
	}
	if (at->type == T_NAME && at[1].type == T_ASSIGN) {
		if (args->star_star)
			return jparse_fail(p, at, "this argument cannot stand here");
		p->t += 2;
		args->kw = jparse_grow(p->a, args->kw, args->n_kw, sizeof *args->kw);
		struct kwexpr *kw = &args->kw[args->n_kw++];
		kw->name = at->text;
		return (kw->value = jexpr_parse(p)) != NULL;
	}
	if (args->star || args->star_star || args->n_kw)
		return jparse_fail(p, at, "a plain argument behind a named one");
	struct expr *e = jexpr_parse(p);
	jparse_push(p, &args->pos, &args->n_pos, e);
	return e != NULL;
}

static struct argexprs *parse_args(struct jparser *p)
{
	struct argexprs *args = arena_alloc(p->a, sizeof *args);
	if (!jparse_expect(p, T_LPAREN))
		return NULL;
	bool first = true;
	while (p->t->type != T_RPAREN) {
		if (!first && !jparse_expect(p, T_COMMA))
			return NULL;
		if (!first && p->t->type == T_RPAREN)
			break;
		if (!parse_argument(p, args))
			return NULL;
		first = false;
	}
	p->t++;
	return args;
}

static struct expr *parse_slice_or_item(struct jparser *p, struct expr **out_slice)
{
	struct expr *part[3] = {NULL};
	const struct token *at = p->t;
	int i = 0;
	if (p->t->type != T_COLON) {
		part[0] = jexpr_parse(p);
		if (!part[0] || p->t->type != T_COLON)
			return part[0];
	}
	while (p->t->type == T_COLON && i < 2) {
		p->t++;
		i++;
		if (p->t->type == T_COLON || p->t->type == T_RBRACKET)
			continue;
		if (!(part[i] = jexpr_parse(p)))
			return NULL;
	}
	struct expr *e = jexpr_new(p, EX_SLICE, at);
	for (i = 0; i < 3; i++)
		push_item(p, e, part[i]);
	return *out_slice = e;
}

static struct expr *parse_bracket(struct jparser *p, struct expr *of)
{
	const struct token *at = p->t++;
	struct expr *slice = NULL, *first = NULL, *tuple = NULL;
	if (p->t->type == T_RBRACKET)
		tuple = jexpr_new(p, EX_TUPLE, at);
	else if (!(first = parse_slice_or_item(p, &slice)))
		return NULL;
	while (p->t->type == T_COMMA) { /* x[a, b]: the key is a tuple */
		if (slice)
			return jparse_fail(p, p->t, "a slice cannot be part of a key");
		if (!tuple)
			push_item(p, tuple = jexpr_new(p, EX_TUPLE, at), first);
		p->t++;
		struct expr *next = jexpr_parse(p);
		if (!next)
			return NULL;
		push_item(p, tuple, next);
	}
	if (!jparse_expect(p, T_RBRACKET))
		return NULL;
	struct expr *e = slice ? slice : jexpr_new(p, EX_ITEM, at);
	e->a = of;
	if (!slice)
		e->b = tuple ? tuple : first;
	return e;
}

static struct expr *parse_dot(struct jparser *p, struct expr *of)
{
	const struct token *at = p->t++, *name = p->t++;
	if (name->type == T_INT) {
		struct expr *e = jexpr_new(p, EX_ITEM, at);
		e->a = of;
		e->b = new_const(p, name, jinja_int(p->a, name->i));
		return e;
	}
	if (name->type != T_NAME) {
		p->t = name;
		return jparse_fail(p, name, "a name or number is expected behind '.'");
	}
	struct expr *e = jexpr_new(p, EX_ATTR, at);
	e->a = of;
	e->name = name->text;
	e->is_method = jmethod_is_name(name->text);
	return e;
}

static struct expr *parse_call(struct jparser *p, struct expr *of)
{
	struct expr *e = jexpr_new(p, EX_CALL, p->t);
	e->a = of;
	return (e->args = parse_args(p)) ? e : NULL;
}

/* Parses a name with dots, as filters and tests may have. */
static bool parse_dotted(struct jparser *p, struct str *out)
{
	*out = p->t->text;
	if (!jparse_expect(p, T_NAME))
		return false;
	while (jparse_skip(p, T_DOT)) {
		out->n = (size_t)(p->t->text.p + p->t->text.n - out->p);
		if (!jparse_expect(p, T_NAME))
			return false;
	}
	return true;
}

struct expr *jexpr_parse_filters(struct jparser *p, struct expr *a, bool is_inline)
{
	int nested = 0;
	while (is_inline || p->t->type == T_PIPE) {
		if (!is_inline)
			p->t++;
		is_inline = false;
		struct expr *e = jexpr_new(p, EX_FILTER, p->t);
		e->a = a;
		if (!jparse_enter(p) || !parse_dotted(p, &e->name))
			return NULL;
		nested++;
		if (p->t->type != T_LPAREN)
			e->args = arena_alloc(p->a, sizeof *e->args);
		else if (!(e->args = parse_args(p)))
			return NULL;
		e->fn = jfilter_find(e->name);
		a = e;
	}
	p->depth += nested;
	return a;
}

static bool begins_test_argument(const struct jparser *p)
{
	switch (p->t->type) {
	case T_NAME:
		return !jparse_is_name(p, "else") && !jparse_is_name(p, "or") &&
		       !jparse_is_name(p, "and");
	case T_STRING:
	case T_INT:
	case T_FLOAT:
	case T_LBRACKET:
	case T_LBRACE:
		return true;
	default:
		return false;
	}
}

static struct expr *parse_postfix(struct jparser *p, struct expr *e);

static struct expr *parse_test(struct jparser *p, struct expr *a)
{
	const struct token *at = p->t++;
	bool negated = jparse_skip_name(p, "not");
	struct expr *e = jexpr_new(p, EX_TEST, at);
	e->a = a;
	if (!parse_dotted(p, &e->name))
		return NULL;
	if (p->t->type == T_LPAREN) {
		if (!(e->args = parse_args(p)))
			return NULL;
	} else {
		e->args = arena_alloc(p->a, sizeof *e->args);
		if (begins_test_argument(p)) {
			if (jparse_is_name(p, "is"))
				return jparse_fail(p, p->t, "tests cannot be chained");
			struct expr *arg = parse_primary(p, false);
			arg = arg ? parse_postfix(p, arg) : NULL;
			if (!arg)
				return NULL;
			jparse_push(p, &e->args->pos, &e->args->n_pos, arg);
		}
	}
	e->fn = jtest_find(e->name);
	if (!negated)
		return e;
	struct expr *not = jexpr_new(p, EX_NOT, at);
	not->a = e;
	return not;
}

/* Parses .name, [item], (call), filters and tests after a value. Each one nests the value
 * one level deeper. The levels are released at the end, because what follows is not
 * nested inside. */
static struct expr *parse_steps(struct jparser *p, struct expr *e, bool with_filters)
{
	int nested = 0;
	while (e) {
		enum tok type = p->t->type;
		bool is_test = with_filters && jparse_is_name(p, "is");
		if (type != T_DOT && type != T_LBRACKET && type != T_LPAREN &&
		    !is_test && !(with_filters && type == T_PIPE))
			break;
		/* after a filter or test only calls, filters and tests may follow */
		if (with_filters && (type == T_DOT || type == T_LBRACKET))
			break;
		if (!jparse_enter(p))
			return NULL;
		nested++;
		e = type == T_DOT ? parse_dot(p, e) :
		    type == T_LBRACKET ? parse_bracket(p, e) :
		    type == T_LPAREN ? parse_call(p, e) :
		    is_test ? parse_test(p, e) : jexpr_parse_filters(p, e, false);
	}
	p->depth += nested;
	return e;
}

static struct expr *parse_postfix(struct jparser *p, struct expr *e)
{
	return parse_steps(p, e, false);
}

static struct expr *parse_unary(struct jparser *p, bool with_filters)
{
	const struct token *at = p->t;
	struct expr *e;
	if (at->type == T_SUB || at->type == T_ADD) {
		p->t++;
		if (!jparse_enter(p))
			return NULL;
		e = jexpr_new(p, at->type == T_SUB ? EX_NEG : EX_POS, at);
		e->a = parse_unary(p, false);
		p->depth++;
		if (!e->a)
			return NULL;
	} else {
		e = parse_primary(p, false);
	}
	e = e ? parse_postfix(p, e) : NULL;
	return e && with_filters ? parse_steps(p, e, true) : e;
}

/* --- values -------------------------------------------------------------- */

const char *const jparse_special_names[3] = {"caller", "kwargs", "varargs"};

static struct expr *parse_name(struct jparser *p, bool with_namespace)
{
	static const struct {
		const char *name;
		struct jinja_value *value;
	} words[] = {
		{"true", &jval_true}, {"True", &jval_true}, {"false", &jval_false},
		{"False", &jval_false}, {"none", &jval_none}, {"None", &jval_none},
	};
	const struct token *at = p->t++;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (str_is(at->text, words[i].name))
			return new_const(p, at, words[i].value);
	struct expr *e = jexpr_new(p, EX_NAME, at);
	e->name = at->text;
	for (int i = 0; i < 3; i++)
		if (str_is(at->text, jparse_special_names[i]))
			p->mentions |= 1u << i;
	if (!with_namespace || !jparse_skip(p, T_DOT))
		return e;
	struct expr *ref = jexpr_new(p, EX_NSREF, at);
	ref->a = e;
	ref->name = p->t->text;
	return jparse_expect(p, T_NAME) ? ref : NULL;
}

static struct expr *parse_string(struct jparser *p)
{
	const struct token *at = p->t;
	struct buf all = {0};
	for (; p->t->type == T_STRING; p->t++)
		buf_add_str(&all, p->t->text);
	struct expr *e = new_const(p, at, jinja_string(p->a, buf_str(&all),
						       TRUST_TEMPLATE));
	buf_deinit(&all);
	return e;
}

/* Parses [a, b] and {a: b, c: d}; a comma may follow the last item. */
static struct expr *parse_display(struct jparser *p, enum tok close)
{
	bool is_dict = close == T_RBRACE;
	struct expr *e = jexpr_new(p, is_dict ? EX_DICT : EX_LIST, p->t++);
	while (p->t->type != close) {
		if (e->n && !jparse_expect(p, T_COMMA))
			return NULL;
		if (p->t->type == close)
			break;
		struct expr *item = jexpr_parse(p);
		if (!item)
			return NULL;
		push_item(p, e, item);
		if (!is_dict)
			continue;
		if (!jparse_expect(p, T_COLON) || !(item = jexpr_parse(p)))
			return NULL;
		push_item(p, e, item);
	}
	p->t++;
	return e;
}

static bool is_tuple_end(const struct jparser *p, const char *end)
{
	enum tok t = p->t->type;
	return t == T_VAR_END || t == T_BLOCK_END || t == T_RPAREN ||
	       (end && jparse_is_name(p, end));
}

/* How parse_tuple reads items with commas between them. */
struct tuple_opts {
	bool is_target, with_cond, with_namespace, may_be_empty;
	const char *end;
};

static struct expr *parse_tuple(struct jparser *p, const struct tuple_opts *o)
{
	const struct token *at = p->t;
	struct expr *first = NULL, *tuple = NULL;
	for (;;) {
		if (is_tuple_end(p, o->end))
			break;
		struct expr *e = o->is_target ? parse_primary(p, o->with_namespace)
					      : parse_expression(p, o->with_cond);
		if (!e)
			return NULL;
		if (!first)
			first = e;
		if (!tuple && p->t->type == T_COMMA)
			push_item(p, tuple = jexpr_new(p, EX_TUPLE, at), first);
		else if (tuple)
			push_item(p, tuple, e);
		if (!jparse_skip(p, T_COMMA))
			break;
	}
	if (tuple || first)
		return tuple ? tuple : first;
	if (!o->may_be_empty)
		return jparse_fail(p, p->t, "an expression is expected");
	return jexpr_new(p, EX_TUPLE, at);
}

struct expr *jexpr_parse_tuple(struct jparser *p, bool with_cond)
{
	return parse_tuple(p, &(struct tuple_opts){.with_cond = with_cond});
}

static struct expr *parse_parens(struct jparser *p)
{
	p->t++;
	struct expr *e = parse_tuple(p, &(struct tuple_opts){
		.with_cond = true, .may_be_empty = true});
	return e && jparse_expect(p, T_RPAREN) ? e : NULL;
}

static struct expr *parse_primary(struct jparser *p, bool with_namespace)
{
	const struct token *at = p->t;
	switch (at->type) {
	case T_NAME: return parse_name(p, with_namespace);
	case T_STRING: return parse_string(p);
	case T_INT: p->t++; return new_const(p, at, jinja_int(p->a, at->i));
	case T_FLOAT: p->t++; return new_const(p, at, jinja_float(p->a, at->f));
	case T_LPAREN: return parse_parens(p);
	case T_LBRACKET: return parse_display(p, T_RBRACKET);
	case T_LBRACE: return parse_display(p, T_RBRACE);
	case T_EOF: return jparse_fail(p, at, "the template ends inside a tag");
	default:
		return jparse_fail(p, at, "unexpected '%.*s'", (int)at->text.n,
				   at->text.p);
	}
}

/* --- targets of assignments ---------------------------------------------- */

static bool can_assign(const struct expr *e)
{
	if (e->kind == EX_TUPLE)
		for (int i = 0; i < e->n; i++)
			if (!can_assign(e->items[i]))
				return false;
	return e->kind == EX_NAME || e->kind == EX_NSREF || e->kind == EX_TUPLE;
}

struct expr *jexpr_parse_target(struct jparser *p, bool with_namespace, const char *end)
{
	const struct token *at = p->t;
	unsigned mentions = p->mentions; /* an assignment to a special name does not count as a
					  * mention */
	struct expr *e = parse_tuple(p, &(struct tuple_opts){
		.is_target = true, .with_namespace = with_namespace, .end = end});
	p->mentions = mentions;
	if (e && !can_assign(e))
		return jparse_fail(p, at, "this cannot be assigned to");
	return e;
}

struct expr *jexpr_parse_name(struct jparser *p)
{
	const struct token *at = p->t;
	if (at->type != T_NAME)
		return jparse_fail(p, at, "a name is expected");
	struct expr *e = parse_name(p, false);
	if (e->kind != EX_NAME)
		return jparse_fail(p, at, "'%.*s' cannot be assigned to",
				   (int)at->text.n, at->text.p);
	return e;
}
