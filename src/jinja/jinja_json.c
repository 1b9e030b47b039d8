/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's json.dumps. All bytes that represent a string's characters, escapes included,
 * keep the string's trust marks. A tool's description thus stays the client's text
 * however it is escaped. Brackets, quotes, separators and numbers have the template's
 * trust.
 */
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "jinja/jinja_op.h"

struct dump {
	struct jtext *t;
	const struct jjson_style *style;
	int depth; /* levels of nesting that are still permitted */
	int level;
};

static void add_value(struct dump *d, const struct jinja_value *v);

static void fail(struct dump *d, const char *what, const char *type)
{
	jrt_fail(d->t->rt, what, type);
	d->t->failed = true;
}

static void add_unicode(struct jtext *t, uint32_t c, enum trust trust)
{
	char esc[16];
	if (c > 0xFFFF)
		snprintf(esc, sizeof esc, "\\u%04x\\u%04x",
			 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
	else
		snprintf(esc, sizeof esc, "\\u%04x", c);
	jtext_add(t, str_of(esc), trust);
}

/* Writes one character that needs an escape. */
static void add_escape(struct jtext *t, uint32_t c, enum trust trust)
{
	static const char from[] = "\"\\\n\r\t\b\f";
	static const char *const to[] = {"\\\"", "\\\\", "\\n", "\\r", "\\t",
					 "\\b", "\\f"};
	const char *simple = c && c < 0x80 ? strchr(from, (int)c) : NULL;
	if (simple)
		jtext_add(t, str_of(to[simple - from]), trust);
	else
		add_unicode(t, c == UTF8_BAD ? 0xFFFD : c, trust);
}

/* Copies runs of characters that need no escape as a whole, with their marks. */
static void add_string(struct dump *d, const struct jstr *s)
{
	bool ascii = d->style->ensure_ascii;
	size_t plain = 0;
	jtext_add_z(d->t, "\"");
	if (!jrt_work(d->t->rt, s->n))
		d->t->failed = true;
	for (size_t at = 0, len; at < s->n && !d->t->failed; at += len) {
		uint32_t c = (unsigned char)s->p[at];
		len = 1;
		if (c >= 0x80 && ascii)
			len = utf8_decode((struct str){s->p + at, s->n - at}, &c);
		if (c >= 0x20 && c != '"' && c != '\\' && !(ascii && c > 0x7E))
			continue;
		jtext_add_part(d->t, s, plain, at);
		add_escape(d->t, c, jstr_trust_at(s, at));
		plain = at + len;
	}
	jtext_add_part(d->t, s, plain, s->n);
	jtext_add_z(d->t, "\"");
}

static void add_number(struct dump *d, const struct jinja_value *v)
{
	if (v->kind == J_INT)
		jtext_addf(d->t, "%lld", (long long)v->i);
	else if (v->digits)
		jtext_add_z(d->t, v->digits);
	else if (isnan(v->f))
		jtext_add_z(d->t, "NaN");
	else if (isinf(v->f))
		jtext_add_z(d->t, v->f < 0 ? "-Infinity" : "Infinity");
	else
		jrepr_add_float(d->t, v->f);
}

static void add_newline(struct dump *d)
{
	if (!d->style->is_indented)
		return;
	jtext_add_z(d->t, "\n");
	for (int i = 0; i < d->level; i++)
		jtext_add_jstr(d->t, &d->style->indent);
}

/* Writes the separator (unless `first`) and the indent of a new line. */
static void add_gap(struct dump *d, bool first)
{
	if (!first)
		jtext_add_jstr(d->t, &d->style->item_sep);
	add_newline(d);
}

static void add_list(struct dump *d, const struct jlist *l)
{
	jtext_add_z(d->t, "[");
	d->level++;
	for (size_t i = 0; i < l->n && !d->t->failed; i++) {
		add_gap(d, i == 0);
		add_value(d, l->items[i]);
	}
	d->level--;
	if (l->n)
		add_newline(d);
	jtext_add_z(d->t, "]");
}

/* Numbers, booleans and none become strings when they are keys, as in Python. */
static void add_key(struct dump *d, const struct jinja_value *key)
{
	if (key->kind == J_STRING) {
		add_string(d, &key->s);
		return;
	}
	if (!jval_is_num(key) && key->kind != J_NONE) {
		fail(d, "keys must be str, int, float, bool or None, not %s",
		     jval_type(key));
		return;
	}
	jtext_add_z(d->t, "\"");
	add_value(d, key);
	jtext_add_z(d->t, "\"");
}

/* The entries of a dict in order of their keys, for sort_keys. */
static struct jentry *sorted_entries(struct dump *d, const struct jdict *dict)
{
	struct jrt *rt = d->t->rt;
	size_t n = 0;
	if (!jrt_room(rt, dict->n_live * (sizeof(struct jentry) + 2 * sizeof(void *))))
		return NULL;
	struct jinja_value **keys = arena_alloc(rt->arena, dict->n_live * sizeof *keys);
	struct jinja_value **own = arena_alloc(rt->arena, dict->n_live * sizeof *own);
	for (size_t i = 0; i < dict->n; i++)
		if (dict->entries[i].key)
			own[n] = keys[n] = dict->entries[i].key, n++;
	if (!jsort_by_keys(rt, own, keys, n, false))
		return NULL;
	struct jentry *entries = arena_alloc(rt->arena, n * sizeof *entries);
	for (size_t i = 0; i < n; i++) {
		uint64_t hash = 0;
		jdict_hash(own[i], &hash); /* cannot fail: keys of a dict are hashable */
		entries[i] = *jdict_find(dict, own[i], hash);
	}
	return entries;
}

static void add_dict(struct dump *d, const struct jdict *dict)
{
	const struct jentry *entries = dict->entries;
	size_t n = dict->n;
	if (d->style->sort_keys && dict->n_live) {
		n = dict->n_live;
		if (!(entries = sorted_entries(d, dict))) {
			d->t->failed = true;
			return;
		}
	}
	jtext_add_z(d->t, "{");
	d->level++;
	bool first = true;
	for (size_t i = 0; i < n && !d->t->failed; i++) {
		if (!entries[i].key)
			continue;
		add_gap(d, first);
		first = false;
		add_key(d, entries[i].key);
		jtext_add_jstr(d->t, &d->style->key_sep);
		add_value(d, entries[i].value);
	}
	d->level--;
	if (!first)
		add_newline(d);
	jtext_add_z(d->t, "}");
}

static void add_container(struct dump *d, const struct jinja_value *v)
{
	if (d->depth-- == 0) {
		jrt_limit(d->t->rt, "writes JSON that is nested too deeply");
		d->t->failed = true;
	} else if (v->kind == J_DICT) {
		add_dict(d, &v->d);
	} else {
		add_list(d, &v->l);
	}
	d->depth++;
}

static void add_value(struct dump *d, const struct jinja_value *v)
{
	if (!jrt_work(d->t->rt, 16)) {
		d->t->failed = true;
		return;
	}
	switch (v->kind) {
	case J_NONE: jtext_add_z(d->t, "null"); break;
	case J_BOOL: jtext_add_z(d->t, v->b ? "true" : "false"); break;
	case J_INT:
	case J_FLOAT: add_number(d, v); break;
	case J_STRING: add_string(d, &v->s); break;
	case J_LIST:
	case J_TUPLE:
	case J_DICT: add_container(d, v); break;
	default: fail(d, "Object of type %s is not JSON serializable", jval_type(v));
	}
}

struct jinja_value *jjson_dump(struct jrt *rt, const struct jinja_value *v,
			       const struct jjson_style *style)
{
	struct dump d = {jtext_new(rt, 0), style, JOP_DEPTH, 0};
	add_value(&d, v);
	return jtext_finish(d.t);
}
