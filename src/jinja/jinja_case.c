/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's str rules for characters: white space, letters, case. utf8proc provides the
 * tables. Each character changes to one character: upper does not make SS of a sharp s.
 * Templates change the case of roles, types and keys.
 */
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "jinja/jinja_rt.h"

bool jcase_is_space(uint32_t c)
{
	if (c < 0x80)
		return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
	return c == 0x85 || c == 0xA0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202F || c == 0x205F || c == 0x3000;
}

static utf8proc_category_t category(uint32_t c)
{
	return c == UTF8_BAD ? UTF8PROC_CATEGORY_CN
			     : utf8proc_category((utf8proc_int32_t)c);
}

static bool is_alpha(uint32_t c)
{
	if (c < 0x80)
		return (c | 32) >= 'a' && (c | 32) <= 'z';
	utf8proc_category_t k = category(c);
	return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool jcase_is_alnum(uint32_t c)
{
	utf8proc_category_t k = category(c);
	return is_alpha(c) ||
	       (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool jcase_is_printable(uint32_t c)
{
	if (c < 0x80)
		return c >= 0x20 && c < 0x7F;
	switch (category(c)) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
	case UTF8PROC_CATEGORY_ZS:
		return false;
	default:
		return true;
	}
}

/* 1 for upper or title case, -1 for lower case, 0 for none. */
static int case_of(uint32_t c)
{
	if (c < 0x80)
		return c >= 'A' && c <= 'Z' ? 1 : c >= 'a' && c <= 'z' ? -1 : 0;
	switch (category(c)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LT: return 1;
	case UTF8PROC_CATEGORY_LL: return -1;
	default: return c == 0xAA || c == 0xBA ? -1 : 0;
	}
}

void jcase_add(struct jtext *t, const struct jstr *s, size_t from, size_t to,
	       enum jcase_to to_case)
{
	bool was_cased = false;
	for (size_t at = from, len; at < to; at += len) {
		uint32_t c;
		len = utf8_decode((struct str){s->p + at, to - at}, &c);
		enum trust trust = jstr_trust_at(s, at);
		if (c == UTF8_BAD) {
			jtext_add(t, (struct str){s->p + at, len}, trust);
			was_cased = false;
			continue;
		}
		bool title = (to_case == CASE_CAPITALIZE && at == from) ||
			     (to_case == CASE_TITLE && !was_cased);
		was_cased = case_of(c) != 0;
		utf8proc_int32_t (*change)(utf8proc_int32_t) =
			title ? utf8proc_totitle :
			to_case == CASE_UPPER ? utf8proc_toupper : utf8proc_tolower;
		jtext_add_cp(t, (uint32_t)change((utf8proc_int32_t)c), trust);
	}
}

struct jinja_value *jcase_change(struct jrt *rt, const struct jstr *s,
				 enum jcase_to to_case)
{
	if (!jrt_work(rt, s->n))
		return NULL;
	struct jtext *t = jtext_new(rt, s->n);
	jcase_add(t, s, 0, s->n, to_case);
	return jtext_finish(t);
}

static bool is_stripped(uint32_t c, struct str self, const struct jstr *chars)
{
	if (!chars)
		return c != UTF8_BAD && jcase_is_space(c);
	/* compare bytes, so that `chars` may also name malformed bytes */
	for (size_t at = 0, len; at < chars->n; at += len) {
		uint32_t x;
		len = utf8_decode((struct str){chars->p + at, chars->n - at}, &x);
		if (str_eq((struct str){chars->p + at, len}, self))
			return true;
	}
	return false;
}

void jcase_strip(const struct jstr *s, const struct jstr *chars, bool left,
		 bool right, size_t *out_from, size_t *out_to)
{
	size_t from = 0, to = s->n;
	uint32_t c;
	while (left && from < to) {
		size_t len = utf8_decode((struct str){s->p + from, to - from}, &c);
		if (!is_stripped(c, (struct str){s->p + from, len}, chars))
			break;
		from += len;
	}
	while (right && to > from) {
		size_t at = to - 1;
		while (at > from && to - at < 4 &&
		       ((unsigned char)s->p[at] & 0xC0) == 0x80)
			at--;
		size_t len = utf8_decode((struct str){s->p + at, to - at}, &c);
		if (at + len != to) { /* malformed: take it byte by byte */
			at = to - 1;
			c = UTF8_BAD;
		}
		if (!is_stripped(c, (struct str){s->p + at, to - at}, chars))
			break;
		to = at;
	}
	*out_from = from;
	*out_to = to;
}
