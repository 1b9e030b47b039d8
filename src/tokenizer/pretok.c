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
 *
 * PCRE2's tables define the letters: 10.42 has Unicode 14, Hugging Face's Oniguruma has
 * 16. Younger characters (CJK extensions H and I, a few scripts, emoji since 2022) are
 * cut as unassigned ones. NFC differs too: utf8proc 2.8 has Unicode 14, Hugging Face has
 * 9. We put the 98 combining marks added in between in order; Hugging Face leaves them
 * alone.
 *
 * What a client's text may cost is counted (base/work.h). Some expressions look far ahead, as
 * `\s+$` and (?=(\d{3})+(?!\d)) do. In a long run of blanks or digits they do so from each
 * character, in time quadratic in its length. So a search sees a window of the text at first. A
 * match that needs to know what stands behind the window is tried again with a wider one, which
 * is paid for. PCRE2 tells it: a "hard" partial match is one that has seen the end.
 *
 * PCRE2's match limit begins low and grows, paid for, up to one that grows with the text. A
 * hostile expression ends in E_LIMIT, and an innocent one over a megabyte of blanks does not. JIT
 * code has a stack of 32 KiB. If that overflows (groups repeated thousands of times), the
 * interpreter repeats the match, because its frames are on the heap.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretok.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <pcre2.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "base/work.h"
#include "tokenizer/oniguruma.h"

#define MAX_STEPS 64
#define MAX_REGEX_BYTES 65536
#define HEAP_LIMIT_KIB (256u << 10)
#define MATCH_LIMIT_FIRST 500u
#define MATCH_LIMIT_BASE 10000000u
#define MATCH_LIMIT_PER_BYTE 64u
#define WINDOW 64   /* bytes; most words are shorter */
#define WIDER 4     /* the next window is so many times wider */
#define BYTES_A_UNIT 4 /* of base/work.h */
#define STEPS_A_UNIT 4 /* of PCRE2's match limit */

static const char gpt2_regex[] =
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
	"|\\s+(?!\\S)|\\s+";

struct split_step {
	pcre2_code *code; /* NULL: this step does not cut */
	bool has_jit;
	enum pretok_behavior behavior;
	bool invert;       /* the text between matches counts as the match */
	bool prefix_space; /* prepend a space to a piece that does not start with one */
};

struct pretok {
	int n_steps;
	struct split_step steps[];
};

struct pretok_work {
	pcre2_match_data *data;
	pcre2_match_context *context;
	uint32_t limit, max_limit; /* the context's match limit, and how far it may grow */
	struct buf prefixed; /* text with the prepended space; only the last step may need it */
};

/* State of one run, passed down the recursion over steps. */
struct pretok_run {
	const struct pretok *p;
	struct pretok_work *w;
	pretok_word_fn on_word;
	void *ctx;
	struct fail *fail;
};

static enum status compile(struct split_step *s, struct str regex, bool is_literal,
			   bool use_jit, struct fail *fail)
{
	if (regex.n > MAX_REGEX_BYTES)
		return fail_set(fail, E_UNSUPPORTED,
				"regular expression of more than %d bytes",
				MAX_REGEX_BYTES);
	struct buf text = {0};
	enum status st = OK;
	uint32_t flags = PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT;
	if (is_literal) {
		buf_add_str(&text, regex);
		flags |= PCRE2_LITERAL;
	} else {
		st = oniguruma_translate(regex, &text, fail);
		flags |= PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE |
			 PCRE2_NEVER_BACKSLASH_C;
	}
	pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
	if (!cc)
		st = E_NOMEM;
	if (st == OK) {
		pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
		pcre2_set_bsr(cc, PCRE2_BSR_UNICODE);
		int error;
		PCRE2_SIZE at;
		struct str t = buf_str(&text);
		s->code = pcre2_compile((PCRE2_SPTR)t.p, t.n, flags, &error,
					&at, cc);
		if (!s->code) {
			PCRE2_UCHAR words[160];
			pcre2_get_error_message(error, words, sizeof words);
			st = fail_set(fail, E_FORMAT,
				      "regular expression: %s (at byte %zu of "
				      "its translation)", (char *)words, at);
		}
	}
	if (s->code && use_jit)
		s->has_jit = pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE |
							 PCRE2_JIT_PARTIAL_HARD) == 0;
	pcre2_compile_context_free(cc);
	buf_deinit(&text);
	return st;
}

static enum status create_step(struct split_step *s, const struct pretok_step *def,
			       bool use_jit, struct fail *fail)
{
	switch (def->kind) {
	case PRETOK_SPLIT:
		s->behavior = def->behavior;
		s->invert = def->invert;
		return compile(s, def->regex, def->is_literal, use_jit, fail);
	case PRETOK_DIGITS:
		s->behavior = def->individual_digits ? SPLIT_ISOLATED
						     : SPLIT_CONTIGUOUS;
		return compile(s, STR("\\p{N}"), false, use_jit, fail);
	case PRETOK_BYTE_LEVEL:
		s->behavior = SPLIT_ISOLATED;
		s->prefix_space = def->add_prefix_space;
		return def->use_regex ? compile(s, str_of(gpt2_regex), false,
						use_jit, fail)
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
		pcre2_code_free(p->steps[i].code);
	free(p);
}

struct pretok_work *pretok_work_create(const struct pretok *p)
{
	struct pretok_work *w = xcalloc(1, sizeof *w);
	/* one offset pair is enough: no group captures */
	w->data = pcre2_match_data_create(1, NULL);
	w->context = pcre2_match_context_create(NULL);
	if (!w->data || !w->context) {
		pretok_work_destroy(w);
		return NULL;
	}
	pcre2_set_heap_limit(w->context, HEAP_LIMIT_KIB);
	return w;
}

void pretok_work_destroy(struct pretok_work *w)
{
	if (!w)
		return;
	pcre2_match_data_free(w->data);
	pcre2_match_context_free(w->context);
	buf_deinit(&w->prefixed);
	free(w);
}

static enum status match_failed(int rc, struct fail *fail)
{
	switch (rc) {
	case PCRE2_ERROR_MATCHLIMIT:
	case PCRE2_ERROR_DEPTHLIMIT:
	case PCRE2_ERROR_HEAPLIMIT:
		return fail_set(fail, E_LIMIT,
				"splitting this text into words takes too long");
	case PCRE2_ERROR_NOMEMORY:
		return fail_default(fail, E_NOMEM);
	default:
		return fail_set(fail, E_INTERNAL,
				"the regular expression engine failed (%d)",
				rc);
	}
}

static size_t char_bytes(struct str text, size_t at)
{
	uint32_t cp;
	return utf8_decode((struct str){text.p + at, text.n - at}, &cp);
}

static void set_limit(struct pretok_work *w, uint32_t limit)
{
	if (limit != w->limit)
		pcre2_set_match_limit(w->context, limit);
	w->limit = limit;
}

static int run_pcre(const struct pretok_run *r, const struct split_step *s, struct str text,
		    size_t from, uint32_t flags)
{
	struct pretok_work *w = r->w;
	PCRE2_SPTR p = (PCRE2_SPTR)text.p;
	int rc = PCRE2_ERROR_JIT_STACKLIMIT;
	if (s->has_jit)
		rc = pcre2_jit_match(s->code, p, text.n, from, flags, w->data, w->context);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = pcre2_match(s->code, p, text.n, from,
				 flags | PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->data, w->context);
	return rc;
}

/* Searches in `text` from offset `from` on. Is the limit too low, it grows. */
static int search(const struct pretok_run *r, const struct split_step *s, struct str text,
		  size_t from, uint32_t flags)
{
	struct pretok_work *w = r->w;
	int rc;
	while ((rc = run_pcre(r, s, text, from, flags)) == PCRE2_ERROR_MATCHLIMIT &&
	       w->limit < w->max_limit && work_spend(WORK_TEXT, w->limit / STEPS_A_UNIT))
		set_limit(w, (uint32_t)MIN((uint64_t)w->limit * 8, w->max_limit));
	set_limit(w, MATCH_LIMIT_FIRST);
	return rc;
}

/* The end of a window from `from` on, where a character ends. */
static size_t window_end(struct str text, size_t from, size_t n)
{
	if (n >= text.n - from)
		return text.n;
	size_t end = from + n;
	while (((unsigned char)text.p[end] & 0xC0) == 0x80)
		end--;
	return end;
}

/* Finds the first match at or after offset `from`. No match: *out_found is false. */
static enum status match(const struct pretok_run *r, const struct split_step *s,
			 struct str text, size_t from, bool *out_found,
			 size_t *out_start, size_t *out_end)
{
	const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(r->w->data);
	size_t n = WINDOW;
	bool is_here = false; /* only a match that begins at `from` is looked for */
	*out_found = false;
	*out_start = *out_end = from;
	while (from <= text.n) {
		size_t end = window_end(text, from, n);
		bool is_whole = end == text.n;
		pcre2_set_offset_limit(r->w->context, is_here ? from : PCRE2_UNSET);
		int rc = search(r, s, (struct str){text.p, end}, from,
				is_whole ? 0 : PCRE2_PARTIAL_HARD);
		/* An empty match at the window's end has not seen what follows. */
		if (rc >= 0 && (is_whole || ov[0] < end)) {
			*out_found = true;
			*out_start = ov[0];
			*out_end = ov[1];
			return OK;
		}
		if (rc == PCRE2_ERROR_PARTIAL) {
			from = ov[0];
			n = MAX((end - from) * WIDER, WINDOW);
			is_here = true;
			if (!work_spend(WORK_TEXT, n / BYTES_A_UNIT))
				return match_failed(PCRE2_ERROR_MATCHLIMIT, r->fail);
			continue;
		}
		if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
			return match_failed(rc, r->fail);
		if (is_whole && (!is_here || from == text.n))
			break;
		from = is_here ? from + char_bytes(text, from) : end;
		n = WINDOW;
		is_here = false;
	}
	return OK;
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

static enum status flush(struct joiner *j)
{
	if (!j->has_kept)
		return OK;
	j->has_kept = false;
	if (j->start == j->end)
		return OK;
	return run_step(j->run, j->i_next,
			(struct str){j->text.p + j->start, j->end - j->start});
}

static enum status feed(struct joiner *j, size_t start, size_t end,
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
	enum status st = flush(j);
	j->has_kept = !drop;
	j->start = start;
	j->end = end;
	return st;
}

/* Cuts `text`, one piece, by the matches of step i_step. */
static enum status split(const struct pretok_run *r, int i_step, struct str text)
{
	const struct split_step *s = &r->p->steps[i_step];
	struct joiner j = {.run = r, .i_next = i_step + 1, .text = text,
			   .behavior = s->behavior};
	size_t from = 0, done = 0;
	bool found = true, matched = false;
	enum status st = OK;
	while (st == OK && from <= text.n) {
		size_t start, end;
		st = match(r, s, text, from, &found, &start, &end);
		if (st != OK || !found)
			break;
		if (start < done || end < start)
			return fail_set(r->fail, E_UNSUPPORTED,
					"a match that begins before the end "
					"of the last");
		if (start == end && matched && end == done) {
			/* An empty match right after the last match does not count:
			 * search again one character further on. */
			if (from == text.n)
				break;
			from += char_bytes(text, from);
			continue;
		}
		if (done < start)
			st = feed(&j, done, start, s->invert);
		if (st == OK)
			st = feed(&j, start, end, !s->invert);
		from = done = end;
		matched = true;
	}
	if (st == OK && done < text.n)
		st = feed(&j, done, text.n, s->invert);
	return st == OK ? flush(&j) : st;
}

static enum status run_step(const struct pretok_run *r, int i_step, struct str text)
{
	if (i_step == r->p->n_steps)
		return r->on_word(r->ctx, text);
	const struct split_step *s = &r->p->steps[i_step];
	if (s->prefix_space && text.p[0] != ' ') {
		struct buf *b = &r->w->prefixed;
		buf_clear(b);
		buf_add_c(b, ' ');
		buf_add_str(b, text);
		text = buf_str(b);
	}
	return s->code ? split(r, i_step, text)
		       : run_step(r, i_step + 1, text);
}

enum status pretok_run(const struct pretok *p, struct pretok_work *w,
		       struct str text, pretok_word_fn on_word, void *ctx,
		       struct fail *fail)
{
	if (text.n == 0)
		return OK;
	uint64_t limit = MATCH_LIMIT_BASE +
			 (uint64_t)text.n * MATCH_LIMIT_PER_BYTE;
	w->max_limit = (uint32_t)MIN(limit, UINT32_MAX);
	set_limit(w, MATCH_LIMIT_FIRST);
	struct pretok_run r = {p, w, on_word, ctx, fail};
	return run_step(&r, 0, text);
}
