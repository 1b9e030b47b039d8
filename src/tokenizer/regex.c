/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client's text may cost is counted (base/work.h). Some expressions look far ahead, as
 * `\s+$` and (?=(\d{3})+(?!\d)) do. In a long run of blanks or digits they do so from each
 * character, in time quadratic in its length. So a search sees a window of the text at first. A
 * match that needs to know what stands behind the window is tried again with a wider one, which
 * is paid for. PCRE2 tells it: a "hard" partial match is one that has seen the end. In a wide
 * window matches may begin at one place first, then at the next two, four and so on.
 *
 * PCRE2's match limit begins low and grows, paid for, up to one that grows with the text. A
 * hostile expression ends in E_LIMIT, and an innocent one over a megabyte of blanks does not. JIT
 * code has a stack of 32 KiB. If that overflows (groups repeated thousands of times), the
 * interpreter repeats the match, because its frames are on the heap.
 *
 * PCRE2's tables are those of one Unicode version, Hugging Face's Oniguruma has another. So a
 * character that they see otherwise is matched as another one, of as many bytes.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include <stdlib.h>

#include <pcre2.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "base/work.h"
#include "tokenizer/oniguruma.h"
#include "tokenizer/unicode.h"

#define MAX_REGEX_BYTES 65536
#define HEAP_LIMIT_KIB (256u << 10)
#define MATCH_LIMIT_FIRST 500u
#define MATCH_LIMIT_BASE 10000000u
#define MATCH_LIMIT_PER_BYTE 64u
#define WINDOW 64   /* bytes; most words are shorter */
#define WIDER 4     /* the next window is so many times wider */
#define BYTES_A_UNIT 4 /* of base/work.h */
#define STARTS_A_SEARCH 256
#define STEPS_A_UNIT 4 /* of PCRE2's match limit */

struct regex_code {
	pcre2_code *code;
	bool has_jit;
};

struct regex_work {
	pcre2_match_data *data;
	pcre2_match_context *context;
	uint32_t limit, max_limit; /* the context's match limit, and how far it may grow */
	struct buf text; /* with stand-ins */
};

static enum status compile(struct str text, bool is_literal, struct regex_code *re,
			   struct fail *fail)
{
	uint32_t flags = PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT;
	flags |= is_literal ? PCRE2_LITERAL
			    : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE |
				      PCRE2_NEVER_BACKSLASH_C;
	pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
	if (!cc)
		return E_NOMEM;
	pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
	pcre2_set_bsr(cc, PCRE2_BSR_UNICODE);
	int error;
	PCRE2_SIZE at;
	re->code = pcre2_compile((PCRE2_SPTR)text.p, text.n, flags, &error, &at, cc);
	pcre2_compile_context_free(cc);
	if (re->code)
		return OK;
	PCRE2_UCHAR words[160];
	pcre2_get_error_message(error, words, sizeof words);
	return fail_set(fail, E_FORMAT, "regular expression: %s (at byte %zu of its translation)",
			(char *)words, at);
}

enum status regex_create(struct str source, bool is_literal, bool use_jit, struct regex_code **out,
			 struct fail *fail)
{
	if (source.n > MAX_REGEX_BYTES)
		return fail_set(fail, E_UNSUPPORTED, "regular expression of more than %d bytes",
				MAX_REGEX_BYTES);
	struct regex_code *re = xcalloc(1, sizeof *re);
	struct buf text = {0};
	enum status st = OK;
	if (is_literal)
		buf_add_str(&text, source);
	else
		st = oniguruma_translate(source, &text, fail);
	if (st == OK)
		st = compile(buf_str(&text), is_literal, re, fail);
	if (st == OK && use_jit)
		re->has_jit = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE |
							   PCRE2_JIT_PARTIAL_HARD) == 0;
	buf_deinit(&text);
	if (st != OK) {
		regex_destroy(re);
		return st;
	}
	*out = re;
	return OK;
}

void regex_destroy(struct regex_code *re)
{
	if (!re)
		return;
	pcre2_code_free(re->code);
	free(re);
}

struct regex_work *regex_work_create(void)
{
	struct regex_work *w = xcalloc(1, sizeof *w);
	/* one offset pair is enough: no group captures */
	w->data = pcre2_match_data_create(1, NULL);
	w->context = pcre2_match_context_create(NULL);
	if (!w->data || !w->context) {
		regex_work_destroy(w);
		return NULL;
	}
	pcre2_set_heap_limit(w->context, HEAP_LIMIT_KIB);
	return w;
}

void regex_work_destroy(struct regex_work *w)
{
	if (!w)
		return;
	pcre2_match_data_free(w->data);
	pcre2_match_context_free(w->context);
	buf_deinit(&w->text);
	free(w);
}

static void set_limit(struct regex_work *w, uint32_t limit)
{
	if (limit != w->limit)
		pcre2_set_match_limit(w->context, limit);
	w->limit = limit;
}

struct str regex_begin(struct regex_work *w, struct str text)
{
	uint64_t limit = MATCH_LIMIT_BASE + (uint64_t)text.n * MATCH_LIMIT_PER_BYTE;
	bool has_copy = false;
	w->max_limit = (uint32_t)MIN(limit, UINT32_MAX);
	set_limit(w, MATCH_LIMIT_FIRST);
	for (size_t i = 0, n; i < text.n; i += n) {
		uint32_t cp;
		n = 1;
		if (!((unsigned char)text.p[i] & 0x80))
			continue;
		n = utf8_decode((struct str){text.p + i, text.n - i}, &cp);
		uint32_t other = unicode_stand_in(cp);
		if (other == cp)
			continue;
		if (!has_copy) {
			buf_clear(&w->text);
			buf_add_str(&w->text, text);
			if (w->text.n != text.n) /* no memory: the request is over */
				return text;
			has_copy = true;
		}
		utf8_encode(other, w->text.p + i);
	}
	return has_copy ? buf_str(&w->text) : text;
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

static int run_pcre(const struct regex_code *re, struct regex_work *w, struct str text,
		    size_t from, uint32_t flags)
{
	PCRE2_SPTR p = (PCRE2_SPTR)text.p;
	int rc = PCRE2_ERROR_JIT_STACKLIMIT;
	if (re->has_jit)
		rc = pcre2_jit_match(re->code, p, text.n, from, flags, w->data, w->context);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = pcre2_match(re->code, p, text.n, from,
				 flags | PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->data, w->context);
	return rc;
}

/* Searches in `text` from offset `from` on. Is the limit too low, it grows. */
static int search(const struct regex_code *re, struct regex_work *w, struct str text,
		  size_t from, uint32_t flags)
{
	int rc;
	while ((rc = run_pcre(re, w, text, from, flags)) == PCRE2_ERROR_MATCHLIMIT &&
	       w->limit < w->max_limit && work_spend(WORK_TEXT, w->limit / STEPS_A_UNIT))
		set_limit(w, (uint32_t)MIN((uint64_t)w->limit * 8, w->max_limit));
	set_limit(w, MATCH_LIMIT_FIRST);
	return rc;
}

/* The first character that begins at or after `at`. */
static size_t char_begin(struct str text, size_t at)
{
	while (at < text.n && ((unsigned char)text.p[at] & 0xC0) == 0x80)
		at++;
	return at;
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

/* Pays for a search in n bytes from each of n_starts places. Most searches know from the first of
 * them that the next ones are in vain, so these cost little. */
static enum status pay_search(size_t n, size_t n_starts, struct fail *fail)
{
	size_t units = n / BYTES_A_UNIT;
	if (work_spend(WORK_TEXT, units + units * (MIN(n_starts, n) / STARTS_A_SEARCH)))
		return OK;
	return match_failed(PCRE2_ERROR_MATCHLIMIT, fail);
}

enum status regex_find(const struct regex_code *re, struct regex_work *w, struct str text,
		       size_t from, bool *out_found, size_t *out_start, size_t *out_end,
		       struct fail *fail)
{
	const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(w->data);
	size_t n = WINDOW, n_starts = SIZE_MAX; /* of a match, from `from` on */
	enum status st = OK;
	*out_found = false;
	*out_start = *out_end = from;
	while (st == OK && from <= text.n) {
		size_t end = window_end(text, from, n);
		bool is_whole = end == text.n, has_limit = n_starts < end - from;
		pcre2_set_offset_limit(w->context,
				       has_limit ? from + n_starts - 1 : PCRE2_UNSET);
		int rc = search(re, w, (struct str){text.p, end}, from,
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
			n_starts = n_starts == SIZE_MAX ? 1 : n_starts;
			st = pay_search(n, n_starts, fail);
		} else if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
			st = match_failed(rc, fail);
		} else if (has_limit) {
			from = char_begin(text, from + n_starts);
			n_starts *= 2;
			st = pay_search(n, n_starts, fail);
		} else if (is_whole) {
			break;
		} else {
			from = end;
			n = WINDOW;
			n_starts = SIZE_MAX;
		}
	}
	return st;
}
