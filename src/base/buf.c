/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

bool str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && memcmp(s.p, prefix.p, prefix.n) == 0;
}

bool str_ends(struct str s, struct str suffix)
{
	return s.n >= suffix.n &&
	       memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0;
}

ptrdiff_t str_find(struct str s, struct str needle, size_t from)
{
	if (from > s.n)
		return -1;
	if (needle.n == 0)
		return (ptrdiff_t)from;
	const char *at = memmem(s.p + from, s.n - from, needle.p, needle.n);
	return at ? at - s.p : -1;
}

struct str str_trim(struct str s)
{
	while (s.n > 0 && isspace((unsigned char)s.p[0]))
		s = (struct str){s.p + 1, s.n - 1};
	while (s.n > 0 && isspace((unsigned char)s.p[s.n - 1]))
		s.n--;
	return s;
}

void buf_deinit(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	if (b->p)
		b->p[0] = '\0';
}

typedef void *(*alloc_fn)(void *p, size_t n);

/* Makes room for `more` bytes and a NUL, with memory by `alloc`. False: there is none. */
static bool grow(struct buf *b, size_t more, alloc_fn alloc)
{
	size_t need = b->n + more + 1;
	if (need <= b->cap)
		return true;
	size_t cap = b->cap ? b->cap : 64;
	while (cap < need)
		cap *= 2;
	char *p = alloc(b->p, cap);
	if (!p)
		return false;
	b->p = p;
	b->cap = cap;
	b->p[b->n] = '\0';
	return true;
}

bool buf_reserve(struct buf *b, size_t more) { return grow(b, more, alloc_or_drop); }
bool buf_try(struct buf *b, size_t more) { return grow(b, more, alloc_try); }

void buf_add(struct buf *b, const void *p, size_t n)
{
	if (!buf_reserve(b, n))
		return;
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += n;
	b->p[b->n] = '\0';
}

void buf_add_str(struct buf *b, struct str s) { buf_add(b, s.p, s.n); }
void buf_add_c(struct buf *b, char c) { buf_add(b, &c, 1); }
void buf_add_z(struct buf *b, const char *s) { buf_add(b, s, strlen(s)); }

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = 0;
	if (buf_reserve(b, 64)) {
		size_t room = b->cap - b->n;
		n = vsnprintf(b->p + b->n, room, fmt, ap);
		if (n > 0 && (size_t)n >= room) {
			if (buf_reserve(b, (size_t)n))
				vsnprintf(b->p + b->n, b->cap - b->n, fmt, again);
			else
				b->p[b->n] = '\0', n = 0;
		}
	}
	if (n > 0)
		b->n += (size_t)n;
	va_end(again);
	va_end(ap);
}

/* Escape one character that JSON does not allow in a string, or that is not UTF-8.
 * Returns the number of input bytes consumed. */
static size_t add_json_special(struct buf *b, const char *p, size_t n)
{
	unsigned char c = (unsigned char)*p;
	switch (c) {
	case '"': buf_add(b, "\\\"", 2); return 1;
	case '\\': buf_add(b, "\\\\", 2); return 1;
	case '\n': buf_add(b, "\\n", 2); return 1;
	case '\r': buf_add(b, "\\r", 2); return 1;
	case '\t': buf_add(b, "\\t", 2); return 1;
	case '\b': buf_add(b, "\\b", 2); return 1;
	case '\f': buf_add(b, "\\f", 2); return 1;
	}
	if (c < 0x20) {
		buf_addf(b, "\\u%04x", c);
		return 1;
	}
	uint32_t cp;
	size_t len = utf8_decode((struct str){p, n}, &cp);
	if (cp == UTF8_BAD)
		buf_add(b, "\xEF\xBF\xBD", 3);
	else
		buf_add(b, p, len);
	return len;
}

void buf_add_json(struct buf *b, struct str s)
{
	if (!buf_reserve(b, s.n + 2))
		return;
	buf_add_c(b, '"');
	size_t i = 0;
	while (i < s.n) {
		size_t run = i;
		while (run < s.n) {
			unsigned char c = (unsigned char)s.p[run];
			if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
				break;
			run++;
		}
		buf_add(b, s.p + i, run - i);
		i = run;
		if (i < s.n)
			i += add_json_special(b, s.p + i, s.n - i);
	}
	buf_add_c(b, '"');
}

void buf_add_json_num(struct buf *b, double v)
{
	char text[40];
	if (!isfinite(v)) {
		buf_add_z(b, "null");
		return;
	}
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	buf_add_z(b, text);
}

void buf_drop(struct buf *b, size_t n)
{
	if (n > b->n)
		n = b->n;
	if (n == 0)
		return;
	memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
	b->p[b->n] = '\0';
}

char *buf_take(struct buf *b)
{
	char *p = b->p ? b->p : xstrdup("");
	*b = (struct buf){0};
	return p;
}
