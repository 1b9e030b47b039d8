/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of builtins, macros and other values. A builtin lists its parameters in a string
 * such as "old new count?". Arguments are bound in that order, so `replace('a', new='b')`
 * needs no code of its own. Binding a keyword sets its value to NULL. A keyword that
 * still has a value afterwards is an unexpected argument. jinja_stmt.c binds the
 * arguments of macros by Jinja's own rules.
 */
#include "jinja/jinja_ast.h"

struct jinja_value *jcall_take_kw(const struct jargs *args, const char *name)
{
	for (int i = 0; i < args->n_kw; i++) {
		struct jinja_value *v = args->kw[i].value;
		if (!v || !str_is(args->kw[i].name, name))
			continue;
		args->kw[i].value = NULL;
		return v;
	}
	return NULL;
}

void jcall_put_kws(struct jrt *rt, const struct jargs *args, struct jdict *d)
{
	for (int i = 0; i < args->n_kw; i++) {
		const struct jkw *kw = &args->kw[i];
		if (kw->value && kw->key)
			jdict_put(rt->arena, d, kw->key, jdict_hash_str(kw->name),
				  kw->value);
		else if (kw->value)
			jdict_put_str(rt->arena, d, kw->name, kw->value);
	}
}

const struct jbuiltin *jcall_find(const struct jbuiltin *table, struct str name)
{
	for (; table->name; table++)
		if (str_is(name, table->name))
			return table;
	return NULL;
}

/* Takes the next name from a list of parameters; empty at the end. */
static struct str next_param(const char **params, bool *out_optional)
{
	const char *p = *params;
	while (*p == ' ')
		p++;
	size_t n = strcspn(p, " ?");
	*out_optional = p[n] == '?';
	*params = p + n + (p[n] == '?');
	return (struct str){p, n};
}

/* Binds arguments to parameters by Python's rules. */
static bool bind_params(struct jrt *rt, const struct jbuiltin *fn,
			const struct jargs *args, struct jinja_value **v)
{
	const char *params = fn->params;
	int n = 0;
	for (;; n++) {
		bool optional;
		struct str name = next_param(&params, &optional);
		if (name.n == 0)
			break;
		if (n < args->n_pos)
			v[n] = args->pos[n];
		for (int i = 0; i < args->n_kw; i++) {
			if (!args->kw[i].value || !str_eq(args->kw[i].name, name))
				continue;
			if (v[n])
				return jrt_fail(rt, "%s() got multiple values for '%.*s'",
						fn->name, (int)name.n, name.p);
			v[n] = args->kw[i].value;
			args->kw[i].value = NULL;
		}
		if (!v[n] && !optional)
			return jrt_fail(rt, "%s() needs an argument '%.*s'", fn->name,
					(int)name.n, name.p);
	}
	if (args->n_pos > n)
		return jrt_fail(rt, "%s() takes at most %d arguments, not %d", fn->name,
				n, args->n_pos);
	for (int i = 0; i < args->n_kw; i++)
		if (args->kw[i].value)
			return jrt_fail(rt, "%s() got an unexpected argument '%.*s'",
					fn->name, (int)args->kw[i].name.n,
					args->kw[i].name.p);
	return true;
}

struct jinja_value *jcall_native(struct jrt *rt, const struct jbuiltin *fn,
				 struct jinja_value *self,
				 const struct jargs *args)
{
	struct jinja_value *v[JPARAMS_MAX] = {NULL};
	if (fn->params[0] != '*' && !bind_params(rt, fn, args, v))
		return NULL;
	return fn->fn(rt, self, v, args);
}

struct jinja_value *jcall_value(struct jrt *rt, struct jinja_value *callee,
				const struct jargs *args)
{
	switch (callee->kind) {
	case J_NATIVE:
		return jcall_native(rt, callee->native.fn, callee->native.self, args);
	case J_MACRO:
		return jstmt_call_macro(rt, callee, args);
	case J_UNDEFINED:
		return jrt_undefined(rt, callee);
	default:
		return jrt_fail(rt, "'%s' object is not callable", jval_type(callee));
	}
}

bool jcall_int(struct jrt *rt, struct jinja_value *v, int64_t *out)
{
	if (!v || v->kind == J_NONE)
		return true;
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	if (!jval_is_int(v))
		return jrt_fail(rt, "'%s' object cannot be interpreted as an integer",
				jval_type(v));
	*out = jval_int(v);
	return true;
}

const struct jstr *jcall_str(struct jrt *rt, const struct jinja_value *v)
{
	if (v->kind == J_STRING)
		return &v->s;
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	return jrt_fail(rt, "a string is expected, not '%s'", jval_type(v));
}
