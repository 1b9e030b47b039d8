/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of lists and dicts, and the lookup of all methods.
 *
 * transformers renders in Jinja's immutable sandbox, which refuses append, pop, update
 * and similar methods. Here they work, because published templates are written for both
 * sandboxes. Such a call has only one possible meaning, and the changed value lives no
 * longer than the rendering. The environment's globals are per rendering too.
 */
#include "base/alloc.h"
#include "jinja/jinja_op.h"

#define METHOD(name) JNATIVE(do_##name)

/* --- list ---------------------------------------------------------------- */

METHOD(append)
{
	jval_seq_add(rt->arena, self, v[0]);
	return &jval_none;
}

METHOD(extend)
{
	struct jinja_value *more = jiter_list(rt, v[0]); /* a copy, because v[0] may be self */
	for (size_t i = 0; more && i < more->l.n; i++)
		jval_seq_add(rt->arena, self, more->l.items[i]);
	return more ? &jval_none : NULL;
}

METHOD(list_pop)
{
	int64_t at = -1, n = (int64_t)self->l.n;
	if (!jcall_int(rt, v[0], &at) || !jrt_work(rt, (size_t)n / 8))
		return NULL;
	if (at < 0)
		at += n;
	if (at < 0 || at >= n)
		return jrt_fail(rt, n ? "pop index out of range" : "pop from empty list");
	struct jinja_value *item = self->l.items[at];
	memmove(&self->l.items[at], &self->l.items[at + 1],
		(size_t)(n - at - 1) * sizeof *self->l.items);
	self->l.n--;
	return item;
}

static const struct jbuiltin list_methods[] = {
	{"append", "object", do_append}, {"extend", "iterable", do_extend},
	{"pop", "index?", do_list_pop}, {NULL, NULL, NULL},
};

/* --- dict ---------------------------------------------------------------- */

static struct jinja_value *view_of(struct jrt *rt, struct jinja_value *dict,
				   enum jview_what what)
{
	struct jinja_value *view = jval_new(rt->arena, J_VIEW);
	view->view.dict = dict;
	view->view.what = what;
	return view;
}

METHOD(keys)
{
	return view_of(rt, self, VIEW_KEYS);
}

METHOD(values)
{
	return view_of(rt, self, VIEW_VALUES);
}

METHOD(items)
{
	return view_of(rt, self, VIEW_ITEMS);
}

/* The entry under key. False: the key is unhashable; the failure is set. */
static bool entry_of(struct jrt *rt, struct jinja_value *dict, struct jinja_value *key,
		     uint64_t *out_hash, struct jentry **out)
{
	if (!jdict_hash(key, out_hash))
		return jrt_fail(rt, "unhashable type: '%s'", jval_type(key));
	*out = jdict_find(&dict->d, key, *out_hash);
	return true;
}

METHOD(get)
{
	struct jentry *e = NULL;
	uint64_t hash;
	if (!entry_of(rt, self, v[0], &hash, &e))
		return NULL;
	return e ? e->value : v[1] ? v[1] : &jval_none;
}

METHOD(dict_pop)
{
	struct jentry *e = NULL;
	uint64_t hash;
	if (!entry_of(rt, self, v[0], &hash, &e))
		return NULL;
	if (!e)
		return v[1] ? v[1] : jrt_fail(rt, "pop: there is no such key");
	struct jinja_value *value = e->value;
	jdict_remove(&self->d, e);
	return value;
}

METHOD(setdefault)
{
	struct jentry *e = NULL;
	uint64_t hash;
	if (!entry_of(rt, self, v[0], &hash, &e))
		return NULL;
	if (e)
		return e->value;
	struct jinja_value *value = v[1] ? v[1] : &jval_none;
	jdict_put(rt->arena, &self->d, v[0], hash, value);
	return value;
}

METHOD(update)
{
	const struct jbuiltin *dict = jglobal_find(STR("dict"));
	struct jinja_value *more = jcall_native(rt, dict, NULL, args);
	for (size_t i = 0; more && i < more->d.n; i++) {
		const struct jentry *e = &more->d.entries[i];
		jdict_put(rt->arena, &self->d, e->key, e->hash, e->value);
	}
	return more ? &jval_none : NULL;
}

static const struct jbuiltin dict_methods[] = {
	{"get", "key default?", do_get}, {"items", "", do_items},
	{"keys", "", do_keys}, {"pop", "key default?", do_dict_pop},
	{"setdefault", "key default?", do_setdefault}, {"update", "*", do_update},
	{"values", "", do_values}, {NULL, NULL, NULL},
};

/* --- lookup -------------------------------------------------------------- */

static const struct jbuiltin *const tables[] = {
	[J_STRING] = jmethod_strs, [J_LIST] = list_methods, [J_DICT] = dict_methods,
	[J_LOOP] = jloop_methods, [J_MACRO] = NULL,
};

const struct jbuiltin *jmethod_find(const struct jinja_value *v, struct str name)
{
	return tables[v->kind] ? jcall_find(tables[v->kind], name) : NULL;
}

bool jmethod_is_name(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		if (tables[i] && jcall_find(tables[i], name))
			return true;
	return false;
}
