/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters on text. Each one takes str() of its value first, as Jinja does.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "jinja/jinja_op.h"

#define FILTER(name) JNATIVE(filter_##name)

/* Defines a filter whose body sees s, the text of its value. */
#define TEXT_FILTER(name) \
	static struct jinja_value *text_##name(struct jrt *rt, struct jinja_value *self, \
		const struct jstr *s, struct jinja_value **v, const struct jargs *args); \
	FILTER(name) \
	{ \
		struct jinja_value *text = jrepr_str(rt, self); \
		if (!text || !jrt_work(rt, text->s.n)) \
			return NULL; \
		return text_##name(rt, text, &text->s, v, args); \
	} \
	static struct jinja_value *text_##name(struct jrt *rt, struct jinja_value *self, \
		const struct jstr *s, struct jinja_value **v, const struct jargs *args)

static size_t next_char(const struct jstr *s, size_t at, uint32_t *out_cp)
{
	return utf8_decode((struct str){s->p + at, s->n - at}, out_cp);
}

TEXT_FILTER(upper)
{
	return jcase_change(rt, s, CASE_UPPER);
}

TEXT_FILTER(lower)
{
	return jcase_change(rt, s, CASE_LOWER);
}

TEXT_FILTER(capitalize)
{
	return jcase_change(rt, s, CASE_CAPITALIZE);
}

/* A new word begins after -, white space, (, {, [ and < only. */
static bool parts_words(uint32_t c)
{
	return (c < 0x80 && is_char_of((int)c, "-({[<")) ||
	       (c != UTF8_BAD && jcase_is_space(c));
}

TEXT_FILTER(title)
{
	struct jtext *t = jtext_new(rt, s->n);
	for (size_t at = 0; at < s->n;) {
		uint32_t c;
		size_t end = at, first;
		bool parting = (next_char(s, at, &c), parts_words(c));
		while (end < s->n) {
			size_t len = next_char(s, end, &c);
			if (parts_words(c) != parting)
				break;
			end += len;
		}
		if (parting) {
			jtext_add_part(t, s, at, end);
		} else {
			first = at + next_char(s, at, &c);
			jcase_add(t, s, at, first, CASE_UPPER);
			jcase_add(t, s, first, end, CASE_LOWER);
		}
		at = end;
	}
	return jtext_finish(t);
}

TEXT_FILTER(trim)
{
	const struct jstr *chars = NULL;
	size_t from, to;
	if (v[0] && v[0]->kind != J_NONE && !(chars = jcall_str(rt, v[0])))
		return NULL;
	jcase_strip(s, chars, true, true, &from, &to);
	return jstr_slice(rt, s, from, to);
}

/* Applies str.replace with the texts of both arguments. */
TEXT_FILTER(replace)
{
	struct jinja_value *pos[3] = {jrepr_str(rt, v[0]), jrepr_str(rt, v[1]), v[2]};
	if (!pos[0] || !pos[1])
		return NULL;
	bool counted = v[2] && v[2]->kind != J_NONE;
	return jcall_native(rt, jcall_find(jmethod_strs, STR("replace")), self,
			    &(struct jargs){pos, counted ? 3 : 2, NULL, 0});
}

TEXT_FILTER(format)
{
	if (args->n_pos && args->n_kw)
		return jrt_fail(rt, "can't handle positional and keyword arguments "
				"at the same time");
	struct jinja_value *values = args->n_kw ? jinja_dict(rt->arena) :
				     jval_seq(rt->arena, J_TUPLE, (size_t)args->n_pos);
	jcall_put_kws(rt, args, &values->d);
	for (int i = 0; i < args->n_pos; i++)
		jval_seq_add(rt->arena, values, args->pos[i]);
	return jformat_percent(rt, s, values);
}

/* Empty lines stay empty unless `blank` is set. The first line is not indented unless
 * `first` is set. */
FILTER(indent)
{
	const struct jstr *s = jcall_str(rt, self); /* no str() here: Jinja has none either */
	if (!s || !jrt_work(rt, s->n))
		return NULL;
	struct jinja_value *width = v[0];
	struct jtext *by = jtext_new(rt, 0);
	int64_t n = 4;
	if (width && width->kind == J_STRING)
		jtext_add_jstr(by, &width->s);
	else if (!jcall_int(rt, width, &n))
		return NULL;
	else
		jtext_fill(by, STR(" "), TRUST_TEMPLATE, n > 0 ? (size_t)n : 0);
	struct jinja_value *indent = jtext_finish(by), *zero = &jval_false;
	/* With one more newline, a newline at the end gives an empty last line. */
	struct jstr newline = {.p = "\n", .n = 1};
	struct jinja_value *ended = indent ? jstr_concat(rt, s, &newline) : NULL;
	struct jinja_value *lines = ended ? jcall_native(rt,
		jcall_find(jmethod_strs, STR("splitlines")), ended,
		&(struct jargs){&zero, 1, NULL, 0}) : NULL;
	if (!lines)
		return NULL;
	bool first = v[1] && jval_truth(v[1]), blank = v[2] && jval_truth(v[2]);
	struct jtext *t = jtext_new(rt, 0);
	for (size_t i = 0; i < lines->l.n; i++) {
		const struct jstr *line = &lines->l.items[i]->s;
		if (i)
			jtext_add_z(t, "\n");
		if (i ? blank || line->n > 0 : first)
			jtext_add_jstr(t, &indent->s);
		jtext_add_jstr(t, line);
	}
	return jtext_finish(t);
}

TEXT_FILTER(escape)
{
	struct jtext *t = jtext_new(rt, s->n);
	for (size_t at = 0, plain; at < s->n;) {
		plain = at;
		while (plain < s->n && !memchr("&<>'\"", s->p[plain], 5))
			plain++;
		jtext_add_part(t, s, at, plain);
		at = plain;
		if (at == s->n)
			break;
		char c = s->p[at];
		jtext_add(t, str_of(c == '&' ? "&amp;" : c == '<' ? "&lt;" :
				    c == '>' ? "&gt;" : c == '"' ? "&#34;" : "&#39;"),
			  jstr_trust_at(s, at));
		at++;
	}
	return jtext_finish(t);
}

TEXT_FILTER(safe)
{
	return self;
}

const struct jbuiltin jfilter_strs[] = {
	{"capitalize", "", filter_capitalize},
	{"e", "", filter_escape},
	{"escape", "", filter_escape},
	{"format", "*", filter_format},
	{"indent", "width? first? blank?", filter_indent},
	{"lower", "", filter_lower},
	{"replace", "old new count?", filter_replace},
	{"safe", "", filter_safe},
	{"title", "", filter_title},
	{"trim", "chars?", filter_trim},
	{"upper", "", filter_upper},
	{NULL, NULL, NULL},
};
