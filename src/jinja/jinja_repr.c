/* SPDX-License-Identifier: Apache-2.0
 *
 * str() and repr(): what `{{ x }}` prints. Bytes of a string keep the string's trust
 * marks. All other bytes have the template's trust.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "jinja/jinja_ast.h"
#include "jinja/jinja_op.h"

/* Prints the fewest digits that read back as v, in Python's layout: with an exponent
 * below 1e-4 and from 1e16 on. */
void jrepr_add_float(struct jtext *t, double v)
{
	if (!isfinite(v)) {
		jtext_add_z(t, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
		return;
	}
	char sci[40];
	int digits = 1;
	for (; digits <= 17; digits++) {
		snprintf(sci, sizeof sci, "%.*e", digits - 1, v);
		if (strtod(sci, NULL) == v)
			break;
	}
	int exponent = atoi(strchr(sci, 'e') + 1);
	if (exponent >= -4 && exponent < 16) {
		int decimals = digits - 1 - exponent;
		jtext_addf(t, "%.*f", decimals > 1 ? decimals : 1, v);
		return;
	}
	jtext_add(t, (struct str){sci, (size_t)(strchr(sci, 'e') - sci)},
		  TRUST_TEMPLATE);
	jtext_addf(t, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
}

static void add_escaped(struct jtext *t, uint32_t c, enum trust trust)
{
	char esc[16];
	snprintf(esc, sizeof esc, c <= 0xFF ? "\\x%02x" : c <= 0xFFFF ? "\\u%04x"
								     : "\\U%08x", c);
	jtext_add(t, str_of(esc), trust);
}

/* Uses double quotes only if that avoids escaping single quotes. */
static void add_quoted(struct jtext *t, const struct jstr *s)
{
	bool has_single = memchr(s->p, '\'', s->n), has_double = memchr(s->p, '"', s->n);
	char quote = has_single && !has_double ? '"' : '\'';
	jtext_add(t, (struct str){&quote, 1}, TRUST_TEMPLATE);
	for (size_t at = 0, len; at < s->n; at += len) {
		uint32_t c;
		len = utf8_decode((struct str){s->p + at, s->n - at}, &c);
		enum trust trust = jstr_trust_at(s, at);
		const char *esc = c == '\n' ? "\\n" : c == '\r' ? "\\r" :
				  c == '\t' ? "\\t" : c == '\\' ? "\\\\" :
				  c == (uint32_t)quote ? "\\'" : NULL;
		if (esc)
			jtext_add(t, str_of(esc), trust);
		else if (c != UTF8_BAD && c != ' ' && !jcase_is_printable(c))
			add_escaped(t, c, trust);
		else
			jtext_add_part(t, s, at, at + len);
	}
	jtext_add(t, (struct str){&quote, 1}, TRUST_TEMPLATE);
}

static void add_items(struct jtext *t, const struct jinja_value *v, int depth)
{
	jtext_add_z(t, v->kind == J_LIST ? "[" : "(");
	for (size_t i = 0; i < v->l.n && !t->failed; i++) {
		if (i)
			jtext_add_z(t, ", ");
		jrepr_add_repr(t, v->l.items[i], depth);
	}
	if (v->kind == J_TUPLE && v->l.n == 1)
		jtext_add_z(t, ",");
	jtext_add_z(t, v->kind == J_LIST ? "]" : ")");
}

/* Prints what a dict or a view of a dict shows between its brackets. */
static void add_entries(struct jtext *t, const struct jdict *d, int depth,
			enum jview_what what, bool is_dict)
{
	bool first = true;
	for (size_t i = 0; i < d->n && !t->failed; i++) {
		const struct jentry *e = &d->entries[i];
		if (!e->key)
			continue;
		if (!first)
			jtext_add_z(t, ", ");
		first = false;
		bool pair = what == VIEW_ITEMS;
		if (pair && !is_dict)
			jtext_add_z(t, "(");
		if (what != VIEW_VALUES)
			jrepr_add_repr(t, e->key, depth);
		if (pair)
			jtext_add_z(t, is_dict ? ": " : ", ");
		if (what != VIEW_KEYS)
			jrepr_add_repr(t, e->value, depth);
		if (pair && !is_dict)
			jtext_add_z(t, ")");
	}
}

static void add_range(struct jtext *t, const struct jrange *r)
{
	jtext_addf(t, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
	if (r->step != 1)
		jtext_addf(t, ", %lld", (long long)r->step);
	jtext_add_z(t, ")");
}

static void add_container(struct jtext *t, const struct jinja_value *v, int depth)
{
	if (depth == 0) {
		jrt_limit(t->rt, "prints a value that is nested too deeply");
		t->failed = true;
		return;
	}
	switch (v->kind) {
	case J_DICT:
		jtext_add_z(t, "{");
		add_entries(t, &v->d, depth - 1, VIEW_ITEMS, true);
		jtext_add_z(t, "}");
		break;
	case J_NAMESPACE:
		jtext_add_z(t, "<Namespace {");
		add_entries(t, &v->d, depth - 1, VIEW_ITEMS, true);
		jtext_add_z(t, "}>");
		break;
	case J_VIEW:
		jtext_addf(t, "%s([", jval_type(v));
		add_entries(t, &v->view.dict->d, depth - 1, v->view.what, false);
		jtext_add_z(t, "])");
		break;
	default:
		add_items(t, v, depth - 1);
	}
}

/* Each value costs steps. A list that holds another list twice, which holds a third one
 * twice, and so on is quick to build and endless to print. */
void jrepr_add_repr(struct jtext *t, const struct jinja_value *v, int depth)
{
	if (!jrt_work(t->rt, 16)) {
		t->failed = true;
		return;
	}
	switch (v->kind) {
	case J_UNDEFINED: jtext_add_z(t, "Undefined"); break;
	case J_NONE: jtext_add_z(t, "None"); break;
	case J_BOOL: jtext_add_z(t, v->b ? "True" : "False"); break;
	case J_INT: jtext_addf(t, "%lld", (long long)v->i); break;
	case J_FLOAT:
		if (v->digits)
			jtext_add_z(t, v->digits);
		else
			jrepr_add_float(t, v->f);
		break;
	case J_STRING: add_quoted(t, &v->s); break;
	case J_RANGE: add_range(t, &v->r); break;
	case J_LIST:
	case J_TUPLE:
	case J_DICT:
	case J_NAMESPACE:
	case J_VIEW: add_container(t, v, depth); break;
	case J_MACRO:
		jtext_addf(t, "<Macro '%.*s'>", (int)v->macro.def->name.n,
			   v->macro.def->name.p);
		break;
	default: jtext_addf(t, "<%s>", jval_type(v));
	}
}

void jrepr_add_str(struct jtext *t, const struct jinja_value *v)
{
	if (v->kind == J_STRING)
		jtext_add_jstr(t, &v->s);
	else if (v->kind != J_UNDEFINED)
		jrepr_add_repr(t, v, JOP_DEPTH);
}

struct jinja_value *jrepr_str(struct jrt *rt, struct jinja_value *v)
{
	if (v->kind == J_STRING)
		return v;
	struct jtext *t = jtext_new(rt, 0);
	jrepr_add_str(t, v);
	return jtext_finish(t);
}
