/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of lists, dicts and our own types, and the lookup of all methods.
 *
 * transformers renders in Jinja's immutable sandbox, which refuses append, pop, update
 * and similar methods. Here they work, because published templates are written for both
 * sandboxes. Such a call has only one possible meaning, and the changed value lives no
 * longer than the rendering. The environment's globals are per rendering too.
 */
#include "base/alloc.h"
#include "jinja/jinja_op.h"

#define METHOD(name) JNATIVE(do_##name)

/* --- list, tuple, range -------------------------------------------------- */

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

METHOD(insert)
{
	int64_t at = 0, n = (int64_t)self->l.n;
	if (!jcall_int(rt, v[0], &at) || !jrt_work(rt, (size_t)n / 8))
		return NULL;
	at = at < 0 ? MAX(at + n, 0) : MIN(at, n);
	jval_seq_add(rt->arena, self, v[1]);
	memmove(&self->l.items[at + 1], &self->l.items[at],
		(size_t)(n - at) * sizeof *self->l.items);
	self->l.items[at] = v[1];
	return &jval_none;
}

static struct jinja_value *take_out(struct jinja_value *list, size_t i)
{
	struct jinja_value *item = list->l.items[i];
	memmove(&list->l.items[i], &list->l.items[i + 1],
		(list->l.n - i - 1) * sizeof *list->l.items);
	list->l.n--;
	return item;
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
	return take_out(self, (size_t)at);
}

/* Index of the first item equal to v; n: none is. */
static size_t position(struct jrt *rt, struct jinja_value *self, struct jinja_value *v)
{
	for (size_t i = 0; i < self->l.n; i++)
		if (jop_equal(self->l.items[i], v, rt) || !jrt_work(rt, 8))
			return i;
	return self->l.n;
}

METHOD(remove)
{
	size_t i = position(rt, self, v[0]);
	if (jrt_failed(rt))
		return NULL;
	if (i == self->l.n)
		return jrt_fail(rt, "list.remove(x): x not in list");
	take_out(self, i);
	return &jval_none;
}

METHOD(seq_index)
{
	struct jinja_value *list = jiter_list(rt, self);
	size_t i = list ? position(rt, list, v[0]) : 0;
	if (jrt_failed(rt))
		return NULL;
	if (i == list->l.n)
		return jrt_fail(rt, "the value is not in the list");
	return jinja_int(rt->arena, (int64_t)i);
}

METHOD(seq_count)
{
	int64_t n = 0;
	struct jinja_value *list = jiter_list(rt, self);
	for (size_t i = 0; list && i < list->l.n && jrt_work(rt, 8); i++)
		n += jop_equal(list->l.items[i], v[0], rt);
	return jrt_failed(rt) ? NULL : jinja_int(rt->arena, n);
}

/* Replaces self's items by the items of a filter's result. */
static struct jinja_value *replace_items(struct jrt *rt, struct jinja_value *self,
					 const char *filter, const struct jargs *args)
{
	const struct jbuiltin *fn = jfilter_find(str_of(filter));
	struct jinja_value *r = jcall_native(rt, fn, self, args);
	if (!r)
		return NULL;
	self->l.items = r->l.items;
	self->l.n = r->l.n;
	self->l.cap = r->l.cap;
	return &jval_none;
}

METHOD(reverse)
{
	return replace_items(rt, self, "reverse", args);
}

METHOD(sort)
{
	if (v[1] && v[1]->kind != J_NONE)
		return jrt_fail(rt, "sort: a key function is not supported");
	struct jkw kw[2] = {{STR("case_sensitive"), &jval_true, NULL},
			    {STR("reverse"), v[0] ? v[0] : &jval_false, NULL}};
	return replace_items(rt, self, "sort", &(struct jargs){NULL, 0, kw, 2});
}

METHOD(list_copy)
{
	return jiter_list(rt, self);
}

METHOD(list_clear)
{
	self->l.n = 0;
	return &jval_none;
}

static const struct jbuiltin list_methods[] = {
	{"append", "object", do_append}, {"clear", "", do_list_clear},
	{"copy", "", do_list_copy}, {"count", "value", do_seq_count},
	{"extend", "iterable", do_extend}, {"index", "value", do_seq_index},
	{"insert", "index object", do_insert}, {"pop", "index?", do_list_pop},
	{"remove", "value", do_remove}, {"reverse", "", do_reverse},
	{"sort", "reverse? key?", do_sort}, {NULL, NULL, NULL},
};

/* methods of tuple and range */
static const struct jbuiltin fixed_methods[] = {
	{"count", "value", do_seq_count}, {"index", "value", do_seq_index},
	{NULL, NULL, NULL},
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

METHOD(dict_copy)
{
	struct jinja_value *pos[1] = {self};
	return jcall_native(rt, jglobal_find(STR("dict")), NULL,
			    &(struct jargs){pos, 1, NULL, 0});
}

METHOD(dict_clear)
{
	self->d = (struct jdict){0};
	return &jval_none;
}

static const struct jbuiltin dict_methods[] = {
	{"clear", "", do_dict_clear}, {"copy", "", do_dict_copy},
	{"get", "key default?", do_get}, {"items", "", do_items},
	{"keys", "", do_keys}, {"pop", "key default?", do_dict_pop},
	{"setdefault", "key default?", do_setdefault}, {"update", "*", do_update},
	{"values", "", do_values}, {NULL, NULL, NULL},
};

/* --- cycler -------------------------------------------------------------- */

METHOD(next)
{
	struct jinja_value *item = self->l.items[self->l.pos];
	self->l.pos = (self->l.pos + 1) % self->l.n;
	return item;
}

METHOD(reset)
{
	self->l.pos = 0;
	return &jval_none;
}

static const struct jbuiltin cycler_methods[] = {
	{"next", "", do_next}, {"reset", "", do_reset}, {NULL, NULL, NULL},
};

/* --- lookup -------------------------------------------------------------- */

static const struct jbuiltin *const tables[] = {
	[J_STRING] = jmethod_strs, [J_LIST] = list_methods, [J_TUPLE] = fixed_methods,
	[J_RANGE] = fixed_methods,
	[J_DICT] = dict_methods, [J_CYCLER] = cycler_methods, [J_LOOP] = jloop_methods,
	[J_JOINER] = NULL,
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
