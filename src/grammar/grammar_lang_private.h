/* SPDX-License-Identifier: Apache-2.0
 *
 * The terms of a pool of languages. Only the grammar_lang*.c files and grammar_regex.c
 * include this file.
 */
#pragma once
#include "base/map.h"
#include "grammar/grammar_lang.h"
#include "grammar/grammar_private.h"

enum term_kind {
	TERM_NONE, TERM_EMPTY, TERM_CLASS, TERM_CAT, TERM_ALT, TERM_AND, TERM_NOT,
	TERM_REPEAT,
	/* used while a regex is read: terms that depend on the place in the text */
	TERM_BEGIN, TERM_END, TERM_AHEAD, TERM_NOT_AHEAD,
};

struct term {
	uint8_t kind;
	bool is_nullable;
	bool has_begin;  /* contains TERM_BEGIN */
	bool has_place;  /* contains TERM_END, TERM_AHEAD or TERM_NOT_AHEAD */
	bool is_boolean; /* contains TERM_AND or TERM_NOT */
	/* CAT, NOT, REPEAT, AHEAD: indices of terms. CLASS: ranges a .. a + b - 1. ALT,
	 * AND: kids a .. a + b - 1. */
	uint32_t a, b;
	uint32_t min, max; /* for REPEAT: number of rounds */
	uint32_t len_min, len_max; /* bounds of the texts' lengths, in characters */
	uint32_t chain;
};

struct lang_pool {
	struct term *terms;
	uint32_t n, cap;
	uint32_t *buckets, n_buckets;
	uint32_t *kids;
	uint32_t n_kids, cap_kids;
	struct grammar_range *ranges;
	uint32_t n_ranges, cap_ranges;
	struct u64map derivatives; /* key: (term, character); value: the derivative */
	size_t n_work;
	int depth;
};

#define LANG_MAX_WORK 4000000

lang lang_term(struct lang_pool *p, struct term t);
lang lang_list(struct lang_pool *p, enum term_kind kind, const lang *of, size_t n);
void lang_work(struct lang_pool *p, size_t n);

static inline uint32_t lang_add(uint32_t a, uint32_t b)
{
	return a > GRAMMAR_NO_MAX - b ? GRAMMAR_NO_MAX : a + b;
}
static inline uint32_t lang_mul(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;
	bool is_over = a == GRAMMAR_NO_MAX || b == GRAMMAR_NO_MAX || v > GRAMMAR_NO_MAX;
	return a == 0 || b == 0 ? 0 : is_over ? GRAMMAR_NO_MAX : (uint32_t)v;
}
