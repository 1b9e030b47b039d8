/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses whole JSON texts with jansson, in two modes. The caller chooses the mode.
 * Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* Has jansson take memory by alloc_try (base/alloc.h): a body for whose tree there is none ends its
 * request with E_NOMEM. Called before the first text is read, by one thread. */
void json_text_init(void);

enum json_text_mode {
	/* Requests, and files whose format says so. A duplicate key is a fault: two readers of
	 * one text must not see two values. NUL in a string is accepted. */
	JSON_TEXT_STRICT,
	/* Files that come with a model, as Python's json module reads and writes them. The last
	 * of duplicate keys wins. NaN, Infinity, -Infinity and numbers beyond doubles become
	 * {"__float__": "NaN"} and so on, which is also how Transformers 5 spells them. A byte
	 * order mark is skipped. Half a surrogate pair becomes U+FFFD. */
	JSON_TEXT_PYTHON,
};

/* In both modes an integer beyond 64 bits becomes a real. NULL: *e says why, with the line in
 * `text`. The caller owns the result. */
json_t *json_text_load(struct str text, enum json_text_mode mode, json_error_t *e);
/* "NaN", "Infinity" or "-Infinity" if v stands for such a number; else NULL. */
const char *json_text_odd_float(const json_t *v);
