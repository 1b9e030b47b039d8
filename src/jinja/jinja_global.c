/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that every template can call.
 */
#include <time.h>

#include "base/alloc.h"
#include "jinja/jinja_op.h"

#define GLOBAL(name) JNATIVE(global_##name)

#define RANGE_MAX 100000 /* longest range(); Jinja's sandbox has the same limit */

GLOBAL(range)
{
	int64_t n[3] = {0, 0, 1};
	struct jinja_value *p[3] = {v[0], v[1], v[2]};
	if (!p[1]) {
		p[1] = p[0];
		p[0] = NULL;
	}
	for (int i = 0; i < 3; i++)
		if (!jcall_int(rt, p[i], &n[i]))
			return NULL;
	if (n[2] == 0)
		return jrt_fail(rt, "range() arg 3 must not be zero");
	struct jinja_value *r = jval_range(rt->arena, n[0], n[1], n[2]);
	return r->r.n > RANGE_MAX ? jrt_limit(rt, "asks for a range of more than 100000 "
					      "items") : r;
}

/* Fills d like dict(mapping or pairs, **kwargs). */
static bool fill_dict(struct jrt *rt, struct jdict *d, const struct jargs *args)
{
	if (args->n_pos > 1)
		return jrt_fail(rt, "dict expected at most 1 argument, got %d",
				args->n_pos);
	struct jinja_value *from = args->n_pos ? args->pos[0] : NULL;
	struct jinja_value view = {.kind = J_VIEW, .view = {from, VIEW_ITEMS}};
	struct jinja_value *pairs = !from ? jinja_list(rt->arena) :
		jiter_list(rt, from->kind == J_DICT ? &view : from);
	for (size_t i = 0; pairs && i < pairs->l.n; i++) {
		struct jinja_value *pair = jiter_list(rt, pairs->l.items[i]);
		uint64_t hash;
		if (!pair)
			return false;
		if (pair->l.n != 2)
			return jrt_fail(rt, "dictionary update sequence element has "
					"length %zu; 2 is required", pair->l.n);
		if (!jdict_hash(pair->l.items[0], &hash))
			return jrt_fail(rt, "unhashable type: '%s'",
					jval_type(pair->l.items[0]));
		jdict_put(rt->arena, d, pair->l.items[0], hash, pair->l.items[1]);
	}
	if (pairs)
		jcall_put_kws(rt, args, d);
	return pairs != NULL;
}

GLOBAL(dict)
{
	struct jinja_value *d = jinja_dict(rt->arena);
	return fill_dict(rt, &d->d, args) ? d : NULL;
}

GLOBAL(namespace)
{
	struct jinja_value *ns = jval_new(rt->arena, J_NAMESPACE);
	return fill_dict(rt, &ns->d, args) ? ns : NULL;
}

/* The only failure without a line number: the template itself wrote the message. */
GLOBAL(raise_exception)
{
	struct jinja_value *text = jrepr_str(rt, v[0]);
	if (text)
		fail_set(&rt->fail, E_TEMPLATE, "%.*s", (int)MIN(text->s.n, 4096),
			 text->s.p);
	return NULL;
}

GLOBAL(strftime_now)
{
	const struct jstr *format = jcall_str(rt, v[0]);
	if (!format)
		return NULL;
	/* One more character makes an empty result differ from an error: strftime
	 * returns 0 for both. */
	char text[1024];
	struct buf f = {0};
	buf_add(&f, format->p, format->n);
	buf_add_c(&f, '.');
	time_t now = (time_t)rt->env->now_s;
	struct tm tm;
	size_t n = localtime_r(&now, &tm) && strlen(f.p) == f.n
		 ? strftime(text, sizeof text, f.p, &tm) : 0;
	buf_deinit(&f);
	if (n == 0)
		return jrt_fail(rt, "strftime_now: the format gives too long a text");
	return jinja_string(rt->arena, (struct str){text, n - 1},
			    jstr_trust_at(format, 0));
}

static const struct jbuiltin globals[] = {
	{"dict", "*", global_dict},
	{"namespace", "*", global_namespace},
	{"raise_exception", "message", global_raise_exception},
	{"range", "start stop? step?", global_range},
	{"strftime_now", "format", global_strftime_now},
	{NULL, NULL, NULL},
};

const struct jbuiltin *jglobal_find(struct str name)
{
	return jcall_find(globals, name);
}
