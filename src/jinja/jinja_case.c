/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's str rules for characters: white space, letters, digits, case. utf8proc
 * provides the tables. It lacks mappings to more than one character; those are listed
 * below. Greek letters with iota subscript keep their simple mapping.
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

bool jcase_is_alpha(uint32_t c)
{
	if (c < 0x80)
		return (c | 32) >= 'a' && (c | 32) <= 'z';
	utf8proc_category_t k = category(c);
	return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool jcase_is_digit(uint32_t c)
{
	if (c < 0x80)
		return c >= '0' && c <= '9';
	/* Superscripts, subscripts and circled digits are digits, but not decimal digits. */
	return category(c) == UTF8PROC_CATEGORY_ND || c == 0xB2 || c == 0xB3 ||
	       c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
	       (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool jcase_is_alnum(uint32_t c)
{
	utf8proc_category_t k = category(c);
	return jcase_is_alpha(c) ||
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

int jcase_of(uint32_t c)
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

/* Upper-case and title-case mappings to more than one character. Source: Unicode
 * SpecialCasing, the unconditional rows for Latin and Armenian. */
static const struct {
	uint32_t from;
	const char *upper, *title;
} special[] = {
	{0xDF, "SS", "Ss"}, {0x149, "ʼN", "ʼN"}, {0x1F0, "J̌", "J̌"},
	{0x587, "ԵՒ", "Եւ"}, {0x1E96, "H̱", "H̱"}, {0x1E97, "T̈", "T̈"},
	{0x1E98, "W̊", "W̊"}, {0x1E99, "Y̊", "Y̊"}, {0x1E9A, "Aʾ", "Aʾ"},
	{0xFB00, "FF", "Ff"}, {0xFB01, "FI", "Fi"}, {0xFB02, "FL", "Fl"},
	{0xFB03, "FFI", "Ffi"}, {0xFB04, "FFL", "Ffl"}, {0xFB05, "ST", "St"},
	{0xFB06, "ST", "St"},
};

static bool add_special(struct jtext *t, uint32_t c, bool title, enum trust trust)
{
	for (size_t i = 0; i < ARRAY_LEN(special); i++) {
		if (special[i].from != c)
			continue;
		jtext_add(t, str_of(title ? special[i].title : special[i].upper),
			  trust);
		return true;
	}
	return false;
}

/* A Greek sigma at the end of a word has a lower case of its own. */
static bool is_final_sigma(const struct jstr *s, size_t at, size_t len)
{
	uint32_t c;
	size_t back = at;
	while (back > 0 && ((unsigned char)s->p[--back] & 0xC0) == 0x80)
		;
	if (at == 0)
		return false;
	utf8_decode((struct str){s->p + back, at - back}, &c);
	if (!jcase_is_alpha(c))
		return false;
	if (at + len >= s->n)
		return true;
	utf8_decode((struct str){s->p + at + len, s->n - at - len}, &c);
	return !jcase_is_alpha(c);
}

static void add_lower(struct jtext *t, const struct jstr *s, size_t at, size_t len,
		      uint32_t c, enum trust trust)
{
	if (c == 0x3A3 && is_final_sigma(s, at, len))
		jtext_add_cp(t, 0x3C2, trust);
	else if (c == 0x130)
		jtext_add(t, STR("i\xCC\x87"), trust);
	else
		jtext_add_cp(t, (uint32_t)utf8proc_tolower((int32_t)c), trust);
}

static void add_upper(struct jtext *t, uint32_t c, bool title, enum trust trust)
{
	if (c >= 0x80 && add_special(t, c, title, trust))
		return;
	jtext_add_cp(t, (uint32_t)(title ? utf8proc_totitle((int32_t)c)
					 : utf8proc_toupper((int32_t)c)), trust);
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
		bool upper = to_case == CASE_UPPER ||
			     (to_case == CASE_SWAP && jcase_of(c) < 0);
		bool keep = to_case == CASE_SWAP && jcase_of(c) == 0;
		was_cased = jcase_of(c) != 0;
		if (keep)
			jtext_add_cp(t, c, trust);
		else if (title || upper)
			add_upper(t, c, title, trust);
		else
			add_lower(t, s, at, len, c, trust);
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
