/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks byte by byte whether a text is one JSON value. Keeps a bit stack of containers
 * and no text, so it can check a value while it streams. Thread: one at a time.
 */
#pragma once
#include "base/buf.h"

#define JSONSCAN_MAX_DEPTH 64

enum jsonscan_state {
	JSON_VALUE,        /* a value must come */
	JSON_VALUE_OR_END, /* after [ */
	JSON_KEY,          /* after a comma in an object */
	JSON_KEY_OR_END,   /* after { */
	JSON_COLON,
	JSON_AFTER,        /* after a value: a comma, or the end of the container */
	JSON_STRING,
	JSON_ESCAPE,       /* after a backslash */
	JSON_HEX,          /* inside \uXXXX */
	JSON_WORD,         /* inside true, false, null */
	JSON_MINUS, JSON_ZERO, JSON_INT, JSON_DOT, JSON_FRAC,
	JSON_E, JSON_E_SIGN, JSON_E_DIGITS,
	JSON_DONE,
};

enum jsonscan_result { JSONSCAN_MORE, JSONSCAN_DONE, JSONSCAN_BAD };

struct jsonscan {
	enum jsonscan_state state;
	int depth;
	uint64_t is_object; /* bit i: the container at depth i + 1 is an object */
	bool is_key;        /* the current string is a key */
	int n_hex;          /* hex digits read */
	uint32_t hex;
	bool is_half;       /* the last escape was the first half of a surrogate pair */
	const char *rest;   /* remaining letters of true, false or null */
};

static inline bool jsonscan_is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
/* s without white space at its ends. */
static inline struct str jsonscan_trim(struct str s)
{
	while (s.n && jsonscan_is_space(s.p[0]))
		s.p++, s.n--;
	while (s.n && jsonscan_is_space(s.p[s.n - 1]))
		s.n--;
	return s;
}

static inline void jsonscan_init(struct jsonscan *s) { *s = (struct jsonscan){0}; }
/* Reads one byte. Returns DONE with the byte that completes an object, array, string or
 * word. A number at the top level is DONE with the white space after it, or by
 * jsonscan_finish. After DONE any byte but white space is BAD. */
enum jsonscan_result jsonscan_push(struct jsonscan *s, char c);
/* The text has ended: true if it was one whole value. */
bool jsonscan_finish(struct jsonscan *s);
/* True if cutting the text here would split an escape or a surrogate pair. */
static inline bool jsonscan_in_escape(const struct jsonscan *s)
{
	return s->state == JSON_ESCAPE || s->state == JSON_HEX || s->is_half;
}
/* Checks a whole text at once. */
bool jsonscan_is_value(struct str text);
