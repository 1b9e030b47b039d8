/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the keyword arguments of a call in Python into a JSON object, byte by byte:
 *
 *   city="Oslo", days=[1, 2], now=True, at={'h': 7})     as {"city": "Oslo", …}
 *
 * Strings have either quote and Python's escapes, among them all of JSON's. A bare word
 * that is no JSON becomes a string, and a tuple an array. Arguments without a name are
 * refused, and so are triple quotes and prefixes of strings. Thread: one at a time.
 */
#pragma once
#include "output/jsonscan.h"

enum pyargs_state {
	PY_NAME_OR_END, /* a name must come, or the end of the call */
	PY_NAME,
	PY_EQUALS,      /* after a name and white space */
	PY_VALUE,       /* a value must come */
	PY_VALUE_OR_END, /* in a list: a value must come, or its end */
	PY_KEY_OR_END,  /* in a dict: a key must come, or its end */
	PY_COLON,       /* after a key */
	PY_WORD,        /* in a number or a bare word */
	PY_STRING,
	PY_ESCAPE,      /* after a backslash */
	PY_HEX,         /* inside \uXXXX or \xXX */
	PY_AFTER,       /* after a value */
};

struct pyargs {
	enum pyargs_state state;
	int depth; /* open lists and dicts */
	char closers[JSONSCAN_MAX_DEPTH];
	bool has_some;  /* the innermost container, or the call, has a written member */
	bool is_key;    /* the string or word is a dict's key */
	char quote;
	int n_hex;      /* hex digits still to come */
	struct buf word;
};

/* The first time p must be all zero; later calls reuse its memory. */
void pyargs_init(struct pyargs *p);
void pyargs_deinit(struct pyargs *p);
/* Reads one byte and appends the JSON that it completes. DONE: c was the closing
 * parenthesis. */
enum jsonscan_result pyargs_push(struct pyargs *p, char c, struct buf *out);
/* True if cutting the JSON here would split an escape. */
bool pyargs_in_escape(const struct pyargs *p);
