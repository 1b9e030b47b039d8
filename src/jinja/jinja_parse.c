/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses statements, and compiles a source to a template.
 *
 * Recursive descent. A function that fails calls jparse_fail and returns NULL or false;
 * the first failure is kept. Tokens are an array, so looking ahead is an index. One
 * counter bounds nesting of any kind (parentheses, blocks, chains of filters), because
 * recursive functions walk the tree later.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "jinja/jinja_ast.h"

#define NEST_MAX 160

static bool parse_body(struct jparser *p, const char *const *ends, struct jblock *out);

void *jparse_fail(struct jparser *p, const struct token *at, const char *fmt, ...)
{
	if (p->failed)
		return NULL;
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	p->failed = true;
	(void)jlex_fail(p->fail, at->line, at->column, "%s", text);
	return NULL;
}

bool jparse_enter(struct jparser *p)
{
	if (p->depth-- > 0)
		return true;
	jparse_fail(p, p->t, "nested too deeply");
	return false;
}

static const char *const token_names[] = {
	[T_EOF] = "the end of the template", [T_VAR_END] = "'}}'",
	[T_BLOCK_END] = "'%}'", [T_NAME] = "a name", [T_LPAREN] = "'('",
	[T_RPAREN] = "')'", [T_RBRACKET] = "']'", [T_RBRACE] = "'}'",
	[T_COLON] = "':'", [T_COMMA] = "','", [T_ASSIGN] = "'='",
};

bool jparse_expect(struct jparser *p, enum tok type)
{
	if (jparse_skip(p, type))
		return true;
	if (p->t->type == T_EOF)
		jparse_fail(p, p->t, "the template ends where %s is expected",
			    token_names[type]);
	else
		jparse_fail(p, p->t, "%s is expected, not '%.*s'", token_names[type],
			    (int)MIN(p->t->text.n, 60), p->t->text.p);
	return false;
}

bool jparse_skip(struct jparser *p, enum tok type)
{
	if (p->t->type != type)
		return false;
	p->t++;
	return true;
}

bool jparse_is_name(const struct jparser *p, const char *name)
{
	return p->t->type == T_NAME && str_is(p->t->text, name);
}

bool jparse_skip_name(struct jparser *p, const char *name)
{
	if (!jparse_is_name(p, name))
		return false;
	p->t++;
	return true;
}

void *jparse_grow(struct arena *a, void *items, int n, size_t size)
{
	if ((n & (n - 1)) != 0) /* the array is full at 0 and at every power of two */
		return items;
	void *grown = arena_alloc(a, size * (n ? 2 * (size_t)n : 1));
	if (n)
		memcpy(grown, items, size * (size_t)n);
	return grown;
}

void jparse_push(struct jparser *p, void *list, int *n, void *item)
{
	void **items;
	memcpy(&items, list, sizeof items);
	items = jparse_grow(p->a, items, *n, sizeof *items);
	items[(*n)++] = item;
	memcpy(list, &items, sizeof items);
}

/* --- statements ---------------------------------------------------------- */

static bool expect_name(struct jparser *p, const char *name)
{
	if (jparse_skip_name(p, name))
		return true;
	jparse_fail(p, p->t, "'%s' is expected", name);
	return false;
}

/* Parses the rest of a tag, a body, and the word that ends the body. */
static bool parse_body_to(struct jparser *p, const char *end, struct jblock *out)
{
	const char *const ends[] = {end, NULL};
	if (!parse_body(p, ends, out))
		return false;
	p->t++;
	return true;
}

/* Parses a body that is a function of its own. `break` and `continue` cannot leave it for
 * a loop outside. Records which special names it mentions. */
static bool parse_function_body(struct jparser *p, const char *end, struct stmt *s)
{
	int loops = p->loops;
	unsigned mentions = p->mentions;
	p->loops = 0;
	p->mentions = 0;
	bool ok = parse_body_to(p, end, &s->body);
	s->mentions = p->mentions;
	p->loops = loops;
	p->mentions |= mentions;
	return ok;
}

static bool parse_if(struct jparser *p, struct stmt *s)
{
	static const char *const ends[] = {"elif", "else", "endif", NULL};
	bool is_else = false;
	for (;;) {
		struct branch b = {.line = p->t->line};
		if (!is_else && !(b.test = jexpr_parse_tuple(p, false)))
			return false;
		if (!parse_body(p, is_else ? ends + 2 : ends, &b.body))
			return false;
		s->branches = jparse_grow(p->a, s->branches, s->n_branches, sizeof b);
		s->branches[s->n_branches++] = b;
		if (jparse_skip_name(p, "endif"))
			return true;
		is_else = jparse_is_name(p, "else");
		p->t++;
	}
}

static bool parse_for(struct jparser *p, struct stmt *s)
{
	static const char *const ends[] = {"endfor", "else", NULL};
	if (!(s->target = jexpr_parse_target(p, false, "in")) || !expect_name(p, "in") ||
	    !(s->expr = jexpr_parse_tuple(p, false)))
		return false;
	if (jparse_skip_name(p, "if") && !(s->test = jexpr_parse(p)))
		return false;
	p->loops++;
	bool ok = parse_body(p, ends, &s->body);
	p->loops--; /* `else` runs after the loop */
	if (ok && !jparse_skip_name(p, "endfor")) {
		p->t++;
		ok = parse_body_to(p, "endfor", &s->else_);
	}
	return ok;
}

static bool parse_set(struct jparser *p, struct stmt *s)
{
	if (!(s->target = jexpr_parse_target(p, true, NULL)))
		return false;
	if (jparse_skip(p, T_ASSIGN)) {
		s->kind = ST_SET;
		return (s->expr = jexpr_parse_tuple(p, true)) != NULL;
	}
	s->kind = ST_SET_BLOCK;
	if (p->t->type == T_PIPE && !(s->expr = jexpr_parse_filters(p, NULL, false)))
		return false;
	return parse_body_to(p, "endset", &s->body);
}

/* Parses the parameters (a, b=1, …) of macros and call blocks. */
static bool parse_params(struct jparser *p, struct stmt *s)
{
	if (!jparse_expect(p, T_LPAREN))
		return false;
	int n_values = 0; /* equals n_params before and after each iteration */
	bool has_default = false;
	while (p->t->type != T_RPAREN) {
		if (s->n_params && !jparse_expect(p, T_COMMA))
			return false;
		const struct token *at = p->t;
		struct expr *name = jexpr_parse_name(p), *value = NULL;
		if (!name)
			return false;
		if (jparse_skip(p, T_ASSIGN)) {
			has_default = true;
			if (!(value = jexpr_parse(p)))
				return false;
		} else if (has_default) {
			return jparse_fail(p, at, "a parameter without default behind "
					   "one with");
		}
		jparse_push(p, &s->params, &s->n_params, name);
		jparse_push(p, &s->defaults, &n_values, value);
	}
	p->t++;
	return true;
}

static bool parse_macro(struct jparser *p, struct stmt *s)
{
	if (!(s->target = jexpr_parse_name(p)))
		return false;
	s->name = s->target->name;
	return parse_params(p, s) && parse_function_body(p, "endmacro", s);
}

static bool parse_call(struct jparser *p, struct stmt *s)
{
	s->name = STR("caller");
	if (p->t->type == T_LPAREN && !parse_params(p, s))
		return false;
	const struct token *at = p->t;
	if (!(s->expr = jexpr_parse(p)))
		return false;
	if (s->expr->kind != EX_CALL)
		return jparse_fail(p, at, "a call is expected");
	return parse_function_body(p, "endcall", s);
}

static bool parse_filter(struct jparser *p, struct stmt *s)
{
	return (s->expr = jexpr_parse_filters(p, NULL, true)) &&
	       parse_body_to(p, "endfilter", &s->body);
}

static bool parse_with(struct jparser *p, struct stmt *s)
{
	while (p->t->type != T_BLOCK_END) {
		if (s->n_params && !jparse_expect(p, T_COMMA))
			return false;
		struct expr *target = jexpr_parse_target(p, false, NULL), *value;
		if (!target || !jparse_expect(p, T_ASSIGN) || !(value = jexpr_parse(p)))
			return false;
		jparse_push(p, &s->params, &s->n_params, target);
		jparse_push(p, &s->items, &s->n, value);
	}
	return parse_body_to(p, "endwith", &s->body);
}

static bool parse_print(struct jparser *p, struct stmt *s)
{
	while (p->t->type != T_BLOCK_END) {
		if (s->n && !jparse_expect(p, T_COMMA))
			return false;
		struct expr *e = jexpr_parse(p);
		if (!e)
			return false;
		jparse_push(p, &s->items, &s->n, e);
	}
	return true;
}

static bool parse_generation(struct jparser *p, struct stmt *s)
{
	return parse_function_body(p, "endgeneration", s);
}

static bool parse_jump(struct jparser *p, struct stmt *s)
{
	if (p->loops == 0)
		return jparse_fail(p, p->t - 1, "'%s' outside of a loop",
				   s->kind == ST_BREAK ? "break" : "continue");
	return true;
}

static const struct {
	const char *name;
	enum stmt_kind kind;
	bool (*parse)(struct jparser *p, struct stmt *s);
} statements[] = {
	{"if", ST_IF, parse_if}, {"for", ST_FOR, parse_for},
	{"set", ST_SET, parse_set}, {"macro", ST_MACRO, parse_macro},
	{"call", ST_CALL, parse_call}, {"filter", ST_FILTER, parse_filter},
	{"with", ST_WITH, parse_with}, {"print", ST_OUTPUT, parse_print},
	{"generation", ST_GENERATION, parse_generation},
	{"break", ST_BREAK, parse_jump}, {"continue", ST_CONTINUE, parse_jump},
};

static struct stmt *parse_statement(struct jparser *p)
{
	const struct token *at = p->t;
	if (!jparse_expect(p, T_NAME))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
		if (!str_is(at->text, statements[i].name))
			continue;
		struct stmt *s = arena_alloc(p->a, sizeof *s);
		s->kind = statements[i].kind;
		s->line = at->line;
		return statements[i].parse(p, s) && jparse_expect(p, T_BLOCK_END) ? s
									 : NULL;
	}
	return jparse_fail(p, at, "unknown tag '%.*s'", (int)MIN(at->text.n, 60),
			   at->text.p);
}

/* Adjacent text and {{ }} become one statement. */
static void add_output(struct jparser *p, struct jblock *b, struct expr *e)
{
	struct stmt *last = b->n ? b->p[b->n - 1] : NULL;
	if (!last || last->kind != ST_OUTPUT) {
		last = arena_alloc(p->a, sizeof *last);
		last->kind = ST_OUTPUT;
		last->line = e->line;
		jparse_push(p, &b->p, &b->n, last);
	}
	jparse_push(p, &last->items, &last->n, e);
}

/* Parses text and statements up to a tag that begins with one of `ends`; that tag stays
 * the current token. ends NULL: up to the end of the source. */
static bool parse_text(struct jparser *p, const char *const *ends, struct jblock *out)
{
	for (;;) {
		const struct token *at = p->t++;
		struct expr *e;
		switch (at->type) {
		case T_DATA:
			e = jexpr_new(p, EX_CONST, at);
			e->value = jval_text(p->a, at->text);
			add_output(p, out, e);
			break;
		case T_VAR_BEGIN:
			if (!(e = jexpr_parse_tuple(p, true)) ||
			    !jparse_expect(p, T_VAR_END))
				return false;
			add_output(p, out, e);
			break;
		case T_BLOCK_BEGIN:
			for (int i = 0; ends && ends[i]; i++)
				if (jparse_is_name(p, ends[i]))
					return true;
			struct stmt *s = parse_statement(p);
			if (!s)
				return false;
			jparse_push(p, &out->p, &out->n, s);
			break;
		default: /* outside of tags the lexer gives only these and the end */
			p->t = at;
			if (ends)
				jparse_fail(p, at, "the template ends where '%s' is "
					    "expected", ends[0]);
			return !ends;
		}
	}
}

static bool parse_body(struct jparser *p, const char *const *ends, struct jblock *out)
{
	jparse_skip(p, T_COLON);
	if (!jparse_expect(p, T_BLOCK_END) || !jparse_enter(p))
		return false;
	bool ok = parse_text(p, ends, out);
	p->depth++;
	return ok;
}

enum status jinja_compile(struct str source, struct jinja **out, struct fail *fail)
{
	struct jinja *j = xcalloc(1, sizeof *j);
	arena_init(&j->arena);
	struct token *tokens = NULL;
	enum status st = jlex_run(&j->arena, source, &tokens, fail);
	if (!st) {
		struct jparser p = {
			.a = &j->arena, .t = tokens, .fail = fail, .depth = NEST_MAX,
		};
		if (!parse_text(&p, NULL, &j->body) || !jscope_bind(j, fail))
			st = E_FORMAT;
	}
	if (st)
		jinja_destroy(j);
	else
		*out = j;
	return st;
}

void jinja_destroy(struct jinja *j)
{
	if (!j)
		return;
	arena_deinit(&j->arena);
	free(j);
}
