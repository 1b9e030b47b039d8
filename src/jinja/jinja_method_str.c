/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of str. Every piece of a string keeps its trust marks and shares the string's
 * bytes if possible. Positions are in characters for the template and in bytes inside.
 * Searches run on bytes, which gives the same result in UTF-8.
 *
 * A method counts its cost as steps before it runs (jrt_work). No template can thus keep
 * a thread busy with a few nodes over a long text.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "jinja/jinja_op.h"

#define METHOD(name) JNATIVE(do_##name)

/* Reads an argument that must be a string, or absent or none: then *out is NULL. */
static bool maybe_str(struct jrt *rt, const struct jinja_value *v,
		      const struct jstr **out)
{
	*out = NULL;
	return !v || v->kind == J_NONE || (*out = jcall_str(rt, v));
}

static struct str view(const struct jstr *s)
{
	return (struct str){s->p, s->n};
}

/* --- case and white space ------------------------------------------------ */

METHOD(upper)
{
	return jcase_change(rt, &self->s, CASE_UPPER);
}

METHOD(lower)
{
	return jcase_change(rt, &self->s, CASE_LOWER);
}

METHOD(title)
{
	return jcase_change(rt, &self->s, CASE_TITLE);
}

METHOD(capitalize)
{
	return jcase_change(rt, &self->s, CASE_CAPITALIZE);
}

static struct jinja_value *strip(struct jrt *rt, struct jinja_value *self,
				 struct jinja_value *chars_or_null, bool left, bool right)
{
	const struct jstr *chars;
	size_t from, to;
	if (!maybe_str(rt, chars_or_null, &chars) ||
	    !jrt_work(rt, self->s.n / 8 * (chars ? chars->n : 1)))
		return NULL;
	jcase_strip(&self->s, chars, left, right, &from, &to);
	return jstr_slice(rt, &self->s, from, to);
}

METHOD(strip)
{
	return strip(rt, self, v[0], true, true);
}

METHOD(lstrip)
{
	return strip(rt, self, v[0], true, false);
}

METHOD(rstrip)
{
	return strip(rt, self, v[0], false, true);
}

METHOD(removeprefix)
{
	const struct jstr *s = &self->s, *fix = jcall_str(rt, v[0]);
	if (!fix)
		return NULL;
	return jstr_slice(rt, s, str_starts(view(s), view(fix)) ? fix->n : 0, s->n);
}

METHOD(removesuffix)
{
	const struct jstr *s = &self->s, *fix = jcall_str(rt, v[0]);
	if (!fix)
		return NULL;
	return jstr_slice(rt, s, 0, s->n - (str_ends(view(s), view(fix)) ? fix->n : 0));
}

/* --- splitting ----------------------------------------------------------- */

static bool add_piece(struct jrt *rt, struct jinja_value *list, const struct jstr *s,
		      size_t from, size_t to)
{
	jval_seq_add(rt->arena, list, jstr_slice(rt, s, from, to));
	return jrt_room(rt, 0) && jrt_work(rt, 32);
}

/* Finds the next run of non-space characters. False: there is none. */
static bool next_word(const struct jstr *s, size_t *at, size_t *out_from)
{
	uint32_t c;
	size_t to;
	struct jstr rest = {.p = s->p + *at, .n = s->n - *at};
	jcase_strip(&rest, NULL, true, false, out_from, &to);
	*out_from += *at;
	*at = *out_from;
	while (*at < s->n) {
		size_t len = utf8_decode((struct str){s->p + *at, s->n - *at}, &c);
		if (c != UTF8_BAD && jcase_is_space(c))
			break;
		*at += len;
	}
	return *at > *out_from;
}

static struct jinja_value *split_words(struct jrt *rt, const struct jstr *s, int64_t max)
{
	struct jinja_value *out = jinja_list(rt->arena);
	size_t at = 0, from;
	while (next_word(s, &at, &from)) {
		if (max-- == 0) /* the rest of the text, with the white space at its end */
			at = s->n;
		if (!add_piece(rt, out, s, from, at))
			return NULL;
		if (at == s->n)
			break;
	}
	return out;
}

static struct jinja_value *split_by(struct jrt *rt, const struct jstr *s,
				    const struct jstr *sep, int64_t max)
{
	struct jinja_value *out = jinja_list(rt->arena);
	size_t from = 0;
	ptrdiff_t at;
	while (max-- != 0 && (at = str_find(view(s), view(sep), from)) >= 0) {
		if (!add_piece(rt, out, s, from, (size_t)at))
			return NULL;
		from = (size_t)at + sep->n;
	}
	return add_piece(rt, out, s, from, s->n) ? out : NULL;
}

/* Offset of the last `needle` in the first `to` bytes; -1: not found. */
static ptrdiff_t find_last(struct str s, struct str needle, size_t to)
{
	if (to < needle.n)
		return -1;
	for (size_t at = to - needle.n + 1; at-- > 0;)
		if (memcmp(s.p + at, needle.p, needle.n) == 0)
			return (ptrdiff_t)at;
	return -1;
}

static struct jinja_value *rsplit_by(struct jrt *rt, const struct jstr *s,
				     const struct jstr *sep, int64_t max)
{
	struct jinja_value *out = jinja_list(rt->arena);
	size_t end = s->n;
	ptrdiff_t at;
	while (max-- != 0 && (at = find_last(view(s), view(sep), end)) >= 0) {
		if (!add_piece(rt, out, s, (size_t)at + sep->n, end))
			return NULL;
		end = (size_t)at;
	}
	return add_piece(rt, out, s, 0, end) ? jval_reverse(out) : NULL;
}

/* Without a separator, runs of white space separate the words, and those at both ends are
 * ignored. */
static struct jinja_value *split(struct jrt *rt, struct jinja_value *self,
				 struct jinja_value **v, bool from_right)
{
	const struct jstr *sep;
	int64_t max = -1;
	if (!maybe_str(rt, v[0], &sep) || !jcall_int(rt, v[1], &max) ||
	    !jrt_work(rt, self->s.n * (from_right && sep ? 1 + sep->n / 8 : 1)))
		return NULL;
	if (sep && sep->n == 0)
		return jrt_fail(rt, "empty separator");
	if (max < 0)
		max = -1;
	if (!sep && from_right && max >= 0)
		return jrt_fail(rt, "rsplit with maxsplit needs a separator");
	if (!sep)
		return split_words(rt, &self->s, max);
	return from_right ? rsplit_by(rt, &self->s, sep, max)
			  : split_by(rt, &self->s, sep, max);
}

METHOD(split)
{
	return split(rt, self, v, false);
}

METHOD(rsplit)
{
	return split(rt, self, v, true);
}

static bool ends_line(uint32_t c)
{
	return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
	       c == 0x2028 || c == 0x2029;
}

/* Splits at every line end that Unicode knows. A line end at the end of the text adds no
 * empty line. */
METHOD(splitlines)
{
	const struct jstr *s = &self->s;
	struct jinja_value *out = jinja_list(rt->arena);
	bool keep = v[0] && jval_truth(v[0]);
	size_t from = 0, at = 0;
	if (!jrt_work(rt, s->n))
		return NULL;
	while (at < s->n) {
		uint32_t c;
		size_t end = at;
		at += utf8_decode((struct str){s->p + at, s->n - at}, &c);
		if (!ends_line(c))
			continue;
		if (c == '\r' && at < s->n && s->p[at] == '\n')
			at++;
		if (!add_piece(rt, out, s, from, keep ? at : end))
			return NULL;
		from = at;
	}
	return from == s->n || add_piece(rt, out, s, from, s->n) ? out : NULL;
}

/* --- searching ----------------------------------------------------------- */

/* The character index of the needle v[0]; -1: absent. False: failed. */
static bool find_in(struct jrt *rt, struct jinja_value *self, struct jinja_value **v,
		    bool last, int64_t *out)
{
	const struct jstr *s = &self->s, *needle = jcall_str(rt, v[0]);
	*out = -1;
	if (!needle || !jrt_work(rt, s->n * (last ? 1 + needle->n / 8 : 1)))
		return false;
	ptrdiff_t at = last ? find_last(view(s), view(needle), s->n) :
		       str_find(view(s), view(needle), 0);
	if (at >= 0)
		*out = (int64_t)utf8_count((struct str){s->p, (size_t)at});
	return true;
}

METHOD(find)
{
	int64_t at;
	return find_in(rt, self, v, false, &at) ? jinja_int(rt->arena, at) : NULL;
}

METHOD(rfind)
{
	int64_t at;
	return find_in(rt, self, v, true, &at) ? jinja_int(rt->arena, at) : NULL;
}

METHOD(count)
{
	const struct jstr *s = &self->s, *needle = jcall_str(rt, v[0]);
	if (!needle || !jrt_work(rt, s->n))
		return NULL;
	int64_t n = 0;
	if (needle->n == 0)
		return jinja_int(rt->arena, (int64_t)utf8_count(view(s)) + 1);
	for (ptrdiff_t at = 0; (at = str_find(view(s), view(needle), (size_t)at)) >= 0; n++)
		at += (ptrdiff_t)needle->n;
	return jinja_int(rt->arena, n);
}

/* True if s begins (or ends) with one of the strings in v[0]. */
static struct jinja_value *has_end(struct jrt *rt, struct jinja_value *self,
				   struct jinja_value **v,
				   bool (*is)(struct str, struct str))
{
	size_t n = v[0]->kind == J_TUPLE ? v[0]->l.n : 1;
	for (size_t i = 0; i < n; i++) {
		const struct jstr *fix = jcall_str(rt, v[0]->kind == J_TUPLE ?
						   v[0]->l.items[i] : v[0]);
		if (!fix)
			return NULL;
		if (is(view(&self->s), view(fix)))
			return &jval_true;
	}
	return &jval_false;
}

METHOD(startswith)
{
	return has_end(rt, self, v, str_starts);
}

METHOD(endswith)
{
	return has_end(rt, self, v, str_ends);
}

/* --- building ------------------------------------------------------------ */

METHOD(replace)
{
	const struct jstr *s = &self->s, *old = jcall_str(rt, v[0]);
	const struct jstr *new = old ? jcall_str(rt, v[1]) : NULL;
	int64_t max = -1;
	if (!new || !jcall_int(rt, v[2], &max) || !jrt_work(rt, s->n))
		return NULL;
	struct jtext *t = jtext_new(rt, 0);
	size_t from = 0;
	while (max-- != 0 && !t->failed && jrt_work(rt, 16)) {
		ptrdiff_t at = str_find(view(s), view(old), from);
		if (at < 0)
			break;
		jtext_add_part(t, s, from, (size_t)at);
		jtext_add_jstr(t, new);
		from = (size_t)at + old->n;
		if (old->n)
			continue;
		/* an empty `old` matches before each character and at the end */
		if (from == s->n)
			return jtext_finish(t);
		uint32_t c;
		size_t len = utf8_decode((struct str){s->p + from, s->n - from}, &c);
		jtext_add_part(t, s, from, from + len);
		from += len;
	}
	if (from == 0) /* nothing was replaced: return self without a copy */
		return jrt_failed(rt) ? NULL : self;
	jtext_add_part(t, s, from, s->n);
	return jtext_finish(t);
}

METHOD(join)
{
	struct jinja_value *item;
	struct jiter it;
	struct jtext *t = jtext_new(rt, 0);
	if (!jiter_init(rt, &it, v[0]))
		return NULL;
	for (int64_t i = 0; (item = jiter_next(rt, &it)); i++) {
		if (item->kind != J_STRING)
			return jrt_fail(rt, "sequence item %lld: expected str instance, "
					"%s found", (long long)i, jval_type(item));
		if (i)
			jtext_add_jstr(t, &self->s);
		jtext_add_jstr(t, &item->s);
		if (!jrt_work(rt, 16))
			return NULL;
	}
	return jtext_finish(t);
}

METHOD(format)
{
	return jformat_braces(rt, &self->s, args);
}

const struct jbuiltin jmethod_strs[] = {
	{"capitalize", "", do_capitalize},
	{"count", "sub", do_count},
	{"endswith", "suffix", do_endswith},
	{"find", "sub", do_find},
	{"format", "*", do_format},
	{"join", "iterable", do_join},
	{"lower", "", do_lower},
	{"lstrip", "chars?", do_lstrip},
	{"removeprefix", "prefix", do_removeprefix},
	{"removesuffix", "suffix", do_removesuffix},
	{"replace", "old new count?", do_replace},
	{"rfind", "sub", do_rfind},
	{"rsplit", "sep? maxsplit?", do_rsplit},
	{"rstrip", "chars?", do_rstrip},
	{"split", "sep? maxsplit?", do_split},
	{"splitlines", "keepends?", do_splitlines},
	{"startswith", "prefix", do_startswith},
	{"strip", "chars?", do_strip},
	{"title", "", do_title},
	{"upper", "", do_upper},
	{NULL, NULL, NULL},
};
