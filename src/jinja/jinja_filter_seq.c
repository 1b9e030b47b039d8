/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters on sequences. Where Jinja returns a generator, we return one too: it is true
 * even if empty, has no length and can be read once. Its items are computed at once,
 * though.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "jinja/jinja_op.h"

#define FILTER(name) JNATIVE(filter_##name)

/* --- attribute paths: "a.b.0", 3, None ----------------------------------- */

static bool all_digits(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n > 0 && s.n < 19;
}

static struct jinja_value *get_path(struct jrt *rt, struct jinja_value *item,
				    struct str path, struct jinja_value *fallback)
{
	for (size_t at = 0; item && at <= path.n;) {
		ptrdiff_t dot = str_find(path, STR("."), at);
		size_t end = dot < 0 ? path.n : (size_t)dot;
		struct str part = {path.p + at, end - at};
		struct jinja_value *key;
		if (all_digits(part)) {
			int64_t n = 0;
			for (size_t i = 0; i < part.n; i++)
				n = n * 10 + (part.p[i] - '0');
			key = jinja_int(rt->arena, n);
		} else {
			key = jval_text(rt->arena, part);
		}
		item = jeval_item(rt, item, key);
		if (item && fallback && item->kind == J_UNDEFINED)
			item = fallback;
		at = end + 1;
	}
	return item;
}

/* The item's attribute. If it is undefined, `fallback` replaces it (NULL: no fallback). */
static struct jinja_value *get_attribute(struct jrt *rt, struct jinja_value *item,
					 struct jinja_value *attribute,
					 struct jinja_value *fallback)
{
	if (!attribute || attribute->kind == J_NONE)
		return item;
	if (attribute->kind == J_STRING)
		return get_path(rt, item, jval_str(attribute), fallback);
	item = jeval_item(rt, item, attribute);
	return item && fallback && item->kind == J_UNDEFINED ? fallback : item;
}

/* The key by which items are compared: in lower case, unless case matters. */
static struct jinja_value *fold(struct jrt *rt, struct jinja_value *key,
				struct jinja_value *case_sensitive)
{
	if (!key || key->kind != J_STRING ||
	    (case_sensitive && jval_truth(case_sensitive)))
		return key;
	return jcase_change(rt, &key->s, CASE_LOWER);
}

/* --- one from many ------------------------------------------------------- */

FILTER(first)
{
	struct jiter it;
	if (!jiter_init(rt, &it, self))
		return NULL;
	struct jinja_value *item = jiter_next(rt, &it);
	return item || jrt_failed(rt) ? item :
	       jrt_undef_hint(rt, "No first item, sequence was empty.");
}

/* As in Python, reversed() refuses a generator. */
FILTER(last)
{
	if (self->kind == J_GENERATOR)
		return jrt_fail(rt, "'generator' object is not reversible");
	struct jinja_value *list = jiter_list(rt, self);
	if (!list)
		return NULL;
	return list->l.n ? list->l.items[list->l.n - 1] :
	       jrt_undef_hint(rt, "No last item, sequence was empty.");
}

/* The first smallest item (want -1) or the first largest (want 1). */
static struct jinja_value *extreme(struct jrt *rt, struct jinja_value *self,
				   struct jinja_value **v, const char *op, int want)
{
	struct jiter it;
	if (!jiter_init(rt, &it, self))
		return NULL;
	struct jinja_value *best = NULL, *best_key = NULL, *item;
	while ((item = jiter_next(rt, &it))) {
		struct jinja_value *key = get_attribute(rt, item, v[1], NULL);
		key = fold(rt, key, v[0]);
		int order = want;
		if (!key || !jrt_work(rt, 16) ||
		    (best && !jop_order(rt, key, best_key, op, &order)))
			return NULL;
		if (order == want) {
			best = item;
			best_key = key;
		}
	}
	return best || jrt_failed(rt) ? best :
	       jrt_undef_hint(rt, "No aggregated item, sequence was empty.");
}

FILTER(min)
{
	return extreme(rt, self, v, "<", -1);
}

FILTER(max)
{
	return extreme(rt, self, v, ">", 1);
}

FILTER(sum)
{
	struct jinja_value *sum = v[1] ? v[1] : jinja_int(rt->arena, 0), *item;
	struct jiter it;
	if (sum->kind == J_STRING)
		return jrt_fail(rt, "sum() can't sum strings");
	if (!jiter_init(rt, &it, self))
		return NULL;
	while (sum && (item = jiter_next(rt, &it))) {
		item = get_attribute(rt, item, v[0], NULL);
		sum = item && jrt_work(rt, 16) ? jop_arith(rt, OP_ADD, sum, item) : NULL;
	}
	return jrt_failed(rt) ? NULL : sum;
}

FILTER(join)
{
	struct jinja_value *sep = v[0] ? jrepr_str(rt, v[0]) : &jval_empty, *item;
	struct jiter it;
	if (!sep || !jiter_init(rt, &it, self))
		return NULL;
	struct jtext *t = jtext_new(rt, 0);
	for (bool first = true; (item = jiter_next(rt, &it)); first = false) {
		item = get_attribute(rt, item, v[1], NULL);
		if (!item || !jrt_work(rt, 16))
			return NULL;
		if (!first)
			jtext_add_jstr(t, &sep->s);
		jrepr_add_str(t, item);
	}
	return jtext_finish(t);
}

/* --- the same items in another form or order -------------------------------- */

FILTER(list)
{
	return jiter_list(rt, self);
}

static struct jinja_value *as_generator(struct jinja_value *list)
{
	if (list)
		list->kind = J_GENERATOR;
	return list;
}

FILTER(items)
{
	if (self->kind == J_UNDEFINED)
		return jval_seq(rt->arena, J_GENERATOR, 0);
	if (self->kind != J_DICT)
		return jrt_fail(rt, "Can only get item pairs from a mapping.");
	struct jinja_value view = {.kind = J_VIEW, .view = {self, VIEW_ITEMS}};
	return as_generator(jiter_list(rt, &view));
}

FILTER(reverse)
{
	struct jinja_value minus = {.kind = J_INT, .i = -1};
	if (self->kind == J_STRING)
		return jop_slice(rt, self, NULL, NULL, &minus);
	struct jinja_value *list = jiter_list(rt, self);
	if (!list)
		return NULL;
	jval_reverse(list);
	return self->kind == J_GENERATOR ? list : as_generator(list);
}

FILTER(sort)
{
	struct jinja_value *list = jiter_list(rt, self);
	if (!list || !jrt_room(rt, list->l.n * sizeof(void *)))
		return NULL;
	size_t n = list->l.n;
	struct jinja_value **keys = arena_alloc(rt->arena, n * sizeof *keys);
	for (size_t i = 0; i < n; i++) {
		struct jinja_value *key = get_attribute(rt, list->l.items[i], v[2], NULL);
		/* in a list, so that keys that are undefined alike need no order */
		keys[i] = jinja_list(rt->arena);
		if (!jrt_room(rt, 0) || !(key = fold(rt, key, v[1])))
			return NULL;
		jval_seq_add(rt->arena, keys[i], key);
	}
	bool reverse = v[0] && jval_truth(v[0]);
	return jsort_by_keys(rt, list->l.items, keys, n, reverse) ? list : NULL;
}

FILTER(dictsort)
{
	if (self->kind == J_UNDEFINED)
		return jrt_undefined(rt, self);
	if (self->kind != J_DICT)
		return jrt_fail(rt, "dictsort needs a mapping, not '%s'",
				jval_type(self));
	bool by_value = false;
	if (v[1]) {
		if (!jcall_str(rt, v[1]))
			return NULL;
		by_value = str_is(jval_str(v[1]), "value");
		if (!by_value && !str_is(jval_str(v[1]), "key"))
			return jrt_fail(rt, "You can only sort by either \"key\" or "
					"\"value\"");
	}
	struct jinja_value view = {.kind = J_VIEW, .view = {self, VIEW_ITEMS}};
	struct jinja_value *list = jiter_list(rt, &view);
	if (!list || !jrt_room(rt, list->l.n * sizeof(void *)))
		return NULL;
	size_t n = list->l.n;
	struct jinja_value **keys = arena_alloc(rt->arena, n * sizeof *keys);
	for (size_t i = 0; i < n; i++)
		if (!(keys[i] = fold(rt, list->l.items[i]->l.items[by_value], v[0])))
			return NULL;
	return jsort_by_keys(rt, list->l.items, keys, n, v[2] && jval_truth(v[2])) ? list
										   : NULL;
}

FILTER(unique)
{
	struct jinja_value *out = jval_seq(rt->arena, J_GENERATOR, 0), *item;
	struct jdict seen = {0};
	struct jiter it;
	if (!jiter_init(rt, &it, self))
		return NULL;
	while ((item = jiter_next(rt, &it))) {
		struct jinja_value *key = get_attribute(rt, item, v[1], NULL);
		key = fold(rt, key, v[0]);
		uint64_t hash;
		if (!key || !jrt_work(rt, 16) || !jrt_room(rt, 0))
			return NULL;
		if (!jdict_hash(key, &hash))
			return jrt_fail(rt, "unhashable type: '%s'", jval_type(key));
		if (jdict_find(&seen, key, hash))
			continue;
		jdict_put(rt->arena, &seen, key, hash, &jval_none);
		jval_seq_add(rt->arena, out, item);
	}
	return jrt_failed(rt) ? NULL : out;
}

/* --- map and select ------------------------------------------------------ */

/* Calls fn on item with the arguments from number `skip` on. Binding marks keywords as
 * used, so each call gets a copy of them. */
static struct jinja_value *apply(struct jrt *rt, const struct jbuiltin *fn,
				 struct jinja_value *item, const struct jargs *args,
				 int skip)
{
	struct jkw *kw = NULL;
	if (args->n_kw) {
		kw = arena_alloc(rt->arena, sizeof *kw * (size_t)args->n_kw);
		memcpy(kw, args->kw, sizeof *kw * (size_t)args->n_kw);
	}
	if (!jrt_enter(rt, 0))
		return NULL;
	struct jinja_value *r = jcall_native(rt, fn, item, &(struct jargs){
		args->pos + skip, args->n_pos - skip, kw, args->n_kw});
	jrt_leave(rt);
	return r;
}

static const struct jbuiltin *named(struct jrt *rt, const struct jinja_value *name,
				    const char *what,
				    const struct jbuiltin *(*find)(struct str))
{
	if (!jcall_str(rt, name))
		return NULL;
	const struct jbuiltin *fn = find(jval_str(name));
	return fn ? fn : jrt_fail(rt, "No %s named '%.*s'.", what,
				  (int)MIN(name->s.n, 60), name->s.p);
}

/* map(attribute='a.b', default=x), or map('filter', arguments) */
FILTER(map)
{
	struct jinja_value *out = jval_seq(rt->arena, J_GENERATOR, 0), *item;
	struct jinja_value *attribute = NULL, *fallback = NULL;
	const struct jbuiltin *fn = NULL;
	struct jiter it;
	if (!jval_truth(self))
		return out;
	if (args->n_pos == 0 && (attribute = jcall_take_kw(args, "attribute"))) {
		fallback = jcall_take_kw(args, "default");
		if (fallback && fallback->kind == J_NONE)
			fallback = NULL;
		for (int i = 0; i < args->n_kw; i++)
			if (args->kw[i].value)
				return jrt_fail(rt, "map() got an unexpected argument");
	} else if (args->n_pos == 0) {
		return jrt_fail(rt, "map requires a filter argument");
	} else if (!(fn = named(rt, args->pos[0], "filter", jfilter_find))) {
		return NULL;
	}
	if (!jiter_init(rt, &it, self))
		return NULL;
	while ((item = jiter_next(rt, &it))) {
		item = fn ? apply(rt, fn, item, args, 1)
			  : get_attribute(rt, item, attribute, fallback);
		if (!item || !jrt_work(rt, 16) || !jrt_room(rt, 0))
			return NULL;
		jval_seq_add(rt->arena, out, item);
	}
	return jrt_failed(rt) ? NULL : out;
}

/* select, reject, selectattr and rejectattr. Without a test they select by truth. */
static struct jinja_value *pick(struct jrt *rt, struct jinja_value *self,
				const struct jargs *args, bool by_attr, bool want)
{
	struct jinja_value *out = jval_seq(rt->arena, J_GENERATOR, 0), *item;
	const struct jbuiltin *test = NULL;
	struct jiter it;
	if (!jval_truth(self))
		return out;
	if (args->n_pos < by_attr)
		return jrt_fail(rt, "Missing parameter for attribute name");
	if (args->n_pos > by_attr &&
	    !(test = named(rt, args->pos[by_attr], "test", jtest_find)))
		return NULL;
	if (!jiter_init(rt, &it, self))
		return NULL;
	while ((item = jiter_next(rt, &it))) {
		struct jinja_value *is = item;
		if (by_attr)
			is = get_attribute(rt, item, args->pos[0], NULL);
		if (is && test)
			is = apply(rt, test, is, args, 1 + by_attr);
		if (!is || !jrt_work(rt, 16) || !jrt_room(rt, 0))
			return NULL;
		if (jval_truth(is) == want)
			jval_seq_add(rt->arena, out, item);
	}
	return jrt_failed(rt) ? NULL : out;
}

FILTER(select)
{
	return pick(rt, self, args, false, true);
}

FILTER(reject)
{
	return pick(rt, self, args, false, false);
}

FILTER(selectattr)
{
	return pick(rt, self, args, true, true);
}

FILTER(rejectattr)
{
	return pick(rt, self, args, true, false);
}

const struct jbuiltin jfilter_seqs[] = {
	{"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
	{"first", "", filter_first},
	{"items", "", filter_items},
	{"join", "d? attribute?", filter_join},
	{"last", "", filter_last},
	{"list", "", filter_list},
	{"map", "*", filter_map},
	{"max", "case_sensitive? attribute?", filter_max},
	{"min", "case_sensitive? attribute?", filter_min},
	{"reject", "*", filter_reject},
	{"rejectattr", "*", filter_rejectattr},
	{"reverse", "", filter_reverse},
	{"select", "*", filter_select},
	{"selectattr", "*", filter_selectattr},
	{"sort", "reverse? case_sensitive? attribute?", filter_sort},
	{"sum", "attribute? start?", filter_sum},
	{"unique", "case_sensitive? attribute?", filter_unique},
	{NULL, NULL, NULL},
};
