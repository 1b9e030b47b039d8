/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds added tokens with a trie that is walked from every byte that begins some token.
 * Hugging Face builds an automaton; both find the leftmost, then longest match. We walk
 * the trie ourselves because the writer of the text may forbid a match. The search must
 * then still find a shorter match at the same place, or one inside, as if the forbidden
 * token did not exist.
 *
 * The effects of a match follow Hugging Face in this order:
 * - A token refused for single_word still uses up its text, so nothing is found inside
 * it.
 * - lstrip takes white space back to the end of the last match.
 * - rstrip takes the white space after the token. The search still continues right after
 * the token itself. A token made of white space may thus be found in what rstrip took,
 * and the two ranges overlap.
 */
#include "tokenizer/added.h"

#include <stdlib.h>

#include <utf8proc.h>

#include "base/alloc.h"
#include "base/utf8.h"

struct added_node {
	int32_t child, sibling; /* node indices; 0: no such node */
	int32_t i_token;        /* index of the token that ends here; -1: none */
	unsigned char byte;
};

struct added {
	struct added_node *nodes;
	int32_t n_nodes, cap_nodes;
	int32_t root[256]; /* node index for each first byte; 0: no token begins with this byte */
	struct known {
		struct added_token token; /* its text is not kept: the trie has the bytes */
		bool is_blank;            /* white space only, so anyone may write it */
	} *known;
	int32_t n_known;
	bool has_blank;
	bool space_is_text;
};

static int32_t add_node(struct added *a, unsigned char byte)
{
	if (a->n_nodes == a->cap_nodes) {
		a->cap_nodes = a->cap_nodes ? a->cap_nodes * 2 : 64;
		a->nodes = xrealloc(a->nodes, (size_t)a->cap_nodes *
						      sizeof *a->nodes);
	}
	a->nodes[a->n_nodes] = (struct added_node){.i_token = -1, .byte = byte};
	return a->n_nodes++;
}

struct added *added_create(bool space_is_text)
{
	struct added *a = xcalloc(1, sizeof *a);
	a->space_is_text = space_is_text;
	add_node(a, 0); /* reserve node 0, because index 0 means "no node" */
	return a;
}

void added_destroy(struct added *a)
{
	if (!a)
		return;
	free(a->nodes);
	free(a->known);
	free(a);
}

static int32_t find_child(const struct added *a, int32_t node,
			  unsigned char byte)
{
	int32_t c = a->nodes[node].child;
	while (c && a->nodes[c].byte != byte)
		c = a->nodes[c].sibling;
	return c;
}

/* Vocabularies have runs of spaces as added tokens, for source text. They control nothing. */
static bool is_blank(struct str text)
{
	size_t i = 0;
	while (i < text.n && is_char_of((unsigned char)text.p[i], " \t\r\n"))
		i++;
	return i == text.n;
}

void added_insert(struct added *a, struct str text,
		  const struct added_token *token)
{
	unsigned char first = (unsigned char)text.p[0];
	if (!a->root[first])
		a->root[first] = add_node(a, first);
	int32_t node = a->root[first];
	for (size_t i = 1; i < text.n; i++) {
		unsigned char byte = (unsigned char)text.p[i];
		int32_t next = find_child(a, node, byte);
		if (!next) {
			next = add_node(a, byte);
			a->nodes[next].sibling = a->nodes[node].child;
			a->nodes[node].child = next;
		}
		node = next;
	}
	if (a->nodes[node].i_token >= 0)
		return;
	a->known = xrealloc(a->known, ((size_t)a->n_known + 1) * sizeof *a->known);
	struct known *k = &a->known[a->n_known];
	*k = (struct known){*token, !token->special && is_blank(text)};
	k->token.text = (struct str){0};
	a->has_blank |= k->is_blank;
	a->nodes[node].i_token = a->n_known++;
}

/* Unicode's White_Space, and Rust's \w. \w has Alphabetic (letters, letter numbers, circled
 * letters), marks, digits and connector and joiner characters. */
static bool is_space(uint32_t cp)
{
	if (cp < 0x80)
		return cp == ' ' || (cp >= '\t' && cp <= '\r');
	utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
	return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL ||
	       c == UTF8PROC_CATEGORY_ZP || cp == 0x85;
}

static bool is_word(uint32_t cp)
{
	switch (utf8proc_category((utf8proc_int32_t)cp)) {
	case UTF8PROC_CATEGORY_LU:
	case UTF8PROC_CATEGORY_LL:
	case UTF8PROC_CATEGORY_LT:
	case UTF8PROC_CATEGORY_LM:
	case UTF8PROC_CATEGORY_LO:
	case UTF8PROC_CATEGORY_NL:
	case UTF8PROC_CATEGORY_ND:
	case UTF8PROC_CATEGORY_MN:
	case UTF8PROC_CATEGORY_MC:
	case UTF8PROC_CATEGORY_ME:
	case UTF8PROC_CATEGORY_PC:
		return true;
	case UTF8PROC_CATEGORY_SO:
		return (cp >= 0x24B6 && cp <= 0x24E9) ||
		       (cp >= 0x1F130 && cp <= 0x1F149) ||
		       (cp >= 0x1F150 && cp <= 0x1F169) ||
		       (cp >= 0x1F170 && cp <= 0x1F189);
	default:
		return cp == 0x200C || cp == 0x200D;
	}
}

static uint32_t char_after(struct str s, size_t at, size_t *out_end)
{
	uint32_t cp;
	*out_end = at + utf8_decode((struct str){s.p + at, s.n - at}, &cp);
	return cp;
}

static uint32_t char_before(struct str s, size_t at, size_t *out_start)
{
	do
		at--;
	while (at > 0 && ((unsigned char)s.p[at] & 0xC0) == 0x80);
	*out_start = at;
	return char_after(s, at, &(size_t){0});
}

static bool is_single_word(struct str s, size_t start, size_t end)
{
	size_t i;
	return !(start > 0 && is_word(char_before(s, start, &i))) &&
	       !(end < s.n && is_word(char_after(s, end, &i)));
}

static bool may_strip(const struct added *a, uint32_t cp)
{
	return is_space(cp) && !(cp == ' ' && a->space_is_text);
}

static size_t strip_left(const struct added *a, struct str s, size_t start, size_t stop)
{
	while (start > stop) {
		size_t before;
		if (!may_strip(a, char_before(s, start, &before)))
			break;
		start = before;
	}
	return MAX(start, stop);
}

/* Caches the measured run in s: tokens that are white space themselves would otherwise
 * measure the same run again and again, in quadratic time. */
static size_t strip_right(struct added_scan *s, size_t end)
{
	if (end >= s->space_start && end <= s->space_end)
		return s->space_end;
	s->space_start = end;
	while (end < s->v.text.n) {
		size_t after;
		if (!may_strip(s->a, char_after(s->v.text, end, &after)))
			break;
		end = after;
	}
	return s->space_end = end;
}

static bool may_write(enum trust trust, const struct known *k)
{
	return trust == TRUST_TEMPLATE || k->is_blank ||
	       (trust == TRUST_MODEL && !k->token.special);
}

/* The longest token at byte `at` that the writers of its bytes may write; NULL: none. */
static const struct added_token *longest_at(const struct added *a,
					    struct markview v, size_t at,
					    size_t *out_end)
{
	const struct added_token *best = NULL;
	int32_t node = a->root[(unsigned char)v.text.p[at]];
	for (size_t i = at + 1; node; i++) {
		int32_t t = a->nodes[node].i_token;
		if (t >= 0 &&
		    may_write(markview_least(v, at, i), &a->known[t])) {
			best = &a->known[t].token;
			*out_end = i;
		}
		if (i == v.text.n)
			break;
		node = find_child(a, node, (unsigned char)v.text.p[i]);
	}
	return best;
}

/* Finds the first permitted token at or after byte s->at. */
static const struct added_token *added_find(struct added_scan *s, size_t *out_start,
					    size_t *out_end)
{
	struct str text = s->v.text;
	if (s->a->n_known == 0)
		return NULL;
	size_t i = s->at;
	while (i < text.n) {
		enum trust trust;
		size_t run_end = markview_run_end(s->v, i, &trust);
		if (trust == TRUST_USER && !s->a->has_blank)
			i = run_end;
		for (; i < run_end; i++) {
			if (!s->a->root[(unsigned char)text.p[i]])
				continue;
			const struct added_token *t =
				longest_at(s->a, s->v, i, out_end);
			if (t) {
				*out_start = i;
				return t;
			}
		}
	}
	return NULL;
}

void added_scan_init(struct added_scan *s, const struct added *a,
		     struct markview v)
{
	*s = (struct added_scan){.a = a, .v = v, .space_start = 1};
}

bool added_scan_next(struct added_scan *s, struct added_match *out)
{
	size_t start, end;
	const struct added_token *t;
	while ((t = added_find(s, &start, &end))) {
		s->at = end;
		if (t->single_word && !is_single_word(s->v.text, start, end))
			continue;
		if (t->lstrip)
			start = strip_left(s->a, s->v.text, start, s->done);
		if (t->rstrip)
			end = strip_right(s, end);
		*out = (struct added_match){start, end, t->id};
		s->done = end;
		return true;
	}
	return false;
}
