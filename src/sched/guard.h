/* SPDX-License-Identifier: Apache-2.0
 *
 * What the next token of a choice may be, by its grammars and how they combine.
 *
 *   grammar alone        all of the answer behind reasoning is a text of it
 *   call_grammar alone   anything, but a tool call, once begun, is a text of it
 *   both                 a text of the one, or calls of the other and nothing else
 *
 * Thread: engine.
 */
#pragma once
#include "sched/request.h"

struct guard {
	const struct request *r;
	const struct tokenizer *t;
	const struct grammar_vocab *vocab;
	struct grammar_state *content, *call; /* NULL: does not apply, or no longer */
	bool has_content; /* content applied at the last mask */
	bool is_fresh;    /* call: nothing of the call is written yet */
	bool has_called;  /* with both grammars: the answer turned out to be calls */
	int n_begun;      /* the parser's outparse_n_begun at the last mask */
	enum status st;   /* of accepting the request's grammar_begun */
	uint64_t *allowed, *more; /* (V) bits each */
	size_t n_words;
	struct buf text;
};

/* Reads only fields of r that api fills in. */
void guard_init(struct guard *g, const struct request *r, const struct tokenizer *t,
		const struct grammar_vocab *vocab, int32_t n_vocab);
void guard_deinit(struct guard *g);
/* Has the request any grammar? */
static inline bool guard_is_set(const struct guard *g)
{
	return g->r && (g->r->grammar || g->r->call_grammar);
}
/* *out: the allowed ids, (V) bits; NULL: all. *out_may_end: the answer may end here; the
 * caller then allows the end tokens. E_LIMIT, E_INVAL. */
enum status guard_mask(struct guard *g, const struct outparse *parse,
		       const uint64_t **out, bool *out_may_end) MUST_USE;
void guard_allow(struct guard *g, int32_t id); /* adds id to the last mask */
/* Advance by a token that was drawn under a mask; by text that was not. E_INVAL: it does
 * not fit. */
enum status guard_follow(struct guard *g, int32_t id) MUST_USE;
enum status guard_add_text(struct guard *g, struct str text) MUST_USE;
/* True: the grammar is complete and allows no more text. */
bool guard_must_end(const struct guard *g);
/* Appends the text that must come next, at most max bytes; see grammar_state_forced. */
void guard_forced(struct guard *g, const struct outparse *parse, size_t max,
		  struct buf *out);
