/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar of a tool call starts in one of two ways:
 *
 *   without a content grammar: when the parser reports that a call has begun. The grammar
 *   accepts the call's text so far, and applies from the next token on. If that text does
 *   not fit, the call is broken and stays text.
 *
 *   with a content grammar: with the first token, beside it. Each token fits one of the
 *   two or both; a grammar that it does not fit is dropped. Behind a call there may be
 *   another call or the end.
 */
#include "sched/guard.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Does an answer consist of content or of calls, from its first token on? Not where content
 * begins with a mark of its own: there the parser tells content and calls apart. */
static bool is_alternative(const struct guard *g)
{
	return g->r->grammar && g->r->call_grammar && !g->r->grammar_waits;
}

static void start_call(struct guard *g)
{
	grammar_state_destroy(g->call);
	g->call = grammar_state_create(g->r->call_grammar, g->vocab);
	g->is_fresh = true;
}

static void drop_call(struct guard *g)
{
	grammar_state_destroy(g->call);
	g->call = NULL;
}

void guard_init(struct guard *g, const struct request *r, const struct tokenizer *t,
		const struct grammar_vocab *vocab, int32_t n_vocab)
{
	*g = (struct guard){.r = r, .t = t, .vocab = vocab};
	if (!guard_is_set(g))
		return;
	g->n_words = ((size_t)n_vocab + 63) / 64;
	g->allowed = xcalloc(g->n_words, sizeof *g->allowed);
	g->more = xcalloc(g->n_words, sizeof *g->more);
	if (r->grammar) {
		g->content = grammar_state_create(r->grammar, vocab);
		g->st = grammar_state_accept(g->content, r->grammar_begun);
	}
	if (is_alternative(g))
		start_call(g);
}

void guard_deinit(struct guard *g)
{
	grammar_state_destroy(g->content);
	grammar_state_destroy(g->call);
	free(g->allowed);
	free(g->more);
	buf_deinit(&g->text);
	*g = (struct guard){0};
}

/* --- calls --------------------------------------------------------------- */

/* Ends a complete call. In an answer of nothing but calls, the next one may begin. */
static void end_call(struct guard *g)
{
	drop_call(g);
	if (is_alternative(g) && g->has_called)
		start_call(g);
}

/* The parser has begun a call that this guard has not seen: starts its grammar. */
static void catch_up(struct guard *g, const struct outparse *parse)
{
	buf_clear(&g->text);
	if (!outparse_call(parse, &g->text))
		return;
	start_call(g);
	g->is_fresh = false;
	enum status st = grammar_state_accept(g->call, buf_str(&g->text));
	if (st != OK || grammar_state_must_end(g->call))
		end_call(g);
}

static void sync(struct guard *g, const struct outparse *parse)
{
	int n = outparse_n_begun(parse);
	if (!g->r->call_grammar)
		return;
	bool is_inside = g->call && !g->is_fresh;
	if (is_inside && !is_alternative(g) && !outparse_call(parse, NULL))
		drop_call(g); /* the parser found the call broken */
	else if (n != g->n_begun && !is_inside)
		catch_up(g, parse);
	g->n_begun = n;
}

/* --- masks --------------------------------------------------------------- */

static bool is_content_on(const struct guard *g, const struct outparse *parse)
{
	return g->content && (!g->r->grammar_waits || outparse_in_content(parse));
}

void guard_allow(struct guard *g, int32_t id)
{
	if (id >= 0 && (size_t)id / 64 < g->n_words)
		g->allowed[id / 64] |= (uint64_t)1 << (id % 64);
}

enum status guard_mask(struct guard *g, const struct outparse *parse,
		       const uint64_t **out, bool *out_may_end)
{
	enum status st = g->st;
	*out = NULL;
	*out_may_end = true;
	if (!guard_is_set(g) || outparse_in_reasoning(parse))
		return st;
	sync(g, parse);
	bool with_content = g->has_content = is_content_on(g, parse);
	if (!with_content && !g->call)
		return st;
	*out_may_end = with_content && grammar_state_may_end(g->content);
	if (with_content && st == OK)
		st = grammar_state_mask(g->content, g->allowed, g->n_words);
	if (!g->call) {
		*out = g->allowed;
		return st;
	}
	*out_may_end |= g->is_fresh && g->has_called;
	if (st == OK)
		st = grammar_state_mask(g->call, g->more, g->n_words);
	for (size_t i = 0; i < g->n_words; i++)
		g->allowed[i] = g->more[i] | (with_content ? g->allowed[i] : 0);
	*out = g->allowed;
	return st;
}

/* --- moving on ----------------------------------------------------------- */

static enum status advance_guard(struct guard *g, struct str bytes)
{
	enum status of_content = E_INVAL, of_call = E_INVAL;
	if (g->has_content)
		of_content = grammar_state_accept(g->content, bytes);
	if (g->call)
		of_call = grammar_state_accept(g->call, bytes);
	if (of_content != OK && of_call != OK)
		return g->has_content ? of_content : of_call;
	if (g->has_content && of_content != OK) {
		grammar_state_destroy(g->content);
		g->content = NULL;
		g->has_content = false;
		g->has_called = true;
	}
	if (g->call && of_call != OK)
		drop_call(g);
	g->is_fresh = false;
	if (g->call && grammar_state_must_end(g->call))
		end_call(g);
	return OK;
}

enum status guard_follow(struct guard *g, int32_t id)
{
	struct buf bytes = {0};
	grammar_add_token(g->t, id, &bytes);
	enum status st = advance_guard(g, buf_str(&bytes));
	buf_deinit(&bytes);
	return st;
}

enum status guard_add_text(struct guard *g, struct str text)
{
	g->has_content = g->content != NULL;
	return g->has_content ? advance_guard(g, text) : OK;
}

bool guard_must_end(const struct guard *g)
{
	return g->content && !g->call && grammar_state_must_end(g->content);
}

void guard_forced(struct guard *g, const struct outparse *parse, size_t max,
		  struct buf *out)
{
	bool with_content = is_content_on(g, parse);
	if (with_content && !g->call)
		grammar_state_forced(g->content, max, out);
	else if (!with_content && g->call && !g->is_fresh)
		grammar_state_forced(g->call, max, out);
	/* Stop before a special token: no text stands for it, so it must be drawn. */
	const char *special = out->n ? memchr(out->p, GRAMMAR_SPECIAL, out->n) : NULL;
	if (special)
		out->n = (size_t)(special - out->p);
}
