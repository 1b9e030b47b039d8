/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats values: "%s" % x and "{}".format(x). Also reads numbers from text. Both ways of
 * formatting know what chat templates use: text, integers and decimals, with a width, zeros
 * and a precision. All else of Python's formats is refused by name. The format's own text
 * keeps its trust marks, and so do string values.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "jinja/jinja_op.h"

#define PRECISION_MAX 300

struct spec {
	bool is_left, is_zero;
	char type;         /* s, r, d or f; 0: none given */
	int64_t width;
	int64_t precision; /* of f; -1: none given */
	enum trust trust;  /* of the padding */
};

/* --- numbers in text ----------------------------------------------------- */

static struct str trimmed(struct str s)
{
	struct jstr whole = {.p = s.p, .n = s.n};
	size_t from, to;
	jcase_strip(&whole, NULL, true, true, &from, &to);
	return (struct str){s.p + from, to - from};
}

bool jformat_parse_int(struct jrt *rt, struct str s, int64_t *out)
{
	s = trimmed(s);
	bool negative = s.n && s.p[0] == '-', over = false;
	if (s.n && (negative || s.p[0] == '+'))
		s = (struct str){s.p + 1, s.n - 1};
	if (s.n == 0)
		return false;
	int64_t v = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '_' && i > 0 && i + 1 < s.n && s.p[i - 1] != '_')
			continue;
		if (!isdigit((unsigned char)s.p[i]))
			return false;
		over |= __builtin_mul_overflow(v, (int64_t)10, &v) ||
			__builtin_sub_overflow(v, (int64_t)(s.p[i] - '0'), &v);
	}
	if (over || (!negative && v == INT64_MIN))
		return jrt_fail(rt, "an integer does not fit into 64 bits");
	*out = negative ? v : -v;
	return true;
}

bool jformat_parse_float(struct str s, double *out)
{
	char text[400], *end;
	size_t n = 0;
	s = trimmed(s);
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c == '_' && i > 0 && i + 1 < s.n &&
		    isdigit((unsigned char)s.p[i - 1]) &&
		    isdigit((unsigned char)s.p[i + 1]))
			continue;
		/* strtod takes these forms, but Python does not */
		if (n + 1 == sizeof text || !is_char_of(c, "0123456789+-.eEinftyaINFTYA"))
			return false;
		text[n++] = c;
	}
	text[n] = '\0';
	*out = strtod(text, &end);
	return n > 0 && *end == '\0';
}

/* --- one value in a field ------------------------------------------------ */

/* Reads [-][0][width][.precision]type from s, at *at. `types` lists those that may stand
 * here. */
static bool read_spec(struct jrt *rt, struct str s, size_t *at, const char *types,
		      struct spec *sp)
{
	for (; *at < s.n && (s.p[*at] == '-' || s.p[*at] == '0'); ++*at)
		*(s.p[*at] == '-' ? &sp->is_left : &sp->is_zero) = true;
	int64_t *number = &sp->width;
	for (; *at < s.n && (isdigit((unsigned char)s.p[*at]) || s.p[*at] == '.'); ++*at) {
		if (s.p[*at] == '.' && number == &sp->precision)
			break;
		if (s.p[*at] == '.')
			*(number = &sp->precision) = 0;
		else
			*number = *number * 10 + (s.p[*at] - '0');
		if (sp->width > INT32_MAX || sp->precision > PRECISION_MAX)
			return jrt_limit(rt, sp->width > INT32_MAX ? "asks for too wide a field"
								   : "asks for too many digits");
	}
	sp->type = *at < s.n ? s.p[(*at)++] : '\0';
	if (!sp->type || !strchr(types, sp->type) || (sp->precision >= 0 && sp->type != 'f'))
		return jrt_fail(rt, "the format '%.*s' is not supported: a width and one of %s "
				"are, and a precision for f", (int)MIN(s.n, 40), s.p, types);
	return true;
}

/* Pads a number or a text. Zeros stand after the sign. */
static void add_padded(struct jtext *t, const struct spec *sp, const struct jstr *s)
{
	int64_t len = (int64_t)utf8_count((struct str){s->p, s->n});
	size_t missing = sp->width > len ? (size_t)(sp->width - len) : 0;
	bool is_zero = sp->is_zero && !sp->is_left && (sp->type == 'd' || sp->type == 'f');
	size_t sign = is_zero && s->n && s->p[0] == '-';
	jtext_add_part(t, s, 0, sign);
	if (!sp->is_left)
		jtext_fill(t, is_zero ? STR("0") : STR(" "), sp->trust, missing);
	jtext_add_part(t, s, sign, s->n);
	if (sp->is_left)
		jtext_fill(t, STR(" "), sp->trust, missing);
}

static bool add_value(struct jrt *rt, struct jtext *t, const struct spec *sp,
		      const struct jinja_value *v)
{
	struct jtext *text = jtext_new(rt, 0);
	if (sp->type == 's' || !sp->type)
		jrepr_add_str(text, v);
	else if (sp->type == 'r')
		jrepr_add_repr(text, v, JOP_DEPTH);
	else if (!jval_is_num(v))
		return jrt_fail(rt, "format '%c' does not fit a value of type '%s'", sp->type,
				jval_type(v));
	else if (sp->type == 'f')
		jtext_addf(text, "%.*f", sp->precision < 0 ? 6 : (int)sp->precision,
			   v->kind == J_FLOAT ? v->f : (double)jval_int(v));
	else if (v->kind != J_FLOAT)
		jtext_addf(text, "%lld", (long long)jval_int(v));
	else if (fabs(v->f) < 0x1p63)
		jtext_addf(text, "%lld", (long long)v->f);
	else
		return jrt_fail(rt, "this float is no 64-bit integer");
	struct jinja_value *s = jtext_finish(text);
	if (s)
		add_padded(t, sp, &s->s);
	return s != NULL;
}

/* --- % ------------------------------------------------------------------- */

/* Formats the conversion after the % at *at - 1. *used counts the items of a tuple. */
static bool add_conversion(struct jrt *rt, struct jtext *t, const struct jstr *fmt, size_t *at,
			   struct jinja_value *args, size_t *used)
{
	struct spec sp = {.precision = -1, .trust = jstr_trust_at(fmt, *at - 1)};
	struct jinja_value *v = NULL;
	if (*at < fmt->n && fmt->p[*at] == '%') {
		jtext_add_part(t, fmt, *at, *at + 1);
		++*at;
		return true;
	}
	if (*at < fmt->n && fmt->p[*at] == '(') {
		const char *name = fmt->p + ++*at;
		const char *end = memchr(name, ')', fmt->n - *at);
		if (!end)
			return jrt_fail(rt, "incomplete format key");
		if (args->kind != J_DICT)
			return jrt_fail(rt, "format requires a mapping");
		v = jdict_get_str(&args->d, (struct str){name, (size_t)(end - name)});
		if (!v)
			return jrt_fail(rt, "the format's key '%.*s' is missing",
					(int)MIN(end - name, 60), name);
		*at += (size_t)(end - name) + 1;
		*used = 1;
	}
	struct str spec = {fmt->p + *at, fmt->n - *at};
	size_t n = 0;
	if (!read_spec(rt, spec, &n, "srdif", &sp))
		return false;
	*at += n;
	if (sp.type == 'i')
		sp.type = 'd';
	bool is_tuple = args->kind == J_TUPLE;
	if (!v && *used >= (is_tuple ? args->l.n : 1))
		return jrt_fail(rt, "not enough arguments for format string");
	if (!v)
		v = is_tuple ? args->l.items[(*used)++] : (*used = 1, args);
	return add_value(rt, t, &sp, v);
}

struct jinja_value *jformat_percent(struct jrt *rt, const struct jstr *fmt,
				    struct jinja_value *args)
{
	struct jtext *t = jtext_new(rt, fmt->n);
	size_t used = 0;
	for (size_t at = 0; at < fmt->n;) {
		const char *percent = memchr(fmt->p + at, '%', fmt->n - at);
		size_t end = percent ? (size_t)(percent - fmt->p) : fmt->n;
		jtext_add_part(t, fmt, at, end);
		at = end + 1;
		if (percent && (!add_conversion(rt, t, fmt, &at, args, &used) ||
				!jrt_work(rt, 32)))
			return NULL;
	}
	bool all = used == (args->kind == J_TUPLE ? args->l.n : 1);
	/* a value that %(name) can index counts as used, as in Python */
	if (!all && (args->kind == J_TUPLE || args->kind == J_STRING ||
		     (args->kind != J_UNDEFINED && args->kind < J_LIST) ||
		     args->kind > J_NAMESPACE))
		return jrt_fail(rt, "not all arguments converted during string formatting");
	return jtext_finish(t);
}

/* --- {} ------------------------------------------------------------------ */

/* The argument of the field "", "0" or "name". *next counts the fields without a name; -1:
 * the format numbers its fields. */
static struct jinja_value *find_arg(struct jrt *rt, const struct jargs *args, struct str name,
				    int *next)
{
	int64_t i = *next;
	if (name.n && !isdigit((unsigned char)name.p[0])) {
		for (int k = 0; k < args->n_kw; k++)
			if (args->kw[k].value && str_eq(args->kw[k].name, name))
				return args->kw[k].value;
		return jrt_fail(rt, "the format's key '%.*s' is missing",
				(int)MIN(name.n, 60), name.p);
	}
	if (name.n ? *next > 0 : *next < 0)
		return jrt_fail(rt, "a format numbers all fields or none");
	if (name.n && !jformat_parse_int(rt, name, &i))
		return jrt_fail(rt, "the format's field '%.*s' is not supported",
				(int)MIN(name.n, 60), name.p);
	*next = name.n ? -1 : *next + 1;
	return i < args->n_pos ? args->pos[i] :
	       jrt_fail(rt, "Replacement index %lld out of range for positional args tuple",
			(long long)i);
}

/* Formats the field between { and }. */
static bool add_field(struct jrt *rt, struct jtext *t, const struct jargs *args,
		      struct str field, int *next, enum trust trust)
{
	struct spec sp = {.precision = -1, .trust = trust};
	size_t n = 0, at = 0;
	while (n < field.n && field.p[n] != ':')
		n++;
	struct jinja_value *v = find_arg(rt, args, (struct str){field.p, n}, next);
	if (!v || n == field.n)
		return v && add_value(rt, t, &sp, v);
	struct str spec = {field.p + n + 1, field.n - n - 1};
	if (!read_spec(rt, spec, &at, v->kind == J_STRING ? "s" : "df", &sp))
		return false;
	if (at < spec.n || sp.is_left || (v->kind == J_FLOAT && sp.type == 'd'))
		return jrt_fail(rt, "the format '%.*s' is not supported",
				(int)MIN(spec.n, 40), spec.p);
	sp.is_left = v->kind == J_STRING;
	return add_value(rt, t, &sp, v);
}

struct jinja_value *jformat_braces(struct jrt *rt, const struct jstr *fmt,
				   const struct jargs *args)
{
	struct jtext *t = jtext_new(rt, fmt->n);
	int next = 0;
	for (size_t at = 0; at < fmt->n && jrt_work(rt, 32);) {
		const char *p = fmt->p + at;
		size_t n = 0;
		while (at + n < fmt->n && p[n] != '{' && p[n] != '}')
			n++;
		jtext_add_part(t, fmt, at, at + n);
		at += n;
		if (at == fmt->n)
			break;
		char brace = fmt->p[at++];
		if (at < fmt->n && fmt->p[at] == brace) { /* {{ or }} stands for one brace */
			jtext_add_part(t, fmt, at, at + 1);
			at++;
			continue;
		}
		const char *end = brace == '{' ? memchr(fmt->p + at, '}', fmt->n - at) : NULL;
		if (!end)
			return jrt_fail(rt, "Single '%c' encountered in format string", brace);
		struct str field = {fmt->p + at, (size_t)(end - fmt->p) - at};
		if (!add_field(rt, t, args, field, &next, jstr_trust_at(fmt, at - 1)))
			return NULL;
		at += field.n + 1;
	}
	return jrt_failed(rt) ? NULL : jtext_finish(t);
}
