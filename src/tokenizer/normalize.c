/* SPDX-License-Identifier: Apache-2.0
 *
 * Unicode normalization form C. utf8proc provides the tables. The loop is ours for two
 * reasons. First, utf8proc_map() orders combining marks by exchanging neighbours. Its
 * time is quadratic in the length of a run, and a client chooses that length. Second, it
 * cannot say which input became which output, but the trust marks need to know.
 *
 * The text is therefore cut into pieces where no character can join the one before it.
 * Only pieces that hold something to normalize are decomposed, sorted by combining class
 * and composed. An unchanged piece keeps its marks. A changed piece takes the lowest
 * trust found in it.
 *
 * A cut is possible before each character
 * - below U+0300, which is the first combining mark;
 * - of the CJK ideographs U+4E00..U+9FFF;
 * - of the Hangul syllables U+AC00..U+D7A3. A following jamo may join a syllable, but a
 * syllable joins nothing before it.
 *
 * All these characters are in NFC themselves. Unicode's stability policy guarantees that
 * this stays so.
 */
#include "tokenizer/normalize.h"

#include <stdlib.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"

static bool starts_piece(uint32_t cp)
{
	return cp < 0x300 || (cp >= 0x4E00 && cp <= 0x9FFF) ||
	       (cp >= 0xAC00 && cp <= 0xD7A3);
}

/* Offset of the first character at or after byte i that starts a piece (want: true) or
 * that starts none (want: false). */
static size_t find_cut(struct str s, size_t i, bool want)
{
	while (i < s.n) {
		uint32_t cp;
		size_t len = utf8_decode((struct str){s.p + i, s.n - i}, &cp);
		if (starts_piece(cp) == want)
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

static void decompose(struct str s, struct cps *out)
{
	for (size_t i = 0; i < s.n;) {
		uint32_t cp;
		i += utf8_decode((struct str){s.p + i, s.n - i}, &cp);
		/* enough: the longest canonical decomposition has four characters */
		utf8proc_int32_t d[8];
		int boundclass = UTF8PROC_BOUNDCLASS_START;
		utf8proc_ssize_t n = utf8proc_decompose_char(
			(utf8proc_int32_t)cp, d, ARRAY_LEN(d),
			UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundclass);
		if (n < 1 || n > (utf8proc_ssize_t)ARRAY_LEN(d)) {
			d[0] = (utf8proc_int32_t)cp;
			n = 1;
		}
		for (utf8proc_ssize_t k = 0; k < n; k++)
			add_cp(out, d[k]);
	}
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

static void normalize_piece(struct markview v, size_t start, size_t end,
			    struct cps *cps, struct buf *text,
			    struct marked *out)
{
	struct str s = {v.text.p + start, end - start};
	cps->n = 0;
	decompose(s, cps);
	order_marks(cps);
	utf8proc_ssize_t n = utf8proc_normalize_utf32(
		cps->p, (utf8proc_ssize_t)cps->n,
		UTF8PROC_COMPOSE | UTF8PROC_STABLE);
	buf_clear(text);
	for (utf8proc_ssize_t i = 0; i < n; i++) {
		char c[4];
		buf_add(text, c, utf8_encode((uint32_t)cps->p[i], c));
	}
	if (str_eq(buf_str(text), s))
		markview_copy(v, start, end, out);
	else
		marked_add(out, buf_str(text), markview_least(v, start, end));
}

bool normalize_nfc(struct markview v, struct marked *out)
{
	struct str s = v.text;
	size_t odd = find_cut(s, 0, false);
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
		size_t end = find_cut(s, odd, true);
		markview_copy(v, done, start, out);
		normalize_piece(v, start, end, &cps, &text, out);
		done = end;
		odd = find_cut(s, end, false);
	}
	markview_copy(v, done, s.n, out);
	free(cps.p);
	buf_deinit(&text);
	return true;
}
