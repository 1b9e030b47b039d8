/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte views and growable byte buffers. Thread: any, one owner at a time.
 *
 * Invariants of struct buf: p is NULL exactly when cap is 0. When cap is not 0, p[n] is
 * '\0', so p can be handed to printf. Callers may read the fields and may lower n
 * directly; only the functions below make a buffer grow.
 *
 * Where the system refuses memory for a request, what is to be added is dropped: the request
 * is over then (base/work.h), and what it has made is thrown away. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

/* A view of bytes: it owns nothing and need not end in NUL. */
struct str {
	const char *p;
	size_t n;
};

#define STR(lit) ((struct str){(lit), sizeof(lit) - 1})
static inline struct str str_of(const char *s)
{
	return (struct str){s, strlen(s)};
}
static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_is(struct str a, const char *lit)
{
	return str_eq(a, str_of(lit));
}
/* True if set holds the ASCII character c. strchr would find NUL in every set. */
static inline bool is_char_of(int c, const char *set)
{
	return c > 0 && c < 0x80 && strchr(set, c);
}
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
/* Offset of the first `needle` at or after `from`, or -1. */
ptrdiff_t str_find(struct str s, struct str needle, size_t from);
struct str str_trim(struct str s); /* without white space (isspace) at its ends */

struct buf {
	char *p;
	size_t n, cap;
};

void buf_deinit(struct buf *b); /* frees; leaves an empty usable buf */
void buf_clear(struct buf *b);  /* n = 0, keeps the memory */
/* Makes room for more bytes. False: the thread's request is over. */
bool buf_reserve(struct buf *b, size_t more);
/* The same, for callers that handle a failure themselves. */
bool buf_try(struct buf *b, size_t more) MUST_USE;
void buf_add(struct buf *b, const void *p, size_t n);
void buf_add_str(struct buf *b, struct str s);
void buf_add_c(struct buf *b, char c);
void buf_add_z(struct buf *b, const char *s);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Append s as a quoted JSON string. Bytes that are not UTF-8 become U+FFFD, so the output
 * is always valid JSON. Non-ASCII characters stay as they are. */
void buf_add_json(struct buf *b, struct str s);
/* Append a double in the shortest form that reads back equal. Infinity and NaN, which
 * JSON cannot hold, become null. */
void buf_add_json_num(struct buf *b, double v);
/* Remove the first n bytes. */
void buf_drop(struct buf *b, size_t n);
/* Give the bytes, ended by NUL, to the caller, who frees them; b becomes empty. Never
 * NULL. */
char *buf_take(struct buf *b);
static inline struct str buf_str(const struct buf *b)
{
	return (struct str){b->p ? b->p : "", b->n};
}
