/* SPDX-License-Identifier: Apache-2.0
 *
 * Binds each name to a variable before the template runs, as Jinja does.
 *
 * The template is a scope, and so is each body of a for, macro, call, filter, with, set
 * and generation block. An `if` is no scope. A scope is scanned as a whole before its
 * statements are bound. For each name, its first use in the scope decides:
 *
 *   read first      The variable of the nearest enclosing scope that has the name. If none
 *                   has it, the context's value when the scope was entered.
 *   assigned first  A new variable of this scope. It starts with the enclosing value, else
 *                   undefined. If the assignment is inside an `if` and may not happen, it
 *                   starts with the context's value.
 *
 * Three rules follow. An assignment inside a loop is lost after the iteration. A macro
 * sees the variables around its definition with their values at the time of the call. A
 * variable that the template assigns later is undefined before. At run time a bound name
 * costs one array access per scope in between.
 */
#include "jinja/jinja_ast.h"

/* Far above the parser's limit on nesting, because chains of filters and attributes nest
 * too. */
#define BIND_DEPTH 2000

struct binder {
	struct jinja *j;
	struct arena *a;
	struct fail *fail;
	bool failed;
	struct strmap globals; /* name to index in j->global_names */
	int depth;             /* levels of nesting that are still permitted */
	int for_depth;
	bool is_soft; /* inside an if: an unknown filter fails only when it is evaluated */
};

static void scan_block(struct binder *b, struct scope *sc, const struct jblock *body,
		       bool in_branch);
static void bind_block(struct binder *b, struct scope *sc, const struct jblock *body);

/* Fails for the name in e; `what` says what is wrong with it. */
static void bind_fail(struct binder *b, const struct expr *e, const char *what)
{
	if (!b->failed)
		(void)jlex_fail(b->fail, e->line, e->column, "%s '%.*s'", what,
				(int)(e->name.n < 60 ? e->name.n : 60), e->name.p);
	b->failed = true;
}

static bool enter(struct binder *b, int line)
{
	if (b->depth-- > 0)
		return !b->failed;
	if (!b->failed)
		(void)jlex_fail(b->fail, line, 1, "nested too deeply");
	b->failed = true;
	return false;
}

/* --- tables -------------------------------------------------------------- */

static struct scope *new_scope(struct binder *b, struct scope *parent)
{
	struct scope *sc = arena_alloc(b->a, sizeof *sc);
	sc->parent = parent;
	return sc;
}

static int add_slot(struct binder *b, struct scope *sc, struct str name, struct jload load)
{
	int n = sc->n_slots++;
	sc->loads = jparse_grow(b->a, sc->loads, n, sizeof load);
	sc->loads[n] = load;
	strmap_put(&sc->names, name, (uint32_t)n);
	return n;
}

/* Finds the variable that `name` means in scope sc. False: no scope has it. */
static bool find_variable(const struct scope *sc, struct str name, int *out_up, int *out_slot)
{
	uint32_t slot;
	for (int up = 0; sc; sc = sc->parent, up++) {
		if (!strmap_get(&sc->names, name, &slot))
			continue;
		*out_up = up;
		*out_slot = (int)slot;
		return true;
	}
	return false;
}

static struct jload global_load(struct binder *b, struct str name)
{
	struct jinja *j = b->j;
	uint32_t i;
	if (!strmap_get(&b->globals, name, &i)) {
		i = (uint32_t)j->n_globals++;
		j->global_names = jparse_grow(b->a, j->global_names, (int)i, sizeof name);
		j->global_names[i] = name;
		strmap_put(&b->globals, name, i);
	}
	return (struct jload){LOAD_GLOBAL, 0, (int)i};
}

static void note_read(struct binder *b, struct scope *sc, struct str name)
{
	int up, slot;
	if (!find_variable(sc, name, &up, &slot))
		add_slot(b, sc, name, global_load(b, name));
}

static void note_assign(struct binder *b, struct scope *sc, struct str name,
			bool in_branch)
{
	int up, slot;
	struct jload load = {LOAD_NONE, 0, 0};
	if (find_variable(sc, name, &up, &slot)) {
		if (up == 0)
			return;
		load = (struct jload){LOAD_OUTER, up, slot};
	} else if (in_branch) {
		load = global_load(b, name);
	}
	add_slot(b, sc, name, load);
}

static int note_param(struct binder *b, struct scope *sc, struct str name)
{
	uint32_t slot;
	struct jload load = {LOAD_PARAM, 0, 0};
	if (!strmap_get(&sc->names, name, &slot))
		return add_slot(b, sc, name, load);
	sc->loads[slot] = load;
	return (int)slot;
}

/* --- expressions --------------------------------------------------------- */

/* Scans e (records the names it reads), or binds and checks it (bind: true). */
static void walk(struct binder *b, struct scope *sc, struct expr *e, bool bind);

static void walk_args(struct binder *b, struct scope *sc, struct argexprs *args,
		      bool bind)
{
	for (int i = 0; i < args->n_pos; i++)
		walk(b, sc, args->pos[i], bind);
	for (int i = 0; i < args->n_kw; i++)
		walk(b, sc, args->kw[i].value, bind);
	walk(b, sc, args->star, bind);
	walk(b, sc, args->star_star, bind);
}

static void walk(struct binder *b, struct scope *sc, struct expr *e, bool bind)
{
	if (!e)
		return;
	if (!enter(b, e->line))
		goto out;
	bool was_soft = b->is_soft;
	b->is_soft |= e->kind == EX_COND;
	if (e->kind == EX_NAME) {
		note_read(b, sc, e->name); /* usually recorded by the scan already, except in a
					    * block's filter */
		if (bind)
			find_variable(sc, e->name, &e->up, &e->slot);
	}
	if (bind && !e->fn && !b->is_soft) {
		if (e->kind == EX_FILTER)
			bind_fail(b, e, "there is no filter");
		if (e->kind == EX_TEST)
			bind_fail(b, e, "there is no test");
	}
	walk(b, sc, e->a, bind);
	walk(b, sc, e->b, bind);
	walk(b, sc, e->c, bind);
	for (int i = 0; i < e->n; i++)
		walk(b, sc, e->items[i], bind);
	if (e->args)
		walk_args(b, sc, e->args, bind);
	b->is_soft = was_soft;
out:
	b->depth++;
}

static void scan_target(struct binder *b, struct scope *sc, const struct expr *e,
			bool as_param, bool in_branch)
{
	if (e->kind == EX_NSREF)
		note_read(b, sc, e->a->name);
	else if (e->kind == EX_NAME && as_param)
		note_param(b, sc, e->name);
	else if (e->kind == EX_NAME)
		note_assign(b, sc, e->name, in_branch);
	else
		for (int i = 0; i < e->n; i++)
			scan_target(b, sc, e->items[i], as_param, in_branch);
}

static void bind_target(struct binder *b, struct scope *sc, struct expr *e)
{
	struct expr *name = e->kind == EX_NSREF ? e->a : e;
	if (name->kind == EX_NAME) {
		find_variable(sc, name->name, &name->up, &name->slot);
		if (b->for_depth && e == name && str_is(name->name, "loop"))
			bind_fail(b, e, "a loop body cannot assign to");
	} else {
		for (int i = 0; i < e->n; i++)
			bind_target(b, sc, e->items[i]);
	}
}

/* --- what a statement does to the scope it stands in --------------------- */

static void scan_stmt(struct binder *b, struct scope *sc, const struct stmt *s,
		      bool in_branch)
{
	switch (s->kind) {
	case ST_OUTPUT:
	case ST_WITH:
		for (int i = 0; i < s->n; i++)
			walk(b, sc, s->items[i], false);
		break;
	case ST_IF:
		for (int i = 0; i < s->n_branches; i++) {
			walk(b, sc, s->branches[i].test, false);
			scan_block(b, sc, &s->branches[i].body, true);
		}
		break;
	case ST_SET:
		walk(b, sc, s->expr, false);
		scan_target(b, sc, s->target, false, in_branch);
		break;
	case ST_SET_BLOCK:
	case ST_MACRO:
		scan_target(b, sc, s->target, false, in_branch);
		break;
	case ST_FOR:
	case ST_CALL:
	case ST_FILTER:
		walk(b, sc, s->expr, false);
		break;
	default:
		break;
	}
}

static void scan_block(struct binder *b, struct scope *sc, const struct jblock *body,
		       bool in_branch)
{
	for (int i = 0; i < body->n && enter(b, body->p[i]->line); i++, b->depth++)
		scan_stmt(b, sc, body->p[i], in_branch);
}

/* --- binding ------------------------------------------------------------- */

/* Scans and binds a body in its own scope, then frees the scope's table of names. */
static void bind_scope(struct binder *b, struct scope *sc, const struct jblock *body)
{
	scan_block(b, sc, body, false);
	bind_block(b, sc, body);
	strmap_deinit(&sc->names);
}

static void bind_for(struct binder *b, struct scope *sc, struct stmt *s)
{
	walk(b, sc, s->expr, true);
	b->for_depth++;
	if (s->test) {
		s->test_scope = new_scope(b, sc);
		note_param(b, s->test_scope, STR("")); /* takes the slot that `loop` has in the
						        * body's scope */
		scan_target(b, s->test_scope, s->target, true, false);
		walk(b, s->test_scope, s->test, false);
		walk(b, s->test_scope, s->test, true);
		strmap_deinit(&s->test_scope->names);
	}
	s->scope = new_scope(b, sc);
	s->loop_slot = note_param(b, s->scope, STR("loop"));
	scan_target(b, s->scope, s->target, true, false);
	/* binding once is enough: the slots in the test's scope are the same */
	bind_target(b, s->scope, s->target);
	bind_scope(b, s->scope, &s->body);
	if (s->else_.n) {
		s->else_scope = new_scope(b, sc);
		bind_scope(b, s->else_scope, &s->else_);
	}
	b->for_depth--;
}

/* Binds the function of a MACRO or CALL. The caller binds its name or called value. */
static void bind_function(struct binder *b, struct scope *sc, struct stmt *s)
{
	for (struct scope *up = sc; up; up = up->parent)
		up->is_captured = true;
	s->scope = new_scope(b, sc);
	for (int i = 0; i < s->n_params; i++) {
		struct expr *p = s->params[i];
		p->slot = note_param(b, s->scope, p->name);
	}
	for (int i = 0; i < s->n_params; i++)
		walk(b, s->scope, s->defaults[i], false);
	scan_block(b, s->scope, &s->body, false);
	for (int k = 0; k < 3; k++) {
		struct str name = str_of(jparse_special_names[k]);
		bool declared = false;
		for (int i = 0; i < s->n_params; i++)
			declared |= str_eq(s->params[i]->name, name);
		s->special_slot[k] = s->mentions & (1u << k) && !declared
				   ? note_param(b, s->scope, name) : -1;
	}
	for (int i = 0; i < s->n_params; i++)
		walk(b, s->scope, s->defaults[i], true);
	bind_block(b, s->scope, &s->body);
	strmap_deinit(&s->scope->names);
}

static void bind_if(struct binder *b, struct scope *sc, struct stmt *s)
{
	bool was_soft = b->is_soft;
	b->is_soft = true;
	for (int i = 0; i < s->n_branches; i++) {
		walk(b, sc, s->branches[i].test, true);
		bind_block(b, sc, &s->branches[i].body);
	}
	b->is_soft = was_soft;
}

/* Binds blocks that need only a scope of their own. */
static void bind_simple(struct binder *b, struct scope *sc, struct stmt *s)
{
	s->scope = new_scope(b, sc);
	if (s->kind == ST_WITH) {
		for (int i = 0; i < s->n; i++)
			walk(b, sc, s->items[i], true);
		for (int i = 0; i < s->n; i++)
			scan_target(b, s->scope, s->params[i], true, false);
		for (int i = 0; i < s->n; i++)
			bind_target(b, s->scope, s->params[i]);
	}
	scan_block(b, s->scope, &s->body, false);
	if (s->kind == ST_FILTER || s->kind == ST_SET_BLOCK)
		walk(b, s->scope, s->expr, true);
	bind_block(b, s->scope, &s->body);
	strmap_deinit(&s->scope->names);
	if (s->kind == ST_SET_BLOCK)
		bind_target(b, sc, s->target);
}

static void bind_stmt(struct binder *b, struct scope *sc, struct stmt *s)
{
	switch (s->kind) {
	case ST_OUTPUT:
		for (int i = 0; i < s->n; i++)
			walk(b, sc, s->items[i], true);
		break;
	case ST_IF:
		bind_if(b, sc, s);
		return; /* bind_if has set is_soft itself */
	case ST_FOR:
		bind_for(b, sc, s);
		break;
	case ST_SET:
		walk(b, sc, s->expr, true);
		bind_target(b, sc, s->target);
		break;
	case ST_MACRO:
		bind_function(b, sc, s);
		bind_target(b, sc, s->target);
		break;
	case ST_CALL:
		bind_function(b, sc, s);
		walk(b, sc, s->expr, true);
		break;
	case ST_BREAK:
	case ST_CONTINUE:
		break;
	default:
		bind_simple(b, sc, s);
	}
}

static void bind_block(struct binder *b, struct scope *sc, const struct jblock *body)
{
	for (int i = 0; i < body->n && enter(b, body->p[i]->line); i++, b->depth++)
		bind_stmt(b, sc, body->p[i]);
}

bool jscope_bind(struct jinja *j, struct fail *fail)
{
	struct binder b = {.j = j, .a = &j->arena, .fail = fail, .depth = BIND_DEPTH};
	j->scope = new_scope(&b, NULL);
	bind_scope(&b, j->scope, &j->body);
	strmap_deinit(&b.globals);
	return !b.failed;
}
