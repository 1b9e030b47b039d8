/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats values: "%s" % x and "{}".format(x). Also reads numbers from text. Both ways of
 * formatting fill one struct spec. The format's own text and its fill character keep the
 * format's trust marks. String values keep their own marks.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "jinja/jinja_op.h"

#define NUMBER_MAX 1000 /* maximal length of one formatted number */
#define PRECISION_MAX 300

struct spec {
	struct str fill;   /* one character; n 0: use a blank */
	char align;        /* one of < > ^ =; 0: the type's default */
	char sign;         /* one of + - and blank */
	char group;        /* separator of thousands, "," or "_"; 0: none */
	char type;         /* conversion letter; 0: none given */
	bool alt;          /* # */
	int64_t width;
	int64_t precision; /* -1: none given */
	enum trust trust;  /* trust of the fill character */
};

/* --- numbers in text ----------------------------------------------------- */

static struct str trimmed(struct str s)
{
	struct jstr whole = {.p = s.p, .n = s.n};
	size_t from, to;
	jcase_strip(&whole, NULL, true, true, &from, &to);
	return (struct str){s.p + from, to - from};
}

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       isalpha((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

/* Removes a prefix like 0x that fits *base (0: any base) and sets *base to the actual
 * one. */
static struct str drop_prefix(struct str s, int64_t *base)
{
	int64_t of = 0;
	if (s.n > 1 && s.p[0] == '0')
		of = (s.p[1] | 32) == 'x' ? 16 : (s.p[1] | 32) == 'o' ? 8 :
		     (s.p[1] | 32) == 'b' ? 2 : 0;
	if (of && (*base == 0 || *base == of)) {
		*base = of;
		s = (struct str){s.p + 2, s.n - 2};
		if (s.n && s.p[0] == '_')
			s = (struct str){s.p + 1, s.n - 1};
	}
	if (*base == 0)
		*base = 10;
	return s;
}

bool jformat_parse_int(struct jrt *rt, struct str s, int64_t base, int64_t *out)
{
	s = trimmed(s);
	bool negative = s.n && s.p[0] == '-', over = false;
	if (s.n && (negative || s.p[0] == '+'))
		s = (struct str){s.p + 1, s.n - 1};
	s = drop_prefix(s, &base);
	if (s.n == 0 || base < 2 || base > 36)
		return false;
	int64_t v = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '_' && i > 0 && i + 1 < s.n && s.p[i - 1] != '_')
			continue;
		int digit = digit_of(s.p[i]);
		if (digit >= base)
			return false;
		over |= __builtin_mul_overflow(v, base, &v) ||
			__builtin_sub_overflow(v, (int64_t)digit, &v);
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

static void add_aligned(struct jtext *t, const struct spec *sp, const struct jstr *s,
			char align)
{
	struct str fill = sp->fill.n ? sp->fill : STR(" ");
	uint64_t len = utf8_count((struct str){s->p, s->n});
	uint64_t width = sp->width > 0 ? (uint64_t)sp->width : 0;
	uint64_t missing = width > len ? width - len : 0;
	uint64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
	jtext_fill(t, fill, sp->trust, left);
	jtext_add_jstr(t, s);
	jtext_fill(t, fill, sp->trust, missing - left);
}

/* Writes sign and prefix, then the digits. Padding may go between the two. */
static void add_number(struct jtext *t, const struct spec *sp, const char *prefix,
		       const char *digits)
{
	char text[2 * NUMBER_MAX];
	size_t len = strlen(prefix) + strlen(digits);
	if (sp->align == '=') {
		jtext_add_z(t, prefix);
		if (sp->width > 0 && (uint64_t)sp->width > len)
			jtext_fill(t, sp->fill.n ? sp->fill : STR(" "), sp->trust,
				   (size_t)sp->width - len);
		jtext_add_z(t, digits);
		return;
	}
	snprintf(text, sizeof text, "%s%s", prefix, digits);
	add_aligned(t, sp, &(struct jstr){.p = text, .n = len},
		    sp->align ? sp->align : '>');
}

static const char *sign_of(const struct spec *sp, bool negative)
{
	return negative ? "-" : sp->sign == '+' ? "+" : sp->sign == ' ' ? " " : "";
}

/* Inserts `with` between groups of digits before the point. `digits` has room for them. */
static void group_digits(char *digits, char with, int every)
{
	char out[NUMBER_MAX];
	size_t whole = strspn(digits, "0123456789abcdefABCDEF"), n = 0;
	if (every == 3)
		whole = strspn(digits, "0123456789");
	for (size_t i = 0; digits[i] && n + 2 < sizeof out; i++) {
		if (i && i < whole && (whole - i) % (size_t)every == 0)
			out[n++] = with;
		out[n++] = digits[i];
	}
	out[n] = '\0';
	memcpy(digits, out, n + 1);
}

/* Makes the digits from the right. The value stays negative, because INT64_MIN has no
 * positive counterpart. */
static void add_int(struct jtext *t, const struct spec *sp, int64_t v)
{
	static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
	char digits[NUMBER_MAX], prefix[8];
	int base = sp->type == 'x' || sp->type == 'X' ? 16 : sp->type == 'o' ? 8 :
		   sp->type == 'b' ? 2 : 10;
	uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
	size_t n = sizeof digits - 1;
	digits[n] = '\0';
	do
		digits[--n] = (sp->type == 'X' ? upper : lower)[u % (unsigned)base];
	while ((u /= (unsigned)base));
	while ((int64_t)(sizeof digits - 1 - n) < sp->precision)
		digits[--n] = '0';
	memmove(digits, digits + n, sizeof digits - n);
	if (sp->group)
		group_digits(digits, sp->group, base == 10 ? 3 : 4);
	bool with_base = sp->alt && base != 10;
	snprintf(prefix, sizeof prefix, "%s%s%.1s", sign_of(sp, v < 0),
		 with_base ? "0" : "", with_base ? &sp->type : "");
	add_number(t, sp, prefix, digits);
}

/* Without a type: like repr, or with a precision like 'g' that keeps a point. */
static void float_digits(const struct spec *sp, double v, char *out, size_t room)
{
	char type = sp->type ? sp->type : 'g', fmt[8] = "%#.*g";
	int precision = sp->precision >= 0 ? (int)sp->precision : 6;
	if (type == '%') {
		v *= 100;
		type = 'f';
	}
	if (type == 'n')
		type = 'g';
	fmt[4] = type;
	if (!sp->alt)
		memmove(fmt + 1, fmt + 2, 4);
	snprintf(out, room, fmt, precision, v);
	if (!sp->type && isfinite(v) && !strpbrk(out, ".e"))
		snprintf(out + strlen(out), room - strlen(out), ".0");
	if (sp->type == '%')
		snprintf(out + strlen(out), room - strlen(out), "%%");
}

static void add_float(struct jtext *t, const struct spec *sp, double v)
{
	char digits[NUMBER_MAX];
	double size = fabs(v);
	if (sp->type || sp->precision >= 0) {
		float_digits(sp, size, digits, sizeof digits);
	} else {
		struct jtext *repr = jtext_new(t->rt, 32);
		jrepr_add_float(repr, size);
		snprintf(digits, sizeof digits, "%.*s", (int)repr->n, repr->p);
	}
	if (sp->group)
		group_digits(digits, sp->group, 3);
	add_number(t, sp, sign_of(sp, signbit(v) && !isnan(v)), digits);
}

static void add_string(struct jtext *t, const struct spec *sp, const struct jstr *s)
{
	struct jstr cut = *s;
	if (sp->precision >= 0) {
		size_t at = 0;
		uint32_t c;
		for (int64_t i = 0; i < sp->precision && at < s->n; i++)
			at += utf8_decode((struct str){s->p + at, s->n - at}, &c);
		cut.n = at;
	}
	add_aligned(t, sp, &cut, sp->align ? sp->align : '<');
}

static bool check_precision(struct jrt *rt, const struct spec *sp,
			    const struct jinja_value *v)
{
	if (v->kind != J_STRING && sp->precision > PRECISION_MAX)
		return jrt_limit(rt, "asks for too many digits");
	return true;
}

static struct jinja_value *bad_type(struct jrt *rt, char type,
				    const struct jinja_value *v)
{
	return jrt_fail(rt, "format '%c' does not fit a value of type '%s'", type,
			jval_type(v));
}

/* --- % ------------------------------------------------------------------- */

struct percent {
	struct jrt *rt;
	const struct jstr *fmt;
	size_t at;
	struct jinja_value *args;
	size_t used;      /* number of tuple items used, or 1 if the single value was used */
	struct jtext *t;
};

static struct jinja_value *next_arg(struct percent *p)
{
	bool is_tuple = p->args->kind == J_TUPLE;
	if (p->used >= (is_tuple ? p->args->l.n : 1))
		return jrt_fail(p->rt, "not enough arguments for format string");
	p->used++;
	return is_tuple ? p->args->l.items[p->used - 1] : p->args;
}

static char peek(const struct percent *p)
{
	return p->at < p->fmt->n ? p->fmt->p[p->at] : '\0';
}

/* Reads a number, or takes the next argument for a "*". */
static bool read_number(struct percent *p, int64_t *out)
{
	*out = 0;
	if (peek(p) == '*') {
		struct jinja_value *v = next_arg(p);
		p->at++;
		return v && jcall_int(p->rt, v, out);
	}
	while (isdigit((unsigned char)peek(p))) {
		*out = *out * 10 + (p->fmt->p[p->at++] - '0');
		if (*out > INT32_MAX)
			return jrt_limit(p->rt, "asks for too wide a field");
	}
	return true;
}

/* The value for %(name). */
static struct jinja_value *named_arg(struct percent *p)
{
	size_t from = ++p->at;
	int open = 1;
	for (; p->at < p->fmt->n; p->at++) {
		open += peek(p) == '(' ? 1 : peek(p) == ')' ? -1 : 0;
		if (open == 0)
			break;
	}
	struct str name = {p->fmt->p + from, p->at - from};
	if (open)
		return jrt_fail(p->rt, "incomplete format key");
	p->at++;
	if (p->args->kind != J_DICT)
		return jrt_fail(p->rt, "format requires a mapping");
	struct jinja_value *v = jdict_get_str(&p->args->d, name);
	p->used = 1;
	return v ? v : jrt_fail(p->rt, "the format's key '%.*s' is missing",
				(int)MIN(name.n, 60), name.p);
}

/* Reads all between the % (or its key) and the letter. If "*" takes a negative width,
 * that sets the flag `-` and the positive width. */
static bool read_flags(struct percent *p, struct spec *sp)
{
	bool zero = false;
	for (char c; is_char_of(c = peek(p), "-+ #0"); p->at++) {
		sp->align = c == '-' ? '<' : sp->align;
		sp->sign = c == '+' || (c == ' ' && sp->sign != '+') ? c : sp->sign;
		sp->alt |= c == '#';
		zero |= c == '0';
	}
	if (!read_number(p, &sp->width))
		return false;
	if (sp->width < 0) {
		sp->width = sp->width < -INT32_MAX ? 0 : -sp->width;
		sp->align = '<';
	}
	if (peek(p) == '.') {
		p->at++;
		if (!read_number(p, &sp->precision))
			return false;
	}
	while (is_char_of(peek(p), "hlL"))
		p->at++;
	sp->type = peek(p);
	if (zero && sp->align != '<' && sp->type && !is_char_of(sp->type, "src")) {
		sp->align = '=';
		sp->fill = STR("0");
	}
	return true;
}

static bool add_percent_int(struct percent *p, struct spec *sp, struct jinja_value *v)
{
	bool decimal = is_char_of(sp->type, "diu");
	if (v->kind == J_FLOAT && decimal) {
		if (!(fabs(v->f) < 0x1p63))
			return jrt_fail(p->rt, "this float is no 64-bit integer");
		v = jinja_int(p->rt->arena, (int64_t)v->f);
	}
	if (!jval_is_int(v))
		return bad_type(p->rt, sp->type, v);
	if (decimal)
		sp->type = 'd';
	add_int(p->t, sp, jval_int(v));
	return true;
}

static bool add_percent_text(struct percent *p, const struct spec *sp,
			     struct jinja_value *v)
{
	struct jtext *text = jtext_new(p->rt, 0);
	if (sp->type == 's') {
		jrepr_add_str(text, v);
	} else if (sp->type != 'c') {
		jrepr_add_repr(text, v, JOP_DEPTH);
	} else if (jval_is_int(v) && jval_int(v) >= 0 && jval_int(v) <= 0x10FFFF &&
		   (jval_int(v) < 0xD800 || jval_int(v) > 0xDFFF)) {
		jtext_add_cp(text, (uint32_t)jval_int(v), TRUST_TEMPLATE);
	} else if (v->kind == J_STRING && jval_len(v) == 1) {
		jtext_add_jstr(text, &v->s);
	} else {
		return jrt_fail(p->rt, "%%c requires int or char");
	}
	struct jinja_value *s = jtext_finish(text);
	struct spec right = *sp;
	if (!right.align)
		right.align = '>';
	if (s)
		add_string(p->t, &right, &s->s);
	return s != NULL;
}

/* Formats the conversion whose % is at p->at - 1. */
static bool add_conversion(struct percent *p)
{
	struct spec sp = {.precision = -1, .trust = jstr_trust_at(p->fmt, p->at - 1)};
	struct jinja_value *v = NULL;
	if (peek(p) == '(' && !(v = named_arg(p)))
		return false;
	if (!read_flags(p, &sp))
		return false;
	if (!sp.type)
		return jrt_fail(p->rt, "incomplete format");
	p->at++;
	if (sp.type == '%') {
		jtext_add_part(p->t, p->fmt, p->at - 1, p->at);
		return true;
	}
	if (!is_char_of(sp.type, "srdiuxXoeEfFgGc"))
		return jrt_fail(p->rt, "unsupported format character '%c'", sp.type);
	if (!v && !(v = next_arg(p)))
		return false;
	if (!check_precision(p->rt, &sp, v))
		return false;
	if (is_char_of(sp.type, "src"))
		return add_percent_text(p, &sp, v);
	if (is_char_of(sp.type, "diuxXo"))
		return add_percent_int(p, &sp, v);
	if (!jval_is_num(v))
		return bad_type(p->rt, sp.type, v);
	add_float(p->t, &sp, v->kind == J_FLOAT ? v->f : (double)jval_int(v));
	return true;
}

struct jinja_value *jformat_percent(struct jrt *rt, const struct jstr *fmt,
				    struct jinja_value *args)
{
	struct percent p = {rt, fmt, 0, args, 0, jtext_new(rt, fmt->n)};
	while (p.at < fmt->n) {
		const char *percent = memchr(fmt->p + p.at, '%', fmt->n - p.at);
		size_t end = percent ? (size_t)(percent - fmt->p) : fmt->n;
		jtext_add_part(p.t, fmt, p.at, end);
		p.at = end + 1;
		if (percent && (!add_conversion(&p) || !jrt_work(rt, 32)))
			return NULL;
	}
	bool all = args->kind == J_TUPLE ? p.used == args->l.n : p.used == 1;
	/* a value that %(name) can index counts as used, as in Python */
	if (!all && (args->kind == J_TUPLE || args->kind == J_STRING ||
		     (args->kind != J_UNDEFINED && args->kind < J_LIST) ||
		     args->kind > J_NAMESPACE))
		return jrt_fail(rt, "not all arguments converted during string "
				"formatting");
	return jtext_finish(p.t);
}

/* --- {} ------------------------------------------------------------------ */

struct braces {
	struct jrt *rt;
	const struct jargs *args;
	int next;          /* index of the argument for the next "{}" */
	bool is_auto, is_manual;
};

static bool add_fields(struct braces *b, struct jtext *t, const struct jstr *fmt,
		       int depth);

static struct jinja_value *find_arg(struct braces *b, struct str name)
{
	bool digits = true;
	int64_t i = 0;
	for (size_t k = 0; k < name.n; k++) {
		digits &= name.p[k] >= '0' && name.p[k] <= '9' && i < 100000;
		i = digits ? i * 10 + (name.p[k] - '0') : i;
	}
	if (!digits) {
		for (int k = 0; k < b->args->n_kw; k++)
			if (b->args->kw[k].value && str_eq(b->args->kw[k].name, name))
				return b->args->kw[k].value;
		return jrt_fail(b->rt, "the format's key '%.*s' is missing",
				(int)MIN(name.n, 60), name.p);
	}
	*(name.n ? &b->is_manual : &b->is_auto) = true;
	if (b->is_manual && b->is_auto)
		return jrt_fail(b->rt, "a format numbers all fields or none");
	if (!name.n)
		i = b->next++;
	return i < b->args->n_pos ? b->args->pos[i] :
	       jrt_fail(b->rt, "Replacement index %lld out of range for positional args "
			"tuple", (long long)i);
}

/* Finds name.attr[item]… */
static struct jinja_value *find_field(struct braces *b, struct str field)
{
	size_t at = 0;
	while (at < field.n && field.p[at] != '.' && field.p[at] != '[')
		at++;
	struct jinja_value *v = find_arg(b, (struct str){field.p, at});
	while (v && at < field.n) {
		bool is_item = field.p[at] == '[';
		size_t from = ++at;
		while (at < field.n && (is_item ? field.p[at] != ']' :
					field.p[at] != '.' && field.p[at] != '['))
			at++;
		struct str name = {field.p + from, at - from};
		if (is_item && at++ == field.n)
			return jrt_fail(b->rt, "expected ']' before end of string");
		int64_t i;
		if (!is_item)
			v = jeval_attr(b->rt, v, name);
		else if (name.n && isdigit((unsigned char)name.p[0]) &&
			 jformat_parse_int(b->rt, name, 10, &i))
			v = jeval_item(b->rt, v, jinja_int(b->rt->arena, i));
		else
			v = jeval_item(b->rt, v, jval_text(b->rt->arena, name));
	}
	return v;
}

static bool spec_number(struct jrt *rt, struct str s, size_t *at, int64_t *out)
{
	for (*out = 0; *at < s.n && isdigit((unsigned char)s.p[*at]); ++*at) {
		*out = *out * 10 + (s.p[*at] - '0');
		if (*out > INT32_MAX)
			return jrt_limit(rt, "asks for too wide a field");
	}
	return true;
}

/* Parses [[fill]align][sign][#][0][width][,][.precision][type]. */
static bool parse_spec(struct jrt *rt, struct str s, bool is_number, struct spec *sp)
{
	uint32_t c;
	size_t at = 0, len = s.n ? utf8_decode(s, &c) : 0;
	if (len < s.n && is_char_of(s.p[len], "<>=^")) {
		sp->fill = (struct str){s.p, len};
		sp->align = s.p[len];
		at = len + 1;
	} else if (s.n && is_char_of(s.p[0], "<>=^")) {
		sp->align = s.p[at++];
	}
	if (at < s.n && is_char_of(s.p[at], "+- "))
		sp->sign = s.p[at++];
	if (at < s.n && s.p[at] == '#')
		sp->alt = ++at;
	if (at < s.n && s.p[at] == '0') {
		at++;
		if (!sp->fill.n)
			sp->fill = STR("0");
		if (!sp->align && is_number)
			sp->align = '=';
	}
	if (!spec_number(rt, s, &at, &sp->width))
		return false;
	if (at < s.n && (s.p[at] == ',' || s.p[at] == '_'))
		sp->group = s.p[at++];
	if (at < s.n && s.p[at] == '.') {
		size_t digits = ++at;
		if (!spec_number(rt, s, &at, &sp->precision))
			return false;
		if (at == digits)
			return jrt_fail(rt, "Format specifier missing precision");
	}
	if (at < s.n)
		sp->type = s.p[at++];
	return at == s.n || jrt_fail(rt, "Invalid format specifier");
}

/* Formats v by its specification. The type of v decides which conversions are valid. */
static bool add_value(struct jrt *rt, struct jtext *t, struct spec *sp, struct str spec,
		      struct jinja_value *v)
{
	if (!check_precision(rt, sp, v))
		return false;
	if (spec.n == 0) {
		jrepr_add_str(t, v);
	} else if (v->kind == J_STRING) {
		if ((sp->type && sp->type != 's') || sp->align == '=' || sp->sign)
			return bad_type(rt, sp->type ? sp->type : '=', v);
		add_string(t, sp, &v->s);
	} else if (jval_is_int(v) && (!sp->type || is_char_of(sp->type, "dbxXon"))) {
		if (sp->precision >= 0)
			return jrt_fail(rt, "Precision not allowed in integer format");
		add_int(t, sp, jval_int(v));
	} else if (jval_is_int(v) && sp->type == 'c') {
		return bad_type(rt, 'c', v);
	} else if (jval_is_num(v) && (!sp->type || is_char_of(sp->type, "eEfFgGn%"))) {
		add_float(t, sp, v->kind == J_FLOAT ? v->f : (double)jval_int(v));
	} else {
		return bad_type(rt, sp->type ? sp->type : ' ', v);
	}
	return true;
}

/* Formats the field between { and }. */
static bool add_field(struct braces *b, struct jtext *t, const struct jstr *fmt,
		      size_t from, size_t to, int depth)
{
	size_t end = from;
	int brackets = 0;
	for (; end < to; end++) {
		brackets += fmt->p[end] == '[' ? 1 : fmt->p[end] == ']' ? -1 : 0;
		if (brackets <= 0 && (fmt->p[end] == '!' || fmt->p[end] == ':'))
			break;
	}
	struct jinja_value *v = find_field(b, (struct str){fmt->p + from, end - from});
	if (!v)
		return false;
	if (end < to && fmt->p[end] == '!') {
		char how = end + 1 < to ? fmt->p[end + 1] : '\0';
		struct jtext *text = jtext_new(b->rt, 0);
		if (how == 's')
			jrepr_add_str(text, v);
		else if (how == 'r')
			jrepr_add_repr(text, v, JOP_DEPTH);
		else
			return jrt_fail(b->rt, "Unknown conversion specifier");
		if (!(v = jtext_finish(text)))
			return false;
		end += 2;
		if (end < to && fmt->p[end] != ':')
			return jrt_fail(b->rt, "expected ':' after conversion specifier");
	}
	/* the specification may hold fields itself: {:{width}} */
	struct jtext *inner = jtext_new(b->rt, 0);
	struct jstr raw = {.p = fmt->p + end + 1, .n = end < to ? to - end - 1 : 0};
	if (raw.n && !add_fields(b, inner, &raw, depth - 1))
		return false;
	struct str spec = {inner->p, inner->n};
	struct spec sp = {.precision = -1, .trust = jstr_trust_at(fmt, from - 1)};
	return !inner->failed && parse_spec(b->rt, spec, jval_is_num(v), &sp) &&
	       add_value(b->rt, t, &sp, spec, v);
}

static bool add_fields(struct braces *b, struct jtext *t, const struct jstr *fmt,
		       int depth)
{
	size_t at = 0;
	if (depth == 0)
		return jrt_fail(b->rt, "Max string recursion exceeded");
	while (at < fmt->n) {
		size_t plain = at;
		while (at < fmt->n && fmt->p[at] != '{' && fmt->p[at] != '}')
			at++;
		jtext_add_part(t, fmt, plain, at);
		if (at == fmt->n)
			break;
		if (at + 1 < fmt->n && fmt->p[at + 1] == fmt->p[at]) { /* {{ or }} stands for one
								        * brace */
			jtext_add_part(t, fmt, at, at + 1);
			at += 2;
			continue;
		}
		if (fmt->p[at] == '}')
			return jrt_fail(b->rt, "Single '}' encountered in format string");
		size_t from = ++at;
		for (int open = 1; at < fmt->n; at++) {
			open += fmt->p[at] == '{' ? 1 : fmt->p[at] == '}' ? -1 : 0;
			if (open == 0)
				break;
		}
		if (at == fmt->n)
			return jrt_fail(b->rt, "Single '{' encountered in format string");
		if (!add_field(b, t, fmt, from, at, depth) || !jrt_work(b->rt, 32))
			return false;
		at++;
	}
	return true;
}

struct jinja_value *jformat_braces(struct jrt *rt, const struct jstr *fmt,
				   const struct jargs *args)
{
	struct braces b = {.rt = rt, .args = args};
	struct jtext *t = jtext_new(rt, fmt->n);
	return jrt_work(rt, fmt->n) && add_fields(&b, t, fmt, 2) ? jtext_finish(t) : NULL;
}
