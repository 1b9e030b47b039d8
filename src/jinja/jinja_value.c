/* SPDX-License-Identifier: Apache-2.0
 *
 * Values and dicts. Dicts keep the order in which keys came, as in Python. Entries stand
 * in an array, and an open-addressing index holds their numbers. Removing an entry leaves
 * a hole in the array and a stale number in the index that matches nothing. Templates
 * remove so little that holes are never closed.
 */
#include "jinja/jinja_value.h"

#include <math.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"
#include "jinja/jinja_op.h"

struct jinja_value jval_none = {.kind = J_NONE};
struct jinja_value jval_true = {.kind = J_BOOL, .b = true};
struct jinja_value jval_false = {.kind = J_BOOL, .b = false};
struct jinja_value jval_empty = {.kind = J_STRING, .s = {.p = ""}};

struct jinja_value *jval_new(struct arena *a, enum jkind kind)
{
	struct jinja_value *v = arena_alloc(a, sizeof *v);
	v->kind = kind;
	return v;
}

struct jinja_value *jval_from_jstr(struct arena *a, struct jstr s)
{
	struct jinja_value *v = jval_new(a, J_STRING);
	v->s = s;
	return v;
}

struct jinja_value *jval_text(struct arena *a, struct str s)
{
	return jval_from_jstr(a, (struct jstr){.p = s.p, .n = s.n});
}

struct jinja_value *jval_seq(struct arena *a, enum jkind kind, size_t cap)
{
	struct jinja_value *v = jval_new(a, kind);
	if (cap) {
		v->l.items = arena_alloc(a, cap * sizeof *v->l.items);
		v->l.cap = cap;
	}
	return v;
}

void jval_seq_add(struct arena *a, struct jinja_value *seq,
		  struct jinja_value *item)
{
	struct jlist *l = &seq->l;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 4;
		struct jinja_value **items = arena_alloc(a, cap * sizeof *items);
		if (l->n)
			memcpy(items, l->items, l->n * sizeof *items);
		l->items = items;
		l->cap = cap;
	}
	l->items[l->n++] = item;
}

struct jinja_value *jval_reverse(struct jinja_value *list)
{
	struct jinja_value **items = list->l.items;
	for (size_t i = 0, n = list->l.n; i < n / 2; i++) {
		struct jinja_value *x = items[i];
		items[i] = items[n - 1 - i];
		items[n - 1 - i] = x;
	}
	return list;
}

struct jinja_value *jval_pair(struct arena *a, struct jinja_value *x,
			      struct jinja_value *y)
{
	struct jinja_value *t = jval_seq(a, J_TUPLE, 2);
	t->l.items[0] = x;
	t->l.items[1] = y;
	t->l.n = 2;
	return t;
}

/* Computes in unsigned integers: stop - start may overflow a signed 64-bit integer. */
struct jinja_value *jval_range(struct arena *a, int64_t start, int64_t stop,
			       int64_t step)
{
	struct jinja_value *v = jval_new(a, J_RANGE);
	uint64_t span = 0, by = step > 0 ? (uint64_t)step : -(uint64_t)step;
	if (step > 0 ? start < stop : start > stop)
		span = step > 0 ? (uint64_t)stop - (uint64_t)start
				: (uint64_t)start - (uint64_t)stop;
	v->r = (struct jrange){start, stop, step, span ? (span - 1) / by + 1 : 0};
	return v;
}

const char *jval_type(const struct jinja_value *v)
{
	static const char *const names[] = {
		[J_UNDEFINED] = "Undefined", [J_NONE] = "NoneType",
		[J_BOOL] = "bool", [J_INT] = "int", [J_FLOAT] = "float",
		[J_STRING] = "str", [J_LIST] = "list", [J_TUPLE] = "tuple",
		[J_RANGE] = "range", [J_GENERATOR] = "generator",
		[J_DICT] = "dict", [J_NAMESPACE] = "Namespace",
		[J_NATIVE] = "function", [J_MACRO] = "Macro",
		[J_LOOP] = "LoopContext",
	};
	static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
	return v->kind == J_VIEW ? views[v->view.what] : names[v->kind];
}

bool jval_truth(const struct jinja_value *v)
{
	switch (v->kind) {
	case J_UNDEFINED:
	case J_NONE: return false;
	case J_BOOL: return v->b;
	case J_INT: return v->i != 0;
	case J_FLOAT: return v->f != 0;
	case J_STRING: return v->s.n > 0;
	case J_LIST:
	case J_TUPLE:
	case J_RANGE:
	case J_VIEW:
	case J_DICT: return jval_len(v) > 0;
	default: return true;
	}
}

int64_t jval_len(const struct jinja_value *v)
{
	switch (v->kind) {
	case J_UNDEFINED: return 0;
	case J_STRING: return (int64_t)utf8_count(jval_str(v));
	case J_LIST:
	case J_TUPLE: return (int64_t)v->l.n;
	case J_RANGE: return (int64_t)v->r.n;
	case J_VIEW: return (int64_t)v->view.dict->d.n_live;
	case J_DICT: return (int64_t)v->d.n_live;
	default: return -1;
	}
}

struct jinja_value *jval_at(struct arena *a, const struct jinja_value *v, size_t i)
{
	if (v->kind == J_RANGE)
		return jinja_int(a, v->r.start + (int64_t)i * v->r.step);
	return v->l.items[i];
}

/* --- dicts --------------------------------------------------------------- */

/* With fewer entries a linear scan is as fast as an index and needs no memory. */
#define SCAN_MAX 8

uint64_t jdict_hash_str(struct str s)
{
	/* Clients choose the keys. The randomized load address as the seed keeps them
	 * from choosing keys that all collide. */
	return hash_bytes((uintptr_t)&jval_none, s.p, s.n);
}

/* Equal numbers must have equal hashes, whatever their types. */
static uint64_t hash_number(const struct jinja_value *v)
{
	/* above 2^62 an integer and the equal float count as two keys */
	if (v->kind == J_FLOAT && (v->f != floor(v->f) || fabs(v->f) >= 0x1p62))
		return hash_bytes(1, &v->f, sizeof v->f);
	int64_t i = v->kind == J_FLOAT ? (int64_t)v->f : jval_int(v);
	return hash_bytes(2, &i, sizeof i);
}

/* Tuples that hold tuples twice, and so on, are exponentially large. A value that needs
 * more than this many values to hash (or to compare as a key) counts as unhashable. */
#define HASH_MAX 10000

static bool hash_deep(const struct jinja_value *v, int depth, int *left,
		      uint64_t *out_hash)
{
	switch (v->kind) {
	case J_LIST:
	case J_DICT:
		return false;
	case J_STRING:
		*out_hash = jdict_hash_str(jval_str(v));
		return true;
	case J_BOOL:
	case J_INT:
	case J_FLOAT:
		*out_hash = hash_number(v);
		return true;
	case J_TUPLE:
		*out_hash = 3;
		for (size_t i = 0; i < v->l.n; i++) {
			uint64_t h;
			if (depth == 0 || --*left < 0 ||
			    !hash_deep(v->l.items[i], depth - 1, left, &h))
				return false;
			*out_hash = hash_bytes(*out_hash, &h, sizeof h);
		}
		return true;
	case J_NONE:
	case J_UNDEFINED:
		*out_hash = hash_bytes(4, &v->kind, sizeof v->kind);
		return true;
	default:
		*out_hash = hash_bytes(5, &v, sizeof v);
		return true;
	}
}

bool jdict_hash(const struct jinja_value *v, uint64_t *out_hash)
{
	int left = HASH_MAX;
	return hash_deep(v, JOP_DEPTH, &left, out_hash);
}

static bool key_equal(const struct jentry *e, const struct jinja_value *key,
		      uint64_t hash)
{
	if (!e->key || e->hash != hash)
		return false;
	if (key->kind == J_STRING)
		return e->key->kind == J_STRING &&
		       str_eq(jval_str(e->key), jval_str(key));
	return jop_equal(e->key, key, NULL);
}

struct jentry *jdict_find(const struct jdict *d, const struct jinja_value *key,
			  uint64_t hash)
{
	if (!d->n_index) {
		for (size_t i = 0; i < d->n; i++)
			if (key_equal(&d->entries[i], key, hash))
				return &d->entries[i];
		return NULL;
	}
	for (size_t at = hash & (d->n_index - 1); d->index[at];
	     at = (at + 1) & (d->n_index - 1))
		if (key_equal(&d->entries[d->index[at] - 1], key, hash))
			return &d->entries[d->index[at] - 1];
	return NULL;
}

struct jinja_value *jdict_get_str(const struct jdict *d, struct str key)
{
	if (!d->n_index) { /* compare without hashing: most lookups are m.role or m.content in
			    * small dicts */
		for (size_t i = 0; i < d->n; i++) {
			const struct jinja_value *k = d->entries[i].key;
			if (k && k->kind == J_STRING && str_eq(jval_str(k), key))
				return d->entries[i].value;
		}
		return NULL;
	}
	struct jinja_value k = {.kind = J_STRING, .s = {.p = key.p, .n = key.n}};
	struct jentry *e = jdict_find(d, &k, jdict_hash_str(key));
	return e ? e->value : NULL;
}

static void index_add(struct jdict *d, size_t i_entry)
{
	size_t at = d->entries[i_entry].hash & (d->n_index - 1);
	while (d->index[at])
		at = (at + 1) & (d->n_index - 1);
	d->index[at] = (uint32_t)i_entry + 1;
}

static void rebuild_index(struct arena *a, struct jdict *d)
{
	d->n_index = d->n_index ? d->n_index * 2 : SCAN_MAX * 4;
	d->index = arena_alloc(a, d->n_index * sizeof *d->index);
	for (size_t i = 0; i < d->n; i++)
		index_add(d, i);
}

void jdict_put(struct arena *a, struct jdict *d, struct jinja_value *key,
	       uint64_t hash, struct jinja_value *value)
{
	struct jentry *e = jdict_find(d, key, hash);
	if (e) {
		e->value = value;
		return;
	}
	if (d->n == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 4;
		struct jentry *entries = arena_alloc(a, cap * sizeof *entries);
		if (d->n)
			memcpy(entries, d->entries, d->n * sizeof *entries);
		d->entries = entries;
		d->cap = cap;
	}
	d->entries[d->n++] = (struct jentry){key, value, hash};
	d->n_live++;
	if (d->n > SCAN_MAX && d->n * 2 > d->n_index)
		rebuild_index(a, d);
	else if (d->n_index)
		index_add(d, d->n - 1);
}

void jdict_remove(struct jdict *d, struct jentry *e)
{
	e->key = NULL; /* the stale number in the index matches nothing */
	d->n_live--;
}

void jdict_put_str(struct arena *a, struct jdict *d, struct str key,
		   struct jinja_value *value)
{
	jdict_put(a, d, jval_text(a, key), jdict_hash_str(key), value);
}

/* --- the public makers (jinja.h) ----------------------------------------- */

struct jinja_value *jinja_none(struct arena *a) { return &jval_none; }
struct jinja_value *jinja_bool(struct arena *a, bool v) { return jval_bool(v); }

struct jinja_value *jinja_int(struct arena *a, int64_t v)
{
	struct jinja_value *x = jval_new(a, J_INT);
	x->i = v;
	return x;
}

struct jinja_value *jinja_float(struct arena *a, double v)
{
	struct jinja_value *x = jval_new(a, J_FLOAT);
	x->f = v;
	return x;
}

struct jinja_value *jinja_digits(struct arena *a, double v, struct str digits)
{
	struct jinja_value *x = jinja_float(a, v);
	x->digits = arena_str(a, digits).p;
	return x;
}

struct jinja_value *jinja_string(struct arena *a, struct str s, enum trust t)
{
	struct str own = arena_str(a, s);
	return jval_from_jstr(a, (struct jstr){.p = own.p, .n = own.n, .trust = t});
}

struct jinja_value *jinja_marked(struct arena *a, const struct marked *m)
{
	struct str own = arena_str(a, buf_str(&m->text));
	struct mark *marks = arena_alloc(a, m->n_marks * sizeof *marks);
	if (m->n_marks)
		memcpy(marks, m->marks, m->n_marks * sizeof *marks);
	return jval_from_jstr(a, (struct jstr){.p = own.p, .n = own.n, .marks = marks,
					       .n_marks = (uint32_t)m->n_marks});
}

struct jinja_value *jinja_list(struct arena *a) { return jval_seq(a, J_LIST, 0); }

void jinja_list_add(struct arena *a, struct jinja_value *list,
		    struct jinja_value *item)
{
	jval_seq_add(a, list, item);
}

struct jinja_value *jinja_dict(struct arena *a) { return jval_new(a, J_DICT); }

void jinja_dict_set(struct arena *a, struct jinja_value *dict, struct str key,
		    enum trust key_trust, struct jinja_value *value)
{
	jdict_put(a, &dict->d, jinja_string(a, key, key_trust), jdict_hash_str(key),
		  value);
}
