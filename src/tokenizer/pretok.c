/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-tokenizer: cuts a text into words. Each step is a regular expression and a rule for
 * its matches. Digits is \p{N}. ByteLevel is GPT-2's expression or none. The words are
 * the resulting byte ranges. ByteLevel's respelling is left to the vocabulary, which
 * stores its pieces as bytes.
 *
 * Pieces are not collected. A piece found by step i goes through step i + 1 before step i
 * searches for its next piece. Each step keeps one piece back, because a match may have
 * to join a neighbour (struct joiner). As in Hugging Face, a step sees only its piece: ^,
 * $ and lookarounds stop at the piece's ends.
 */
#include "tokenizer/pretok.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/regex.h"

#define MAX_STEPS 64

static const char gpt2_regex[] =
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
	"|\\s+(?!\\S)|\\s+";

struct split_step {
	struct regex_code *regex; /* NULL: this step does not cut */
	enum pretok_behavior behavior;
	bool invert;       /* the text between matches counts as the match */
	bool prefix_space; /* prepend a space to a piece that does not start with one */
};

struct pretok {
	int n_steps;
	struct split_step steps[];
};

struct pretok_work {
	struct regex_work *regex;
	struct buf prefixed; /* a piece with the prepended space; only the last step may need it */
	const char *piece;   /* that piece */
	struct buf word;     /* without stand-ins */
};

/* State of one run, passed down the recursion over steps. */
struct pretok_run {
	const struct pretok *p;
	struct pretok_work *w;
	struct str text; /* as given, and as matched: both are the same, or of one length */
	struct str matched;
	pretok_word_fn on_word;
	void *ctx;
	struct fail *fail;
};

static enum status create_step(struct split_step *s, const struct pretok_step *def,
			       bool use_jit, struct fail *fail)
{
	switch (def->kind) {
	case PRETOK_SPLIT:
		s->behavior = def->behavior;
		s->invert = def->invert;
		return regex_create(def->regex, def->is_literal, use_jit, &s->regex, fail);
	case PRETOK_DIGITS:
		s->behavior = def->individual_digits ? SPLIT_ISOLATED
						     : SPLIT_CONTIGUOUS;
		return regex_create(STR("\\p{N}"), false, use_jit, &s->regex, fail);
	case PRETOK_BYTE_LEVEL:
		s->behavior = SPLIT_ISOLATED;
		s->prefix_space = def->add_prefix_space;
		return def->use_regex ? regex_create(str_of(gpt2_regex), false, use_jit,
						     &s->regex, fail)
				      : OK;
	}
	return fail_set(fail, E_UNSUPPORTED, "an unknown kind of step");
}

enum status pretok_create(const struct pretok_step *steps, int n_steps,
			  bool use_jit, struct pretok **out, struct fail *fail)
{
	if (n_steps < 1 || n_steps > MAX_STEPS)
		return fail_set(fail, E_UNSUPPORTED,
				"pre-tokenizer of %d steps, 1 to %d are "
				"supported", n_steps, MAX_STEPS);
	struct pretok *p = xcalloc(1, sizeof *p + (size_t)n_steps *
							  sizeof *p->steps);
	enum status st = OK;
	for (int i = 0; i < n_steps && st == OK; i++) {
		struct fail why = {0};
		bool is_last = i == n_steps - 1;
		p->n_steps++;
		if ((steps[i].kind == PRETOK_BYTE_LEVEL) != is_last)
			st = fail_set(&why, E_UNSUPPORTED,
				      "ByteLevel must be the last step and "
				      "only that");
		else
			st = create_step(&p->steps[i], &steps[i], use_jit,
					 &why);
		if (st != OK) {
			char place[32];
			snprintf(place, sizeof place, "steps[%d]", i);
			fail_default(&why, st);
			fail_at(fail, st, place, "pre-tokenizer step %d: %s", i,
				why.text);
		}
	}
	if (st != OK) {
		pretok_destroy(p);
		return st;
	}
	*out = p;
	return OK;
}

void pretok_destroy(struct pretok *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->n_steps; i++)
		regex_destroy(p->steps[i].regex);
	free(p);
}

struct pretok_work *pretok_work_create(void)
{
	struct pretok_work *w = xcalloc(1, sizeof *w);
	w->regex = regex_work_create();
	if (!w->regex) {
		pretok_work_destroy(w);
		return NULL;
	}
	return w;
}

void pretok_work_destroy(struct pretok_work *w)
{
	if (!w)
		return;
	regex_work_destroy(w->regex);
	buf_deinit(&w->prefixed);
	buf_deinit(&w->word);
	free(w);
}

static enum status run_step(const struct pretok_run *r, int i_step, struct str text);

/* Receives adjacent ranges of text in order; each one is a match or a gap between
 * matches. Emits pieces after joining or dropping ranges as the step's behavior says. */
struct joiner {
	const struct pretok_run *run;
	int i_next;
	struct str text;
	enum pretok_behavior behavior;
	bool has_kept, last_is_match;
	size_t start, end; /* byte range of the piece that is kept back */
};

static enum status pretok_flush(struct joiner *j)
{
	if (!j->has_kept)
		return OK;
	j->has_kept = false;
	if (j->start == j->end)
		return OK;
	return run_step(j->run, j->i_next,
			(struct str){j->text.p + j->start, j->end - j->start});
}

static enum status pretok_feed(struct joiner *j, size_t start, size_t end,
			       bool is_match)
{
	bool joins = false, drop = false;
	switch (j->behavior) {
	case SPLIT_ISOLATED:
		break;
	case SPLIT_REMOVED:
		drop = is_match;
		break;
	case SPLIT_CONTIGUOUS:
		joins = is_match == j->last_is_match;
		break;
	case SPLIT_MERGED_PREVIOUS: /* the first match after a gap */
		joins = is_match && !j->last_is_match;
		break;
	case SPLIT_MERGED_NEXT: /* a gap after a match */
		joins = !is_match && j->last_is_match;
		break;
	}
	j->last_is_match = is_match;
	if (joins && j->has_kept) {
		j->end = end;
		return OK;
	}
	enum status st = pretok_flush(j);
	j->has_kept = !drop;
	j->start = start;
	j->end = end;
	return st;
}

/* Cuts `text`, one piece, by the matches of step i_step. */
static enum status pretok_split(const struct pretok_run *r, int i_step, struct str text)
{
	const struct split_step *s = &r->p->steps[i_step];
	struct joiner j = {.run = r, .i_next = i_step + 1, .text = text,
			   .behavior = s->behavior};
	size_t from = 0, done = 0;
	bool found = true, matched = false;
	enum status st = OK;
	while (st == OK && from <= text.n) {
		size_t start, end;
		st = regex_find(s->regex, r->w->regex, text, from, &found, &start, &end,
				r->fail);
		if (st != OK || !found)
			break;
		if (start < done || end < start)
			return fail_set(r->fail, E_UNSUPPORTED,
					"a match that begins before the end "
					"of the last");
		if (start == end && matched && end == done) {
			/* An empty match right after the last match does not count:
			 * search again one character further on. */
			uint32_t cp;
			if (from == text.n)
				break;
			from += utf8_decode((struct str){text.p + from,
							 text.n - from}, &cp);
			continue;
		}
		if (done < start)
			st = pretok_feed(&j, done, start, s->invert);
		if (st == OK)
			st = pretok_feed(&j, start, end, !s->invert);
		from = done = end;
		matched = true;
	}
	if (st == OK && done < text.n)
		st = pretok_feed(&j, done, text.n, s->invert);
	return st == OK ? pretok_flush(&j) : st;
}

/* Hands on a word as it was given: where stand-ins were matched, with the characters that they
 * stand for. */
static enum status pretok_emit(const struct pretok_run *r, struct str word)
{
	struct buf *b = &r->w->word;
	const char *own = r->w->prefixed.p; /* a piece behind a space is a copy */
	bool is_copy = own && word.p >= own && word.p < own + r->w->prefixed.n;
	if (r->text.p == r->matched.p)
		return r->on_word(r->ctx, word);
	size_t n_space = is_copy && word.p == own;
	const char *from = is_copy ? r->w->piece + (word.p - own) - 1 + n_space : word.p;
	buf_clear(b);
	buf_add(b, " ", n_space);
	buf_add(b, r->text.p + (from - r->matched.p), word.n - n_space);
	return r->on_word(r->ctx, buf_str(b));
}

static enum status run_step(const struct pretok_run *r, int i_step, struct str text)
{
	if (i_step == r->p->n_steps)
		return pretok_emit(r, text);
	const struct split_step *s = &r->p->steps[i_step];
	if (s->prefix_space && text.p[0] != ' ') {
		struct buf *b = &r->w->prefixed;
		buf_clear(b);
		buf_add_c(b, ' ');
		buf_add_str(b, text);
		r->w->piece = text.p;
		text = buf_str(b);
	}
	return s->regex ? pretok_split(r, i_step, text)
			: run_step(r, i_step + 1, text);
}

enum status pretok_run(const struct pretok *p, struct pretok_work *w,
		       struct str text, pretok_word_fn on_word, void *ctx,
		       struct fail *fail)
{
	if (text.n == 0)
		return OK;
	struct str matched = regex_begin(w->regex, text);
	w->prefixed.n = 0;
	struct pretok_run r = {p, w, text, matched, on_word, ctx, fail};
	return run_step(&r, 0, matched);
}
