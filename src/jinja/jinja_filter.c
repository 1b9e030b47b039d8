/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters on any value and on numbers, and the table of all filters. A filter is a
 * function with the value as `self`.
 *
 * Each filter follows jinja2 in whether it takes str() of the value first and whether it
 * accepts undefined: `undefined | upper` is '', `undefined | int` fails.
 *
 * tojson is the one with which transformers replaces Jinja's: json.dumps without escapes
 * for HTML.
 *
 * Filters of Jinja that no published chat template uses are missing, such as round, batch
 * and urlencode (tests/golden/jinja_used.tsv says what is used). A template that names one
 * does not compile. There is no Markup type: `safe` and `escape` give plain strings.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "jinja/jinja_op.h"

#define FILTER(name) JNATIVE(filter_##name)

FILTER(default)
{
	bool boolean = v[1] && jval_truth(v[1]);
	if (self->kind == J_UNDEFINED || (boolean && !jval_truth(self)))
		return v[0] ? v[0] : &jval_empty;
	return self;
}

FILTER(string)
{
	return jrepr_str(rt, self);
}

FILTER(length)
{
	if (self->kind == J_STRING && !jrt_work(rt, self->s.n / 8))
		return NULL;
	int64_t n = jval_len(self);
	if (n < 0)
		return jrt_fail(rt, "object of type '%s' has no len()", jval_type(self));
	return jinja_int(rt->arena, n);
}

FILTER(abs)
{
	if (self->kind == J_FLOAT)
		return jinja_float(rt->arena, fabs(self->f));
	if (!jval_is_int(self))
		return jrt_fail(rt, "bad operand type for abs(): '%s'", jval_type(self));
	return jval_int(self) < 0 ? jop_negate(rt, self) : jop_plus(rt, self);
}

/* int(v) for a float: 1 done, 0 not a number, -1 failed. */
static int float_to_int(struct jrt *rt, double f, int64_t *out)
{
	if (isnan(f))
		return 0;
	if (!(fabs(f) < 0x1p63)) {
		jrt_fail(rt, "cannot convert this float to a 64-bit integer");
		return -1;
	}
	*out = (int64_t)f;
	return 1;
}

/* "42.9" | int is 42, because the text is read as a float. A text that is no number gives
 * the default. */
FILTER(int)
{
	int64_t n = 0;
	double f = 0;
	bool is_number = false;
	if (self->kind == J_UNDEFINED)
		return jrt_undefined(rt, self);
	if (jval_is_int(self))
		return jinja_int(rt->arena, jval_int(self));
	if (self->kind == J_FLOAT) {
		f = self->f;
		is_number = true;
	} else if (self->kind == J_STRING) {
		if (jformat_parse_int(rt, jval_str(self), &n))
			return jinja_int(rt->arena, n);
		if (jrt_failed(rt))
			return NULL;
		is_number = jformat_parse_float(jval_str(self), &f) && isfinite(f);
	}
	int done = is_number ? float_to_int(rt, f, &n) : 0;
	if (done < 0)
		return NULL;
	return done ? jinja_int(rt->arena, n) : v[0] ? v[0] : jinja_int(rt->arena, 0);
}

FILTER(float)
{
	double f;
	if (self->kind == J_UNDEFINED)
		return jrt_undefined(rt, self);
	if (self->kind == J_FLOAT)
		return self;
	if (jval_is_int(self))
		return jinja_float(rt->arena, (double)jval_int(self));
	if (self->kind == J_STRING && jformat_parse_float(jval_str(self), &f))
		return jinja_float(rt->arena, f);
	return v[0] ? v[0] : jinja_float(rt->arena, 0);
}

/* Reads tojson's `indent`: a number of blanks, or the text to indent with. */
static bool indent_of(struct jrt *rt, struct jinja_value *v, struct jjson_style *style)
{
	if (!v || v->kind == J_NONE)
		return true;
	style->is_indented = true;
	if (v->kind == J_STRING) {
		style->indent = v->s;
		return true;
	}
	int64_t n = 0;
	if (!jcall_int(rt, v, &n))
		return false;
	if (n > 100)
		return jrt_limit(rt, "indents too far");
	struct jtext *t = jtext_new(rt, 0);
	jtext_fill(t, STR(" "), TRUST_TEMPLATE, n > 0 ? (size_t)n : 0);
	struct jinja_value *text = jtext_finish(t);
	if (text)
		style->indent = text->s;
	return text != NULL;
}

FILTER(tojson)
{
	struct jjson_style style = {
		.ensure_ascii = v[0] && jval_truth(v[0]),
		.sort_keys = v[3] && jval_truth(v[3]),
		.key_sep = {.p = ": ", .n = 2},
	};
	if (!indent_of(rt, v[1], &style))
		return NULL;
	style.item_sep = (struct jstr){.p = ", ", .n = style.is_indented ? 1 : 2};
	if (v[2] && v[2]->kind != J_NONE) {
		struct jinja_value *pair = jiter_list(rt, v[2]);
		if (!pair)
			return NULL;
		if (pair->l.n != 2)
			return jrt_fail(rt, "separators must be two strings");
		const struct jstr *item = jcall_str(rt, pair->l.items[0]);
		const struct jstr *key = item ? jcall_str(rt, pair->l.items[1]) : NULL;
		if (!key)
			return NULL;
		style.item_sep = *item;
		style.key_sep = *key;
	}
	return jjson_dump(rt, self, &style);
}

static const struct jbuiltin filters[] = {
	{"abs", "", filter_abs},
	{"count", "", filter_length},
	{"d", "default_value? boolean?", filter_default},
	{"default", "default_value? boolean?", filter_default},
	{"float", "default?", filter_float},
	{"int", "default?", filter_int},
	{"length", "", filter_length},
	{"string", "", filter_string},
	{"tojson", "ensure_ascii? indent? separators? sort_keys?", filter_tojson},
	{NULL, NULL, NULL},
};

const struct jbuiltin *jfilter_find(struct str name)
{
	const struct jbuiltin *fn = jcall_find(filters, name);
	if (!fn)
		fn = jcall_find(jfilter_seqs, name);
	return fn ? fn : jcall_find(jfilter_strs, name);
}
