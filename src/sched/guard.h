/* SPDX-License-Identifier: Apache-2.0
 *
 * What the next token of a choice may be: its grammars, and how they go together.
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
	struct grammar_state *content, *call; /* NULL: not now, or no more */
	bool has_content; /* content held at the last mask */
	bool is_fresh;    /* call: nothing of it has been written */
	bool has_called;  /* both: it was a call that was written */
	int n_begun;      /* calls of the parser that are known here */
	enum status st;   /* of the beginning */
	uint64_t *allowed, *more; /* (V) bits each */
	size_t n_words;
	struct buf text;
};

/* Reads nothing but what api has filled in. */
void guard_init(struct guard *g, const struct request *r, const struct tokenizer *t,
		const struct grammar_vocab *vocab, int32_t n_vocab);
void guard_deinit(struct guard *g);
/* There is a grammar at all. */
static inline bool guard_is_set(const struct guard *g)
{
	return g->r && (g->r->grammar || g->r->call_grammar);
}
/* *out: the ids that may come now, (V) bits; NULL: all. *out_may_end: the answer may end
 * here; its end tokens are the caller's to allow. E_LIMIT, E_INVAL. */
enum status guard_mask(struct guard *g, const struct outparse *parse,
		       const uint64_t **out, bool *out_may_end) MUST_USE;
void guard_allow(struct guard *g, int32_t id); /* into the last mask */
/* A token that was drawn under a mask; text that was not. E_INVAL: it does not fit. */
enum status guard_follow(struct guard *g, int32_t id) MUST_USE;
enum status guard_add_text(struct guard *g, struct str text) MUST_USE;
/* Nothing can follow. */
bool guard_must_end(const struct guard *g);
/* Append the text that must come next, at most max bytes; see grammar_state_forced. */
void guard_forced(struct guard *g, const struct outparse *parse, size_t max,
		  struct buf *out);
