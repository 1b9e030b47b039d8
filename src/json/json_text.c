/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson reads neither integers beyond 64 bits nor what Python adds to JSON. A text that
 * it refuses is written anew in what it reads, line by line the same, and read once more. So
 * ordinary texts cost nothing, and every fault keeps its line.
 */
#include "json/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MAX_NUMBER 400 /* digits of a number that may still be a double */

struct rewriter {
	struct str text;
	size_t at, done; /* the next character; all before `done` is in `out` */
	enum json_text_mode mode;
	struct buf out;
};

/* Writes `with` in place of the text from `from` up to r->at. */
static void replace(struct rewriter *r, size_t from, const char *with)
{
	buf_add_str(&r->out, (struct str){r->text.p + r->done, from - r->done});
	buf_add_z(&r->out, with);
	r->done = r->at;
}

static bool is_part_of_number(char c)
{
	return (c >= '0' && c <= '9') || is_char_of(c, "+-.eE");
}

/* A number, from r->at on. */
static void rewrite_number(struct rewriter *r)
{
	char number[MAX_NUMBER + 1];
	size_t from = r->at;
	bool is_integer = true;
	for (; r->at < r->text.n && is_part_of_number(r->text.p[r->at]); r->at++)
		is_integer &= !is_char_of(r->text.p[r->at], ".eE");
	size_t n = r->at - from;
	snprintf(number, sizeof number, "%.*s", (int)MIN(n, MAX_NUMBER), r->text.p + from);
	bool is_infinite = r->mode == JSON_TEXT_PYTHON &&
			   (isinf(strtod(number, NULL)) || (is_integer && n > MAX_NUMBER));
	errno = 0;
	if (is_infinite)
		replace(r, from, number[0] == '-' ? "{\"__float__\":\"-Infinity\"}"
						  : "{\"__float__\":\"Infinity\"}");
	else if (is_integer && (strtoll(number, NULL, 10), errno == ERANGE))
		replace(r, r->at, ".0");
}

/* The code of an escape \uXXXX at `at`; -1: there is none. */
static long code_at(struct str text, size_t at)
{
	char hex[5];
	if (at + 6 > text.n || text.p[at] != '\\' || text.p[at + 1] != 'u')
		return -1;
	memcpy(hex, text.p + at + 2, 4);
	hex[4] = '\0';
	return strspn(hex, "0123456789abcdefABCDEF") == 4 ? strtol(hex, NULL, 16) : -1;
}

/* A string, from its quote on. */
static void rewrite_string(struct rewriter *r)
{
	r->at++;
	while (r->at < r->text.n && r->text.p[r->at] != '"') {
		size_t from = r->at;
		long code = code_at(r->text, from), low = code_at(r->text, from + 6);
		bool is_pair = code >= 0xD800 && code < 0xDC00 && low >= 0xDC00 && low < 0xE000;
		if (r->text.p[from] != '\\')
			r->at++;
		else if (code < 0)
			r->at += 2;
		else
			r->at += is_pair ? 12 : 6;
		if (r->mode == JSON_TEXT_PYTHON && code >= 0xD800 && code < 0xE000 && !is_pair)
			replace(r, from, "\\ufffd");
	}
	r->at++;
}

/* NaN, Infinity or -Infinity at r->at. */
static bool rewrite_word(struct rewriter *r)
{
	static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
	char with[40];
	for (size_t i = 0; r->mode == JSON_TEXT_PYTHON && i < ARRAY_LEN(words); i++) {
		size_t n = strlen(words[i]), from = r->at;
		if (r->text.n - from < n || memcmp(r->text.p + from, words[i], n) != 0)
			continue;
		r->at += n;
		snprintf(with, sizeof with, "{\"__float__\":\"%s\"}", words[i]);
		replace(r, from, with);
		return true;
	}
	return false;
}

static struct buf rewrite(struct str text, enum json_text_mode mode)
{
	struct rewriter r = {.text = text, .mode = mode};
	while (r.at < text.n) {
		char c = text.p[r.at];
		if (c == '"')
			rewrite_string(&r);
		else if (rewrite_word(&r))
			continue;
		else if (c == '-' || (c >= '0' && c <= '9'))
			rewrite_number(&r);
		else
			r.at++;
	}
	if (r.done < text.n)
		buf_add_str(&r.out, (struct str){text.p + r.done, text.n - r.done});
	return r.out;
}

static void *json_text_take(size_t n)
{
	return alloc_try(NULL, n);
}

void json_text_init(void) { json_set_alloc_funcs(json_text_take, free); }

json_t *json_text_load(struct str text, enum json_text_mode mode, json_error_t *e)
{
	static const struct str mark = {"\xEF\xBB\xBF", 3};
	size_t flags = JSON_ALLOW_NUL | (mode == JSON_TEXT_STRICT ? JSON_REJECT_DUPLICATES : 0);
	if (mode == JSON_TEXT_PYTHON && str_starts(text, mark))
		text = (struct str){text.p + mark.n, text.n - mark.n};
	/* json_loadb refuses NULL, but the pointer of an empty text may be NULL. */
	json_t *v = json_loadb(text.p ? text.p : "", text.n, flags, e);
	if (v || (mode == JSON_TEXT_STRICT && json_error_code(e) != json_error_numeric_overflow))
		return v;
	struct buf anew = rewrite(text, mode);
	v = json_loadb(anew.p ? anew.p : "", anew.n, flags, e);
	buf_deinit(&anew);
	return v;
}

const char *json_text_odd_float(const json_t *v)
{
	static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
	const char *text = json_string_value(json_object_get(v, "__float__"));
	for (size_t i = 0; text && i < ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0)
			return words[i];
	return NULL;
}
