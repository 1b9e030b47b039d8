/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluates expressions by walking the tree. The order of evaluation is Python's, because
 * a template can observe it through a macro that changes a namespace. Operands go from
 * left to right, a condition goes before its branches, arguments go before the call. What
 * Python would skip is not evaluated.
 *
 * x.name looks for Python's attribute first, then for the item; x['name'] looks in the
 * reverse order. The attributes of a dict are its methods, so m.items is the method even
 * if m has a key "items". The parser has marked the names that are methods of some type.
 * Other names (m.role, m.content) skip the search in the method tables.
 */
#include "jinja/jinja_ast.h"

/* The arguments of most calls fit into this many stack slots. */
#define POS_FEW 6
#define KW_FEW 4

static struct jinja_value *eval_name(struct jrt *rt, struct jframe *f,
				     const struct expr *e)
{
	for (int up = e->up; up > 0; up--)
		f = f->parent;
	struct jinja_value *v = f->slots[e->slot];
	return v ? v : jrt_undef(rt, UNDEF_NAME, NULL, e->name);
}

static struct jinja_value *eval_items(struct jrt *rt, struct jframe *f,
				      const struct expr *e)
{
	enum jkind kind = e->kind == EX_LIST ? J_LIST : J_TUPLE;
	struct jinja_value *out = jval_seq(rt->arena, kind, (size_t)e->n);
	for (int i = 0; i < e->n; i++) {
		struct jinja_value *v = jeval(rt, f, e->items[i]);
		if (!v)
			return NULL;
		out->l.items[out->l.n++] = v;
	}
	return out;
}

static struct jinja_value *eval_dict(struct jrt *rt, struct jframe *f,
				     const struct expr *e)
{
	struct jinja_value *out = jinja_dict(rt->arena);
	for (int i = 0; i < e->n; i += 2) {
		struct jinja_value *key = jeval(rt, f, e->items[i]);
		struct jinja_value *value = key ? jeval(rt, f, e->items[i + 1]) : NULL;
		uint64_t hash;
		if (!value)
			return NULL;
		if (!jdict_hash(key, &hash))
			return jrt_fail(rt, "unhashable type: '%s'", jval_type(key));
		jdict_put(rt->arena, &out->d, key, hash, value);
	}
	return out;
}

static struct jinja_value *eval_cond(struct jrt *rt, struct jframe *f,
				     const struct expr *e)
{
	struct jinja_value *test = jeval(rt, f, e->b);
	if (!test)
		return NULL;
	if (jval_truth(test))
		return jeval(rt, f, e->a);
	return e->c ? jeval(rt, f, e->c) :
	       jrt_undef_hint(rt, "the inline if-expression evaluated to false and no "
			      "else section was defined");
}

/* `or` and `and` give the operand that decided, not a boolean: `x or 'default'`. */
static struct jinja_value *eval_logic(struct jrt *rt, struct jframe *f,
				      const struct expr *e)
{
	struct jinja_value *v = NULL;
	for (int i = 0; i < e->n; i++) {
		v = jeval(rt, f, e->items[i]);
		if (!v || jval_truth(v) == (e->kind == EX_OR))
			break;
	}
	return v;
}

static struct jinja_value *eval_concat(struct jrt *rt, struct jframe *f,
				       const struct expr *e)
{
	struct jinja_value *all = NULL;
	for (int i = 0; i < e->n; i++) {
		struct jinja_value *v = jeval(rt, f, e->items[i]);
		v = v ? jrepr_str(rt, v) : NULL;
		if (!v)
			return NULL;
		all = all ? jstr_concat(rt, &all->s, &v->s) : v;
		if (!all || !jrt_work(rt, v->s.n))
			return NULL;
	}
	return all;
}

/* a < b < c evaluates each operand once and stops at the first false comparison. */
static struct jinja_value *eval_compare(struct jrt *rt, struct jframe *f,
					const struct expr *e)
{
	struct jinja_value *a = jeval(rt, f, e->items[0]);
	for (int i = 1; a && i < e->n; i++) {
		struct jinja_value *b = jeval(rt, f, e->items[i]);
		int is = b ? jop_compare(rt, e->ops[i - 1], a, b) : -1;
		if (is <= 0)
			return is < 0 ? NULL : &jval_false;
		a = b;
	}
	return a ? &jval_true : NULL;
}

static struct jinja_value *eval_arith(struct jrt *rt, struct jframe *f,
				      const struct expr *e)
{
	struct jinja_value *a = jeval(rt, f, e->items[0]);
	for (int i = 1; a && i < e->n; i++) {
		struct jinja_value *b = jeval(rt, f, e->items[i]);
		a = b ? jop_arith(rt, e->ops[i - 1], a, b) : NULL;
	}
	return a;
}

/* --- attributes and items ------------------------------------------------ */

/* Python's getattr: methods, and the fields of our own types. NULL: not found (this is no
 * failure). */
static struct jinja_value *find_attr(struct jrt *rt, struct jinja_value *v,
				     struct str name, bool maybe_method)
{
	switch (v->kind) {
	case J_NAMESPACE:
		return jdict_get_str(&v->d, name);
	case J_LOOP:
		return jloop_attr(rt, v, name);
	case J_MACRO:
		if (str_is(name, "name"))
			return jval_text(rt->arena, v->macro.def->name);
		break;
	default:
		break;
	}
	const struct jbuiltin *fn = maybe_method ? jmethod_find(v, name) : NULL;
	if (!fn)
		return NULL;
	struct jinja_value *bound = jval_new(rt->arena, J_NATIVE);
	bound->native.fn = fn;
	bound->native.self = v;
	return bound;
}

/* A missing attribute. Names like __class__ get an error text of their own: in Python
 * they would be a way out of the sandbox. */
static struct jinja_value *missing_attr(struct jrt *rt, struct jinja_value *v,
					struct str name)
{
	bool is_internal = name.n > 1 && name.p[0] == '_' && name.p[1] == '_';
	return jrt_undef(rt, is_internal ? UNDEF_UNSAFE : UNDEF_ATTR, jval_type(v), name);
}

static struct jinja_value *get_attr(struct jrt *rt, struct jinja_value *v,
				    struct str name, bool maybe_method)
{
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	struct jinja_value *found = find_attr(rt, v, name, maybe_method);
	if (!found && v->kind == J_DICT)
		found = jdict_get_str(&v->d, name);
	if (found || jrt_failed(rt))
		return found;
	return missing_attr(rt, v, name);
}

struct jinja_value *jeval_item(struct jrt *rt, struct jinja_value *v,
			       struct jinja_value *key)
{
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	struct jinja_value *found = jop_subscript(rt, v, key);
	if (!found && !jrt_failed(rt) && key->kind == J_STRING)
		found = find_attr(rt, v, jval_str(key), true);
	if (found || jrt_failed(rt))
		return found;
	if (key->kind == J_STRING)
		return missing_attr(rt, v, jval_str(key));
	struct jtext *t = jtext_new(rt, 0);
	jrepr_add_repr(t, key, JOP_DEPTH);
	struct jinja_value *name = jtext_finish(t);
	return name ? jrt_undef(rt, UNDEF_ITEM, jval_type(v), jval_str(name)) : NULL;
}

static struct jinja_value *eval_item(struct jrt *rt, struct jframe *f,
				     const struct expr *e)
{
	struct jinja_value *v = jeval(rt, f, e->a);
	struct jinja_value *key = v ? jeval(rt, f, e->b) : NULL;
	return key ? jeval_item(rt, v, key) : NULL;
}

static struct jinja_value *eval_slice(struct jrt *rt, struct jframe *f,
				      const struct expr *e)
{
	struct jinja_value *v = jeval(rt, f, e->a), *part[3] = {NULL};
	for (int i = 0; v && i < 3; i++)
		if (e->items[i] && !(part[i] = jeval(rt, f, e->items[i])))
			return NULL;
	return v ? jop_slice(rt, v, part[0], part[1], part[2]) : NULL;
}

/* --- calls --------------------------------------------------------------- */

/* Appends the items of `list` to the arguments, in a new array: f(*list). */
static bool add_star(struct jrt *rt, struct jargs *args, struct jinja_value *list)
{
	struct jinja_value *more = jiter_list(rt, list);
	if (!more)
		return false;
	if (more->l.n > 10000)
		return jrt_limit(rt, "passes too many arguments");
	size_t n = (size_t)args->n_pos + more->l.n;
	struct jinja_value **pos = arena_alloc(rt->arena, (n + 1) * sizeof *pos);
	memcpy(pos, args->pos, (size_t)args->n_pos * sizeof *pos);
	if (more->l.n)
		memcpy(pos + args->n_pos, more->l.items, more->l.n * sizeof *pos);
	args->pos = pos;
	args->n_pos = (int)n;
	return true;
}

/* Appends the entries of `dict` as keywords: f(**dict). Keys keep their trust marks,
 * because a macro may print its kwargs. */
static bool add_star_star(struct jrt *rt, struct jargs *args, struct jinja_value *dict)
{
	if (dict->kind != J_DICT)
		return jrt_fail(rt, "argument after ** must be a mapping, not %s",
				jval_type(dict));
	if (dict->d.n_live > 10000)
		return jrt_limit(rt, "passes too many arguments");
	size_t n = (size_t)args->n_kw + dict->d.n_live;
	struct jkw *kw = arena_alloc(rt->arena, (n + 1) * sizeof *kw);
	memcpy(kw, args->kw, (size_t)args->n_kw * sizeof *kw);
	args->kw = kw;
	for (size_t i = 0; i < dict->d.n; i++) {
		const struct jentry *e = &dict->d.entries[i];
		if (!e->key)
			continue;
		if (e->key->kind != J_STRING)
			return jrt_fail(rt, "keywords must be strings");
		if (!jrt_work(rt, (size_t)args->n_kw))
			return false;
		for (int k = 0; k < args->n_kw; k++)
			if (str_eq(kw[k].name, jval_str(e->key)))
				return jrt_fail(rt, "multiple values for '%.*s'",
						(int)e->key->s.n, e->key->s.p);
		kw[args->n_kw++] = (struct jkw){jval_str(e->key), e->value, e->key};
	}
	return true;
}

/* Python evaluates *args before the keywords, even if it stands after them. The caller
 * gives args->pos and ->kw room for all written arguments and for `caller`. */
static bool eval_args(struct jrt *rt, struct jframe *f, const struct argexprs *x,
		      struct jargs *args)
{
	for (int i = 0; i < x->n_pos; i++)
		if (!(args->pos[args->n_pos++] = jeval(rt, f, x->pos[i])))
			return false;
	struct jinja_value *star = NULL, *star_star = NULL;
	if (x->star && !(star = jeval(rt, f, x->star)))
		return false;
	for (int i = 0; i < x->n_kw; i++) {
		struct jkw *kw = &args->kw[args->n_kw++];
		*kw = (struct jkw){x->kw[i].name, jeval(rt, f, x->kw[i].value), NULL};
		if (!kw->value)
			return false;
	}
	if (x->star_star && !(star_star = jeval(rt, f, x->star_star)))
		return false;
	return (!star || add_star(rt, args, star)) &&
	       (!star_star || add_star_star(rt, args, star_star));
}

/* Evaluates the arguments, then calls builtin fn on self, or the value callee. */
static struct jinja_value *call_with(struct jrt *rt, struct jframe *f,
				     const struct expr *e, const struct jbuiltin *fn,
				     struct jinja_value *self_or_callee,
				     struct jinja_value *caller)
{
	const struct argexprs *x = e->args;
	struct jinja_value *pos[POS_FEW];
	struct jkw kw[KW_FEW];
	struct jargs args = {pos, 0, kw, 0};
	if (x->n_pos > POS_FEW)
		args.pos = arena_alloc(rt->arena, sizeof *args.pos * (size_t)x->n_pos);
	if (x->n_kw + 1 > KW_FEW)
		args.kw = arena_alloc(rt->arena, sizeof *args.kw * (size_t)(x->n_kw + 1));
	if (caller)
		args.kw[args.n_kw++] = (struct jkw){STR("caller"), caller, NULL};
	if (!eval_args(rt, f, x, &args))
		return NULL;
	rt->line = e->line;
	return fn ? jcall_native(rt, fn, self_or_callee, &args)
		  : jcall_value(rt, self_or_callee, &args);
}

struct jinja_value *jeval_call(struct jrt *rt, struct jframe *f,
			       const struct expr *e, struct jinja_value *caller)
{
	if (e->a->kind != EX_ATTR || !e->a->is_method) {
		struct jinja_value *callee = jeval(rt, f, e->a);
		return callee ? call_with(rt, f, e, NULL, callee, caller) : NULL;
	}
	/* x.method(…) without creating a bound method */
	struct jinja_value *self = jeval(rt, f, e->a->a);
	if (!self)
		return NULL;
	const struct jbuiltin *fn = jmethod_find(self, e->a->name);
	if (fn)
		return call_with(rt, f, e, fn, self, caller);
	struct jinja_value *callee = get_attr(rt, self, e->a->name, false);
	return callee ? call_with(rt, f, e, NULL, callee, caller) : NULL;
}

/* `x | filter` and `x is test`; without x, on the text of the enclosing block. */
static struct jinja_value *eval_applied(struct jrt *rt, struct jframe *f,
					const struct expr *e)
{
	struct jinja_value *self = e->a ? jeval(rt, f, e->a) : rt->block_text;
	if (!self)
		return NULL;
	if (!e->fn)
		return jrt_fail(rt, "No %s named '%.*s'.",
				e->kind == EX_FILTER ? "filter" : "test",
				(int)e->name.n, e->name.p);
	return call_with(rt, f, e, e->fn, self, NULL);
}

static struct jinja_value *eval_unary(struct jrt *rt, struct jframe *f,
				      const struct expr *e)
{
	struct jinja_value *v = jeval(rt, f, e->a);
	if (!v)
		return NULL;
	return e->kind == EX_NOT ? jval_bool(!jval_truth(v)) :
	       e->kind == EX_NEG ? jop_negate(rt, v) : jop_plus(rt, v);
}

static struct jinja_value *eval_kind(struct jrt *rt, struct jframe *f,
				     const struct expr *e)
{
	struct jinja_value *v;
	switch (e->kind) {
	case EX_TUPLE:
	case EX_LIST: return eval_items(rt, f, e);
	case EX_DICT: return eval_dict(rt, f, e);
	case EX_COND: return eval_cond(rt, f, e);
	case EX_OR:
	case EX_AND: return eval_logic(rt, f, e);
	case EX_CONCAT: return eval_concat(rt, f, e);
	case EX_COMPARE: return eval_compare(rt, f, e);
	case EX_ARITH: return eval_arith(rt, f, e);
	case EX_NOT:
	case EX_NEG:
	case EX_POS: return eval_unary(rt, f, e);
	case EX_ATTR:
		v = jeval(rt, f, e->a);
		return v ? get_attr(rt, v, e->name, e->is_method) : NULL;
	case EX_ITEM: return eval_item(rt, f, e);
	case EX_SLICE: return eval_slice(rt, f, e);
	case EX_CALL: return jeval_call(rt, f, e, NULL);
	case EX_FILTER:
	case EX_TEST: return eval_applied(rt, f, e);
	default: return jrt_fail(rt, "this cannot be evaluated");
	}
}

struct jinja_value *jeval(struct jrt *rt, struct jframe *f, const struct expr *e)
{
	if (e->kind == EX_CONST)
		return e->value;
	if (!jrt_enter(rt, e->line))
		return NULL;
	struct jinja_value *v = e->kind == EX_NAME ? eval_name(rt, f, e)
						   : eval_kind(rt, f, e);
	jrt_leave(rt);
	return v;
}
