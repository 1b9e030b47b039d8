/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8proc provides the tables of the normal forms, unicode.h what differs from Hugging Face's.
 * The loop is ours for two reasons. First, utf8proc_map() orders combining marks by exchanging
 * neighbours. Its time is quadratic in the length of a run, and a client chooses that length.
 * Second, it cannot say which input became which output, but the trust marks need to know.
 *
 * The text is therefore cut into pieces where no character can join the one before it.
 * Only pieces that hold something to normalize are decomposed, sorted by combining class
 * and composed. An unchanged piece keeps its marks. A changed piece takes the lowest
 * trust found in it.
 *
 * A cut is possible before each character that is in the normal form itself and joins nothing
 * before it (starts_piece):
 * - below U+0300, which is the first combining mark; some of these have decompositions, the
 * first U+00A0 for the forms with K and U+00C0 for NFD;
 * - of the CJK ideographs U+4E00..U+9FFF;
 * - of the Hangul syllables U+AC00..U+D7A3, where they are composed. A following jamo may join a
 * syllable, but a syllable joins nothing before it.
 *
 * Unicode's stability policy guarantees that this stays so.
 */
#include "tokenizer/normalize.h"

#include <stdlib.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/berttext.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

struct step {
	struct normal_step def; /* its texts are owned */
	struct regex_code *regex;    /* of NORMAL_REPLACE */
};

struct normalizer {
	int n_steps;
	struct step steps[];
};

/* --- normal forms ----------------------------------------------------------- */

static bool is_composed(enum normal_kind form)
{
	return form == NORMAL_NFC || form == NORMAL_NFKC;
}

static bool starts_piece(enum normal_kind form, uint32_t cp)
{
	uint32_t first = form == NORMAL_NFC ? 0x300 : form == NORMAL_NFD ? 0xC0 : 0xA0;
	return cp < first || (cp >= 0x4E00 && cp <= 0x9FFF) ||
	       (is_composed(form) && cp >= 0xAC00 && cp <= 0xD7A3);
}

/* Offset of the first character at or after byte i that starts a piece (want: true) or
 * that starts none (want: false). */
static size_t find_cut(enum normal_kind form, struct str s, size_t i, bool want)
{
	while (i < s.n) {
		uint32_t cp;
		size_t len = utf8_decode((struct str){s.p + i, s.n - i}, &cp);
		if (starts_piece(form, cp) == want)
			break;
		i += len;
	}
	return i;
}

struct cps {
	utf8proc_int32_t *p;
	size_t n, cap;
};

static void add_cp(struct cps *c, utf8proc_int32_t cp)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 64;
		utf8proc_int32_t *p = alloc_or_drop(c->p, cap * sizeof *p);
		if (!p)
			return;
		c->p = p;
		c->cap = cap;
	}
	c->p[c->n++] = cp;
}

static int combining_class(utf8proc_int32_t cp)
{
	return utf8proc_get_property(cp)->combining_class;
}

/* A decomposition has 18 characters at most (U+FDFA, with K). */
static void decompose(enum normal_kind form, uint32_t cp, struct cps *out)
{
	utf8proc_int32_t d[32];
	int boundclass = UTF8PROC_BOUNDCLASS_START;
	int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
	if (form == NORMAL_NFKC || form == NORMAL_NFKD)
		options |= UTF8PROC_COMPAT;
	utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, d, ARRAY_LEN(d),
						     options, &boundclass);
	if (n < 1 || n > (utf8proc_ssize_t)ARRAY_LEN(d)) {
		d[0] = (utf8proc_int32_t)cp;
		n = 1;
	}
	for (utf8proc_ssize_t k = 0; k < n; k++)
		add_cp(out, d[k]);
}

/* Sorts n marks by combining class. A counting sort is stable, and there are only 256
 * classes. */
static void sort_marks(utf8proc_int32_t *p, size_t n)
{
	size_t at[257] = {0};
	for (size_t i = 0; i < n; i++)
		at[combining_class(p[i]) + 1]++;
	for (int c = 0; c < 256; c++)
		at[c + 1] += at[c];
	utf8proc_int32_t *sorted = alloc_or_drop(NULL, n * sizeof *sorted);
	if (!sorted)
		return;
	for (size_t i = 0; i < n; i++)
		sorted[at[combining_class(p[i])]++] = p[i];
	memcpy(p, sorted, n * sizeof *sorted);
	free(sorted);
}

static void order_marks(struct cps *c)
{
	size_t i = 0;
	while (i < c->n) {
		int last = combining_class(c->p[i]);
		bool is_ordered = true;
		size_t j = i + 1;
		if (last != 0) {
			for (; j < c->n; j++) {
				int class = combining_class(c->p[j]);
				if (class == 0)
					break;
				is_ordered &= last <= class;
				last = class;
			}
		}
		if (!is_ordered)
			sort_marks(c->p + i, j - i);
		i = j;
	}
}

/* Appends the characters that were gathered, ordered and composed. */
static void normalize_finish(enum normal_kind form, struct cps *cps, struct buf *text)
{
	utf8proc_ssize_t n = (utf8proc_ssize_t)cps->n;
	order_marks(cps);
	if (is_composed(form))
		n = utf8proc_normalize_utf32(cps->p, n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
	for (utf8proc_ssize_t i = 0; i < n; i++) {
		char c[4];
		buf_add(text, c, utf8_encode((uint32_t)cps->p[i], c));
	}
	cps->n = 0;
}

static void normalize_piece(enum normal_kind form, struct markview v, size_t start, size_t end,
			    struct cps *cps, struct buf *text, struct marked *out)
{
	struct str s = {v.text.p + start, end - start};
	cps->n = 0;
	buf_clear(text);
	for (size_t i = 0, n; i < s.n; i += n) {
		uint32_t cp;
		n = utf8_decode((struct str){s.p + i, s.n - i}, &cp);
		/* Nothing moves past these or joins them. U+11A7 is no final consonant of Hangul,
		 * but utf8proc 2.8 drops it behind a syllable. */
		if (unicode_is_inert(cp) || cp == 0x11A7) {
			normalize_finish(form, cps, text);
			buf_add(text, s.p + i, n);
		} else {
			decompose(form, cp, cps);
		}
	}
	normalize_finish(form, cps, text);
	if (str_eq(buf_str(text), s))
		markview_copy(v, start, end, out);
	else
		marked_add(out, buf_str(text), markview_least(v, start, end));
}

/* True if a quick look does not show that v is in the form. */
static bool normalize(enum normal_kind form, struct markview v, struct marked *out)
{
	struct str s = v.text;
	size_t odd = find_cut(form, s, 0, false);
	if (odd == s.n)
		return false;
	struct cps cps = {0};
	struct buf text = {0};
	size_t done = 0;
	while (odd < s.n) {
		/* Start one character earlier: the odd character may join the one before
		 * it. */
		size_t start = odd;
		if (start > done)
			do
				start--;
			while (((unsigned char)s.p[start] & 0xC0) == 0x80);
		size_t end = find_cut(form, s, odd, true);
		markview_copy(v, done, start, out);
		normalize_piece(form, v, start, end, &cps, &text, out);
		done = end;
		odd = find_cut(form, s, end, false);
	}
	markview_copy(v, done, s.n, out);
	free(cps.p);
	buf_deinit(&text);
	return true;
}

/* --- characters --------------------------------------------------------------- */

static bool each_char(enum normal_kind kind, struct markview v, struct marked *out)
{
	size_t done = 0;
	for (size_t at = 0, n; at < v.text.n; at += n) {
		uint32_t cp, second = 0;
		n = utf8_decode((struct str){v.text.p + at, v.text.n - at}, &cp);
		uint32_t to = kind == NORMAL_LOWER ? unicode_lower(cp, &second) : cp;
		bool is_gone = kind == NORMAL_STRIP_ACCENTS && unicode_is_mark(cp);
		if (to == cp && !is_gone)
			continue;
		markview_copy(v, done, at, out);
		done = at + n;
		char text[8];
		size_t length = is_gone ? 0 : utf8_encode(to, text);
		if (second)
			length += utf8_encode(second, text + length);
		if (length)
			marked_add(out, (struct str){text, length}, markview_least(v, at, at + n));
	}
	markview_copy(v, done, v.text.n, out);
	return true;
}

static bool strip(const struct normal_step *def, struct markview v, struct marked *out)
{
	size_t start = v.text.n, end = 0;
	for (size_t at = 0, n; at < v.text.n; at += n) {
		uint32_t cp;
		n = utf8_decode((struct str){v.text.p + at, v.text.n - at}, &cp);
		if (berttext_is_space(cp))
			continue;
		start = MIN(start, at);
		end = at + n;
	}
	start = def->left ? start : 0;
	end = def->right ? end : v.text.n;
	if (start < end)
		markview_copy(v, start, end, out);
	return true;
}

/* --- texts --------------------------------------------------------------------- */

static enum status replace(const struct step *s, struct markview v, struct marked *out,
			   struct fail *fail)
{
	struct regex_work *w = regex_work_create();
	if (!w)
		return fail_default(fail, E_NOMEM);
	struct str text = regex_begin(w, v.text);
	size_t done = 0, start = 0, end = 0;
	bool found = true;
	enum status st = OK;
	while (st == OK && done < v.text.n) {
		st = regex_find(s->regex, w, text, done, &found, &start, &end, fail);
		if (st != OK || !found)
			break;
		if (start >= end || start < done) {
			st = fail_set(fail, E_UNSUPPORTED, "a replacement of nothing");
			break;
		}
		markview_copy(v, done, start, out);
		marked_add(out, s->def.content, markview_least(v, start, end));
		done = end;
	}
	if (st == OK)
		markview_copy(v, done, v.text.n, out);
	regex_work_destroy(w);
	return st;
}

static enum status normalize_run(const struct step *s, struct markview v, struct marked *out,
				 bool *out_changed, struct fail *fail)
{
	*out_changed = true;
	switch (s->def.kind) {
	case NORMAL_NFC:
	case NORMAL_NFD:
	case NORMAL_NFKC:
	case NORMAL_NFKD:
		*out_changed = normalize(s->def.kind, v, out);
		break;
	case NORMAL_LOWER:
	case NORMAL_STRIP_ACCENTS:
		*out_changed = each_char(s->def.kind, v, out);
		break;
	case NORMAL_STRIP:
		*out_changed = strip(&s->def, v, out);
		break;
	case NORMAL_REPLACE:
		return replace(s, v, out, fail);
	case NORMAL_PREPEND:
		marked_add(out, s->def.content, markview_least(v, 0, 1));
		markview_copy(v, 0, v.text.n, out);
		break;
	}
	return OK;
}

enum status normalizer_run(const struct normalizer *n, struct markview v, struct marked *out,
			   bool *out_changed, struct fail *fail)
{
	struct marked now = {0};
	enum status st = OK;
	*out_changed = false;
	for (int i = 0; i < n->n_steps && st == OK && v.text.n; i++) {
		struct marked next = {0};
		bool has_changed = false;
		st = normalize_run(&n->steps[i], v, &next, &has_changed, fail);
		if (!has_changed)
			continue;
		*out_changed = true;
		marked_deinit(&now);
		now = next;
		v = markview_of(&now);
	}
	if (st == OK && *out_changed && now.text.n)
		markview_copy(v, 0, v.text.n, out);
	marked_deinit(&now);
	return st;
}

static struct str copy(struct str s)
{
	return (struct str){xstrndup(s.p ? s.p : "", s.n), s.n};
}

enum status normalizer_create(const struct normal_step *steps, int n_steps,
			      struct normalizer **out, struct fail *fail)
{
	struct normalizer *n = xcalloc(1, sizeof *n + (size_t)n_steps * sizeof *n->steps);
	enum status st = OK;
	for (int i = 0; i < n_steps && st == OK; i++) {
		struct step *s = &n->steps[n->n_steps++];
		struct fail why = {0};
		s->def = steps[i];
		s->def.pattern = copy(steps[i].pattern);
		s->def.content = copy(steps[i].content);
		if (s->def.kind == NORMAL_REPLACE)
			st = regex_create(s->def.pattern, s->def.is_literal, true, &s->regex, &why);
		if (st != OK) {
			fail_default(&why, st);
			fail_set(fail, st, "normalizer step %d: %s", i, why.text);
		}
	}
	if (st != OK) {
		normalizer_destroy(n);
		return st;
	}
	*out = n;
	return OK;
}

void normalizer_destroy(struct normalizer *n)
{
	if (!n)
		return;
	for (int i = 0; i < n->n_steps; i++) {
		regex_destroy(n->steps[i].regex);
		free((char *)(uintptr_t)n->steps[i].def.pattern.p);
		free((char *)(uintptr_t)n->steps[i].def.content.p);
	}
	free(n);
}
