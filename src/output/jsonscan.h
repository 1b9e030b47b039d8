/* SPDX-License-Identifier: Apache-2.0
 *
 * Is this text, byte by byte, one JSON value? Keeps a stack of bits and no text,
 * so a value may be checked while it streams. Thread: one at a time.
 */
#pragma once
#include "base/buf.h"

#define JSONSCAN_MAX_DEPTH 64

enum jsonscan_state {
	JSON_VALUE,        /* one must come */
	JSON_VALUE_OR_END, /* behind [ */
	JSON_KEY,          /* behind , in an object */
	JSON_KEY_OR_END,   /* behind { */
	JSON_COLON,
	JSON_AFTER,        /* behind a value: , or the end of what holds it */
	JSON_STRING,
	JSON_ESCAPE,       /* behind \ */
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
	bool is_key;        /* the string being read is one */
	int n_hex;          /* hex digits read */
	uint32_t hex;
	bool is_half;       /* the last escape was the first half of a pair */
	const char *rest;   /* of the word */
};

static inline void jsonscan_init(struct jsonscan *s) { *s = (struct jsonscan){0}; }
/* DONE with the byte that completes an object, array, string or word; a number at
 * the top ends with the white space behind it, or with jsonscan_finish. Behind
 * DONE only white space is not BAD. */
enum jsonscan_result jsonscan_push(struct jsonscan *s, char c);
/* No more text: was that one whole value? */
bool jsonscan_finish(struct jsonscan *s);
/* Text cut here would have half an escape, or half a surrogate pair, at its end. */
static inline bool jsonscan_in_escape(const struct jsonscan *s)
{
	return s->state == JSON_ESCAPE || s->state == JSON_HEX || s->is_half;
}
/* All of text at once. */
bool jsonscan_is_value(struct str text);
