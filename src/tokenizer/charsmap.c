/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/charsmap.h"

#include <stdlib.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum { LONGEST = 6 }; /* a grapheme is looked up as a whole only if it has fewer bytes */

struct charsmap {
	uint32_t *units;
	size_t n_units;
	struct buf texts; /* the texts of all entries; ends in NUL */
};

static uint32_t le32(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;
	return u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

enum status charsmap_create(struct str blob, struct charsmap **out, struct fail *fail)
{
	size_t n = blob.n < 4 ? 0 : le32(blob.p);
	if (n == 0 || n % 4 || n > blob.n - 4)
		return fail_set(fail, E_FORMAT, "the charsmap's trie has a wrong size");
	struct str texts = {blob.p + 4 + n, blob.n - 4 - n};
	if (utf8_check(texts) >= 0)
		return fail_set(fail, E_FORMAT, "the charsmap's texts are not UTF-8");
	struct charsmap *c = xcalloc(1, sizeof *c);
	c->n_units = n / 4;
	c->units = xmalloc(n);
	for (size_t i = 0; i < c->n_units; i++)
		c->units[i] = le32(blob.p + 4 + 4 * i);
	buf_add_str(&c->texts, texts);
	buf_add_c(&c->texts, '\0');
	*out = c;
	return OK;
}

void charsmap_destroy(struct charsmap *c)
{
	if (!c)
		return;
	free(c->units);
	buf_deinit(&c->texts);
	free(c);
}

static size_t offset_of(uint32_t unit)
{
	return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Find the shortest entry that s begins with, and its text. False: there is none. */
static bool charsmap_find(const struct charsmap *c, struct str s, struct str *out)
{
	size_t at = offset_of(c->units[0]);
	for (size_t i = 0; i < s.n && s.p[i]; i++) {
		unsigned char byte = (unsigned char)s.p[i];
		at ^= byte;
		if (at >= c->n_units || (c->units[at] & (1u << 31 | 0xFF)) != byte)
			return false;
		bool is_entry = c->units[at] >> 8 & 1;
		at ^= offset_of(c->units[at]);
		if (is_entry) {
			size_t text = at < c->n_units ? c->units[at] & ~(1u << 31) : SIZE_MAX;
			if (text >= c->texts.n)
				return false;
			*out = str_of(c->texts.p + text);
			return true;
		}
	}
	return false;
}

/* The offset just after the grapheme that begins at `from`. */
static size_t grapheme_end(struct str s, size_t from)
{
	utf8proc_int32_t state = 0;
	uint32_t last, cp;
	size_t at = from + utf8_decode((struct str){s.p + from, s.n - from}, &last);
	while (at < s.n) {
		size_t n = utf8_decode((struct str){s.p + at, s.n - at}, &cp);
		if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)last,
						     (utf8proc_int32_t)cp, &state))
			break;
		last = cp;
		at += n;
	}
	return at;
}

static bool replace(const struct charsmap *c, struct markview v, size_t from, size_t to,
		    struct marked *out)
{
	struct str text;
	if (!charsmap_find(c, (struct str){v.text.p + from, to - from}, &text))
		return false;
	marked_add(out, text, markview_least(v, from, to));
	return true;
}

void charsmap_run(const struct charsmap *c, struct markview v, struct marked *out)
{
	for (size_t from = 0, end; from < v.text.n; from = end) {
		end = grapheme_end(v.text, from);
		if (end - from < LONGEST && replace(c, v, from, end, out))
			continue;
		for (size_t i = from, n; i < end; i += n) {
			uint32_t cp;
			n = utf8_decode((struct str){v.text.p + i, end - i}, &cp);
			if (!replace(c, v, i, i + n, out))
				markview_copy(v, i, i + n, out);
		}
	}
}
