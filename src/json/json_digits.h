/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as they were sent. jansson has an int64 and a double for all of them; clients send
 * trace ids of 64 bits without a sign, prices as 1.10, and bounds beyond both. A number whose
 * text neither value gives back keeps its text beside the value. Numbers are compared as
 * decimals of any length. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* Holds 38 decimal digits. */
__extension__ typedef __int128 json_wide;
#define JSON_WIDE_MAX ((json_wide)1000000000000000000 * 1000000000000000000 * 100 - 1)
enum { JSON_WIDE_BYTES = 44 }; /* a number's text, with its NUL */

/* A new value for a JSON number. NULL: `text` is none, or is beyond a double. */
json_t *json_digits_new(struct str text);
/* Appends the number as it was sent. A number that halod made: as short as it reads back. */
void json_digits_add(const json_t *v, struct buf *out);
/* The text, as a view; p NULL: the value has none of its own, or is no number. It lives as
 * long as v. */
struct str json_digits_text(const json_t *v);

/* Compares two numbers: below 0, 0, above 0. */
int json_digits_compare(const json_t *a, const json_t *b);
/* JSON Schema's equality: 1 and 1.0 are equal, in lists and objects, too. */
bool json_digits_equal(const json_t *a, const json_t *b);
bool json_digits_is_integer(const json_t *v);
/* The integer next to a number: at or above it (is_up), or at or below. Beyond 38 digits it
 * is JSON_WIDE_MAX + 1, or its negative. */
json_wide json_digits_round(const json_t *v, bool is_up);
/* Writes v with JSON_WIDE_BYTES at most; returns out. */
const char *json_digits_of_wide(json_wide v, char *out);

/* Appends the value as JSON, numbers as they were sent. is_spaced: a space follows each comma
 * and colon. */
void json_digits_write(const json_t *v, bool is_spaced, struct buf *out);
/* A new copy of all lists and objects. Other values are shared: they never change. NULL for
 * NULL. */
json_t *json_digits_copy(const json_t *v);
