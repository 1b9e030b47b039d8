/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson handles each character of a text in several functions. This reader tests each
 * character of a string once, and copies whole runs between two escapes. Equal integers of
 * a long list, such as token ids, share one value with many references.
 */
#include "json/json_fast.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "json/json_digits.h"

#define DEPTH_MAX 128 /* most nesting; deeper texts go to jansson */
#define DIGITS_MAX 18 /* an integer of so many digits fits 64 bits */
#define LONG_LIST 1024
#define INTEGERS  65536 /* slots for remembered integers; a power of two */

struct fast {
	const char *p, *end;
	int depth;
	struct buf plain; /* a string with its escapes replaced */
	/* the last integer of each slot, borrowed from the tree; NULL: no long list */
	json_t **integers;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Skips blanks and returns the next character; NUL at the end. */
static char json_fast_look(struct fast *f)
{
	while (f->p < f->end && is_space(*f->p))
		f->p++;
	return f->p < f->end ? *f->p : '\0';
}

static bool json_fast_take(struct fast *f, char c)
{
	if (json_fast_look(f) != c)
		return false;
	f->p++;
	return true;
}

/* --- strings ---------------------------------------------------------------------- */

/* The end of a run of plain characters: up to a quote, a backslash or a control character. */
static const char *run_end(const char *p, const char *end)
{
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
		p++;
	return p;
}

/* Reads the four digits of \uXXXX; -1: they are no hex digits. */
static int32_t hex4(struct fast *f)
{
	int32_t v = 0;
	if (f->end - f->p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(*f->p++);
		if (digit < 0)
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

/* Reads the code behind \u. False: half a surrogate pair, or no hex digits. */
static bool read_code(struct fast *f)
{
	char utf8[4];
	int32_t cp = hex4(f);
	if (cp >= 0xD800 && cp < 0xDC00) {
		if (f->end - f->p < 2 || f->p[0] != '\\' || f->p[1] != 'u')
			return false;
		f->p += 2;
		int32_t low = hex4(f);
		if (low < 0xDC00 || low > 0xDFFF)
			return false;
		cp = 0x10000 + (cp - 0xD800) * 0x400 + (low - 0xDC00);
	} else if (cp < 0 || (cp >= 0xDC00 && cp <= 0xDFFF)) {
		return false;
	}
	buf_add(&f->plain, utf8, utf8_encode((uint32_t)cp, utf8));
	return true;
}

/* Reads what follows a backslash. */
static bool read_escape(struct fast *f)
{
	static const char names[] = "\"\\/bfnrt", stand_for[] = "\"\\/\b\f\n\r\t";
	char c = f->p < f->end ? *f->p++ : '\0';
	if (c == 'u')
		return read_code(f);
	const char *at = c ? strchr(names, c) : NULL;
	if (at)
		buf_add_c(&f->plain, stand_for[at - names]);
	return at != NULL;
}

/* *out: a view of the text or of f->plain, valid until the next string. */
static bool read_string(struct fast *f, struct str *out)
{
	if (!json_fast_take(f, '"'))
		return false;
	const char *from = f->p;
	f->p = run_end(f->p, f->end);
	*out = (struct str){from, (size_t)(f->p - from)};
	if (f->p < f->end && *f->p == '"') {
		f->p++;
		return utf8_check(*out) < 0;
	}
	buf_clear(&f->plain);
	buf_add_str(&f->plain, *out);
	while (f->p < f->end && *f->p == '\\') {
		f->p++;
		if (!read_escape(f))
			return false;
		from = f->p;
		f->p = run_end(f->p, f->end);
		buf_add(&f->plain, from, (size_t)(f->p - from));
	}
	*out = buf_str(&f->plain);
	return f->p < f->end && *f->p++ == '"' && utf8_check(*out) < 0;
}

/* --- values ----------------------------------------------------------------------- */

static json_t *read_value(struct fast *f);

static json_t *integer_of(struct fast *f, int64_t v)
{
	json_t **slot = f->integers ? &f->integers[(uint64_t)v % INTEGERS] : NULL;
	if (slot && *slot && json_integer_value(*slot) == v)
		return json_incref(*slot);
	json_t *new = json_integer(v);
	if (slot)
		*slot = new;
	return new;
}

static bool goes_on(char c)
{
	return is_digit(c) || c == '.' || c == 'e' || c == 'E';
}

static json_t *read_number(struct fast *f)
{
	const char *from = f->p, *digits = from + (*from == '-');
	int64_t v = 0;
	for (f->p = digits; f->p < f->end && is_digit(*f->p) && f->p - digits < DIGITS_MAX; f->p++)
		v = v * 10 + (*f->p - '0');
	bool has_zero = f->p - digits > 1 && *digits == '0';
	if (f->p == digits || has_zero)
		return NULL;
	if (f->p == f->end || !goes_on(*f->p))
		return integer_of(f, *from == '-' ? -v : v);
	while (f->p < f->end && (goes_on(*f->p) || *f->p == '+' || *f->p == '-'))
		f->p++;
	return json_digits_new((struct str){from, (size_t)(f->p - from)});
}

static json_t *read_word(struct fast *f, struct str word, json_t *v)
{
	if ((size_t)(f->end - f->p) < word.n || memcmp(f->p, word.p, word.n) != 0)
		return NULL;
	f->p += word.n;
	return v;
}

/* Reads a member. A NUL in the key is refused, and so is a duplicate key. */
static bool read_member(struct fast *f, json_t *object)
{
	struct str key;
	char small[256], *name = small;
	if (!read_string(f, &key) || memchr(key.p, '\0', key.n) || !json_fast_take(f, ':'))
		return false;
	if (key.n >= sizeof small)
		name = xmalloc(key.n + 1);
	memcpy(name, key.p, key.n);
	name[key.n] = '\0';
	json_t *v = json_object_get(object, name) ? NULL : read_value(f);
	bool good = v && json_object_set_new_nocheck(object, name, v) == 0;
	if (name != small)
		free(name);
	return good;
}

static json_t *read_object(struct fast *f)
{
	json_t *object = json_object();
	bool good = true;
	f->p++;
	if (json_fast_take(f, '}'))
		return object;
	do
		good = read_member(f, object);
	while (good && json_fast_take(f, ','));
	if (good && json_fast_take(f, '}'))
		return object;
	json_decref(object);
	return NULL;
}

static json_t *read_array(struct fast *f)
{
	json_t *array = json_array();
	bool good = true;
	f->p++;
	if (json_fast_take(f, ']'))
		return array;
	do {
		if (!f->integers && json_array_size(array) == LONG_LIST)
			f->integers = xcalloc(INTEGERS, sizeof(json_t *));
		json_t *v = read_value(f);
		good = v && json_array_append_new(array, v) == 0;
	} while (good && json_fast_take(f, ','));
	if (good && json_fast_take(f, ']'))
		return array;
	json_decref(array);
	return NULL;
}

static json_t *read_any(struct fast *f)
{
	struct str s;
	switch (json_fast_look(f)) {
	case '{': return read_object(f);
	case '[': return read_array(f);
	case '"': return read_string(f, &s) ? json_stringn_nocheck(s.p, s.n) : NULL;
	case 't': return read_word(f, STR("true"), json_true());
	case 'f': return read_word(f, STR("false"), json_false());
	case 'n': return read_word(f, STR("null"), json_null());
	case '-': return f->end - f->p > 1 ? read_number(f) : NULL;
	default: return is_digit(json_fast_look(f)) ? read_number(f) : NULL;
	}
}

static json_t *read_value(struct fast *f)
{
	if (f->depth == DEPTH_MAX)
		return NULL;
	f->depth++;
	json_t *v = read_any(f);
	f->depth--;
	return v;
}

json_t *json_fast_load(struct str text)
{
	if (text.n == 0)
		return NULL;
	struct fast f = {.p = text.p, .end = text.p + text.n};
	bool is_tree = json_fast_look(&f) == '{' || json_fast_look(&f) == '[';
	json_t *v = is_tree ? read_value(&f) : NULL;
	json_fast_look(&f);
	if (v && f.p < f.end) { /* text follows the value: not for this reader */
		json_decref(v);
		v = NULL;
	}
	buf_deinit(&f.plain);
	free(f.integers);
	return v;
}
