/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns regular expressions of JSON Schema and clients into languages. The syntax is
 * ECMA-262, plus what Python and PCRE share. Constructs that are not regular (back
 * references) or rare are refused by name and place.
 *
 *   alternation -> sequence ("|" sequence)*
 *   sequence    -> (atom quantifier?)*
 *   atom        -> character | "." | class | escape | "^" | "$" | group
 *   group       -> "(" alternation ")" | "(?:" … | "(?=" … | "(?!" …
 *
 * Anchors and look-ahead are first read as terms of their own. After the whole regex is
 * read, they are resolved ("settled"). The place decides whether "^" holds. "$" and
 * look-ahead are intersected with the language of all that follows them.
 *
 * Classes are ASCII: \d is [0-9], as in ECMA, not the digits of every script.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "grammar/grammar_lang_private.h"

#define MAX_RANGES 4096

struct regex {
	struct lang_pool *p;
	struct str s;
	size_t at;
	int nesting, n_anchors;
	bool folds_case; /* (?i) */
	bool is_search;  /* the match may begin anywhere in the text */
	struct fail *fail;
	enum status st;
};

struct ranges {
	struct grammar_range *r;
	size_t n, cap;
};

static void add_range(struct ranges *to, uint32_t lo, uint32_t hi)
{
	if (to->n == to->cap) {
		to->cap = to->cap ? 2 * to->cap : 8;
		to->r = xrealloc(to->r, to->cap * sizeof *to->r);
	}
	to->r[to->n++] = (struct grammar_range){lo, hi};
}

static void refuse(struct regex *x, const char *why)
{
	if (x->st == OK)
		x->st = fail_set(x->fail, E_INVAL, "%s, at character %zu of the regex",
				 why, utf8_count((struct str){x->s.p, x->at}) + 1);
}

static bool is_end(const struct regex *x)
{
	return x->st != OK || x->at >= x->s.n;
}

static char peek(const struct regex *x)
{
	return is_end(x) ? '\0' : x->s.p[x->at];
}

static bool eat(struct regex *x, const char *lit)
{
	size_t n = strlen(lit);
	if (is_end(x) || x->s.n - x->at < n || memcmp(x->s.p + x->at, lit, n) != 0)
		return false;
	x->at += n;
	return true;
}

static uint32_t next_char(struct regex *x)
{
	uint32_t cp;
	struct str rest = {x->s.p + x->at, x->s.n - x->at};
	x->at += utf8_decode(rest, &cp);
	return cp;
}

/* --- characters ---------------------------------------------------------- */

/* Adds the ASCII letters in the other case. */
static void fold_case(struct ranges *r)
{
	for (size_t i = 0, n = r->n; i < n; i++)
		for (uint32_t c = 'A'; c <= 'Z'; c++) {
			struct grammar_range own = r->r[i];
			if (own.lo <= c && c <= own.hi)
				add_range(r, c | 0x20, c | 0x20);
			if (own.lo <= (c | 0x20) && (c | 0x20) <= own.hi)
				add_range(r, c, c);
		}
}

/* The class of these characters, or (negated) of all others. Frees r. */
static lang class_of(struct regex *x, struct ranges *r, bool is_negated)
{
	if (x->folds_case)
		fold_case(r);
	size_t n = r->r ? range_normalize(r->r, r->n) : 0;
	struct grammar_range *use = r->r, *neg = xmalloc((n + 2) * sizeof *neg);
	if (is_negated) {
		n = range_negate(r->r, n, neg);
		use = neg;
	}
	/* Of surrogates alone nothing is left. That is no fault: other branches may be there. */
	if (n == 0 && (is_negated || r->n == 0))
		refuse(x, "a class without characters");
	lang out = lang_class(x->p, use, n);
	free(neg);
	free(r->r);
	return out;
}

/* Reads n hexadecimal digits. */
static uint32_t read_hex(struct regex *x, int n)
{
	uint32_t v = 0;
	if (!grammar_read_hex(x->s, &x->at, n, &v))
		refuse(x, "a hexadecimal digit is missing");
	return v;
}

static uint32_t read_unicode(struct regex *x)
{
	if (!eat(x, "{"))
		return read_hex(x, 4);
	int n = 0;
	while (x->at + (size_t)n < x->s.n && x->s.p[x->at + (size_t)n] != '}' && n < 7)
		n++;
	uint32_t cp = n <= 6 ? read_hex(x, n) : 0;
	if (!eat(x, "}") || cp > 0x10FFFF)
		refuse(x, "a code point that is none");
	return cp;
}

/* Adds p{Name} or P{Name} to r. */
static bool add_property(struct regex *x, struct ranges *r, bool is_negated)
{
	size_t end = x->at + 2;
	while (end < x->s.n && x->s.p[end] != '}')
		end++;
	struct str name = {x->s.p + x->at + 2, end - x->at - 2};
	struct grammar_range *own = NULL;
	size_t n = 0;
	if (end < x->s.n && x->s.p[x->at + 1] == '{')
		n = grammar_unicode_class(name, &own);
	if (n == 0) {
		refuse(x, "a Unicode property that is not supported");
		return false;
	}
	struct grammar_range *neg = xmalloc((n + 2) * sizeof *neg);
	size_t n_neg = range_negate(own, n, neg);
	for (size_t i = 0; i < (is_negated ? n_neg : n); i++)
		add_range(r, is_negated ? neg[i].lo : own[i].lo,
			  is_negated ? neg[i].hi : own[i].hi);
	lang_work(x->p, 1000);
	free(neg);
	free(own);
	x->at = end + 1;
	return true;
}

/* Adds \d, \w and similar classes to r. False: the escape is none of them. */
static bool add_named(struct regex *x, struct ranges *r)
{
	uint32_t c = (uint8_t)peek(x);
	if (c == 'p' || c == 'P')
		return add_property(x, r, c == 'P');
	static const struct grammar_range digit[] = {{'0', '9'}};
	static const struct grammar_range word[] = {
		{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
	static const struct grammar_range space[] = {
		{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680},
		{0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
		{0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
	static const struct {
		char name;
		const struct grammar_range *r;
		size_t n;
	} named[] = {{'d', digit, ARRAY_LEN(digit)},
		     {'w', word, ARRAY_LEN(word)},
		     {'s', space, ARRAY_LEN(space)}};
	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		struct grammar_range neg[ARRAY_LEN(space) + 2];
		const struct grammar_range *use = named[i].r;
		size_t n = named[i].n;
		if (c == (uint32_t)(named[i].name - 'a' + 'A')) {
			n = range_negate(use, n, neg);
			use = neg;
		} else if (c != (uint32_t)named[i].name) {
			continue;
		}
		for (size_t k = 0; k < n; k++)
			add_range(r, use[k].lo, use[k].hi);
		x->at++;
		return true;
	}
	return false;
}

/* Reads an escape that is a single character, after its backslash. Returns the code
 * point. */
static uint32_t read_escape(struct regex *x, bool in_class)
{
	uint32_t c = next_char(x);
	switch (c) {
	case 'n': return '\n';
	case 't': return '\t';
	case 'r': return '\r';
	case 'f': return '\f';
	case 'v': return '\v';
	case 'x': return read_hex(x, 2);
	case 'u': return read_unicode(x);
	case '0':
		if (peek(x) >= '0' && peek(x) <= '9')
			refuse(x, "an octal escape");
		return 0;
	case 'b':
		if (in_class)
			return '\b';
		break;
	default: break;
	}
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	    (c >= 'A' && c <= 'Z') || c == UTF8_BAD) {
		x->at--;
		refuse(x, c >= '1' && c <= '9'
			  ? "back references are not supported"
			  : c == 'b' || c == 'B'
			  ? "a word boundary that is not supported here"
			  : "an escape that is not supported");
	}
	return c;
}

/* Reads one character or named class within brackets. False: it was a named class. */
static bool read_class_item(struct regex *x, struct ranges *r, uint32_t *out_cp)
{
	uint32_t c = next_char(x);
	*out_cp = c;
	if (c != '\\')
		return true;
	if (is_end(x)) {
		refuse(x, "a backslash at the end");
		return true;
	}
	if (add_named(x, r))
		return false;
	*out_cp = read_escape(x, true);
	return true;
}

static lang read_class(struct regex *x)
{
	struct ranges r = {0};
	bool is_negated = eat(x, "^");
	bool is_first = true;
	while (!is_end(x) && (peek(x) != ']' || (is_first && x->s.n > x->at + 1 &&
						 x->s.p[x->at + 1] == ']'))) {
		uint32_t lo, hi;
		is_first = false;
		if (x->s.p[x->at] == '[' && x->at + 1 < x->s.n &&
		    is_char_of(x->s.p[x->at + 1], ":.=")) {
			refuse(x, "POSIX classes are not supported");
			break;
		}
		bool is_char = read_class_item(x, &r, &lo);
		bool is_range = is_char && peek(x) == '-' && x->at + 1 < x->s.n &&
				x->s.p[x->at + 1] != ']';
		hi = lo;
		if (is_range) {
			x->at++;
			if (!read_class_item(x, &r, &hi) || hi < lo)
				refuse(x, "a range that is none");
		}
		if (is_char)
			add_range(&r, lo, hi);
		if (r.n > MAX_RANGES)
			refuse(x, "a class of too many ranges");
	}
	if (!eat(x, "]"))
		refuse(x, "a class is not closed");
	return class_of(x, &r, is_negated);
}

/* --- structure ----------------------------------------------------------- */

static lang read_alternation(struct regex *x);

static lang grammar_regex_place(struct regex *x, enum term_kind kind, lang of)
{
	const struct term *t = &x->p->terms[of];
	return lang_term(x->p, (struct term){
		.kind = kind, .a = of, .has_begin = kind == TERM_BEGIN || t->has_begin,
		.has_place = kind != TERM_BEGIN,
		.is_boolean = kind == TERM_AHEAD || kind == TERM_NOT_AHEAD});
}

/* Reads the kind of group after "(?". *out_ahead is set if it is a look-ahead. */
static void read_group_kind(struct regex *x, enum term_kind *out_ahead)
{
	if (eat(x, "=")) {
		*out_ahead = TERM_AHEAD;
	} else if (eat(x, "!")) {
		*out_ahead = TERM_NOT_AHEAD;
	} else if (eat(x, "<") || eat(x, "P<")) {
		while (!is_end(x) && peek(x) != '>')
			x->at++;
		if (!eat(x, ">"))
			refuse(x, "a group's name is not closed");
	} else if (!eat(x, ":")) {
		refuse(x, "a kind of group that is not supported");
	}
}

static lang read_group(struct regex *x)
{
	enum term_kind ahead = TERM_NONE;
	if (eat(x, "?"))
		read_group_kind(x, &ahead);
	if (++x->nesting > GRAMMAR_MAX_NESTING)
		refuse(x, "groups are nested too deeply");
	lang out = x->st == OK ? read_alternation(x) : LANG_NONE;
	x->nesting--;
	if (!eat(x, ")"))
		refuse(x, "a group is not closed");
	return ahead ? grammar_regex_place(x, ahead, out) : out;
}

/* True at a count: "{3". As in Python, any other "{" is a plain character. */
static bool is_count(const struct regex *x)
{
	char c = x->at + 1 < x->s.n && peek(x) == '{' ? x->s.p[x->at + 1] : '\0';
	return c == ',' || (c >= '0' && c <= '9');
}

static lang read_atom(struct regex *x)
{
	static const struct grammar_range newline[] = {{'\n', '\n'}, {'\r', '\r'},
						       {0x2028, 0x2029}};
	struct ranges r = {0};
	char c = peek(x);
	if (eat(x, "("))
		return read_group(x);
	if (eat(x, "["))
		return read_class(x);
	if (eat(x, "^") || eat(x, "\\A"))
		return grammar_regex_place(x, TERM_BEGIN, LANG_EMPTY);
	if (eat(x, "$") || eat(x, "\\z") || eat(x, "\\Z"))
		return grammar_regex_place(x, TERM_END, LANG_EMPTY);
	if (c == '*' || c == '+' || c == '?' || is_count(x))
		refuse(x, "nothing to repeat");
	if (eat(x, ".")) {
		for (size_t i = 0; i < ARRAY_LEN(newline); i++)
			add_range(&r, newline[i].lo, newline[i].hi);
		return class_of(x, &r, true);
	}
	if (eat(x, "\\")) {
		if (is_end(x)) {
			refuse(x, "a backslash at the end");
		} else if (add_named(x, &r)) {
			return class_of(x, &r, false);
		} else {
			uint32_t cp = read_escape(x, false);
			add_range(&r, cp, cp);
		}
	} else {
		uint32_t cp = next_char(x);
		add_range(&r, cp, cp);
	}
	return class_of(x, &r, false);
}

/* Reads {m}, {m,}, {m,n} or Python's {,n}. */
static void read_counts(struct regex *x, uint32_t *min, uint32_t *max)
{
	if (!grammar_read_count(x->s, &x->at, min))
		*min = 0;
	*max = *min;
	if (eat(x, ",") && !grammar_read_count(x->s, &x->at, max))
		*max = GRAMMAR_NO_MAX;
	if (!eat(x, "}") || *min > *max)
		refuse(x, "a repetition count that is none");
	if (*min > GRAMMAR_MAX_REPEAT ||
	    (*max > GRAMMAR_MAX_REPEAT && *max != GRAMMAR_NO_MAX))
		refuse(x, "a repetition count above a million");
}

static lang read_quantified(struct regex *x)
{
	lang l = read_atom(x);
	uint32_t min = 1, max = 1;
	if (is_end(x))
		return l;
	if (eat(x, "*"))
		min = 0, max = GRAMMAR_NO_MAX;
	else if (eat(x, "+"))
		max = GRAMMAR_NO_MAX;
	else if (eat(x, "?"))
		min = 0;
	else if (is_count(x) && eat(x, "{"))
		read_counts(x, &min, &max);
	else
		return l;
	if (peek(x) == '+')
		refuse(x, "possessive repetition is not supported");
	eat(x, "?"); /* a lazy quantifier matches the same language */
	return lang_repeat(x->p, l, min, max);
}

/* Reads a look-behind, which constrains all text before it. That text is known only if
 * the look-behind is at the top level of a regex that begins with an anchor. */
static bool read_behind(struct regex *x, lang *so_far, bool is_begun)
{
	bool is_not = eat(x, "(?<!");
	if (!is_not && !eat(x, "(?<="))
		return false;
	if (!is_begun || x->nesting > 0)
		refuse(x, "look-behind is not supported here");
	x->nesting++;
	lang before = x->st == OK ? read_alternation(x) : LANG_NONE;
	x->nesting--;
	if (!eat(x, ")"))
		refuse(x, "a group is not closed");
	const struct term *t = &x->p->terms[before];
	if (t->has_begin || t->has_place)
		refuse(x, "look-behind with anchors is not supported");
	if (x->st != OK)
		return true;
	before = lang_cat(x->p, LANG_ANY, before);
	*so_far = lang_and(x->p, *so_far, is_not ? lang_not(x->p, before) : before);
	return true;
}

/* The texts of `before` that end at a word boundary; is_not: that end at no boundary. An
 * empty text ends at a boundary if a letter, a digit or "_" follows. */
static lang bounded(struct regex *x, lang before, bool is_not)
{
	static const struct grammar_range word[] = {
		{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
	lang one = lang_class(x->p, word, ARRAY_LEN(word));
	lang words = lang_cat(x->p, LANG_ANY, one);
	lang in = grammar_regex_place(x, is_not ? TERM_AHEAD : TERM_NOT_AHEAD, one);
	lang out = grammar_regex_place(x, is_not ? TERM_NOT_AHEAD : TERM_AHEAD, one);
	return lang_alt(x->p, lang_cat(x->p, lang_and(x->p, before, words), in),
			lang_cat(x->p, lang_and(x->p, before, lang_not(x->p, words)), out));
}

/* Reads "\b" or "\B" behind an item and changes the item; item NULL: nothing precedes.
 * False: what precedes is not known here. */
static bool read_boundary(struct regex *x, lang *item, lang *out)
{
	bool is_not = x->s.p[x->at + 1] == 'B';
	lang begin = grammar_regex_place(x, TERM_BEGIN, LANG_EMPTY);
	const struct term *t = item ? &x->p->terms[*item] : NULL;
	if (!item && x->nesting > 0)
		return false;
	if (item && *item != begin && (t->has_begin || t->has_place || t->is_nullable))
		return false;
	x->at += 2;
	if (item && *item != begin)
		*out = bounded(x, *item, is_not);
	else
		*out = lang_cat(x->p, begin, bounded(x, LANG_EMPTY, is_not));
	if (!item && x->is_search)
		*out = lang_alt(x->p, *out, bounded(x, lang_length(x->p, 1, 1), is_not));
	return true;
}

static bool is_boundary(const struct regex *x)
{
	return x->s.n - x->at > 1 && x->s.p[x->at] == '\\' &&
	       (x->s.p[x->at + 1] | 0x20) == 'b';
}

static lang read_sequence(struct regex *x)
{
	lang *items = NULL, out = LANG_EMPTY;
	size_t n = 0, cap = 0;
	bool is_begun = x->nesting == 0 && (peek(x) == '^' ||
		(x->s.n - x->at > 1 && memcmp(x->s.p + x->at, "\\A", 2) == 0));
	while (!is_end(x) && peek(x) != '|' && !(peek(x) == ')' && x->nesting > 0)) {
		if (peek(x) == ')') {
			refuse(x, "a parenthesis that was not opened");
			break;
		}
		if (n + 1 >= cap) {
			cap = cap ? 2 * cap : 16;
			items = xrealloc(items, cap * sizeof *items);
		}
		size_t at = x->at;
		if (x->s.n - at > 3 && memcmp(x->s.p + at, "(?<", 3) == 0 &&
		    is_char_of(x->s.p[at + 3], "=!")) {
			/* The look-behind needs all items before it as one language. */
			for (out = LANG_EMPTY; n > 0; n--)
				out = lang_cat(x->p, items[n - 1], out);
			read_behind(x, &out, is_begun);
			items[n++] = out;
		} else if (is_boundary(x) && read_boundary(x, n ? &items[n - 1] : NULL, &out)) {
			n -= n > 0;
			items[n++] = out;
		} else {
			items[n++] = read_quantified(x);
		}
	}
	/* joined from the end, so each step makes one term */
	for (out = LANG_EMPTY; n > 0; n--)
		out = lang_cat(x->p, items[n - 1], out);
	free(items);
	return out;
}

static lang read_alternation(struct regex *x)
{
	struct grammar_parts alts = {0};
	grammar_parts_add(&alts, read_sequence(x));
	while (eat(x, "|"))
		grammar_parts_add(&alts, read_sequence(x));
	lang out = x->st == OK ? lang_alt_of(x->p, alts.p, alts.n) : LANG_NONE;
	free(alts.p);
	return out;
}

/* --- places -------------------------------------------------------------- */

/* The alternatives of l that read no character: those of anchors and look-ahead only. */
static lang empty_part(struct regex *x, lang l)
{
	struct term t = x->p->terms[l];
	lang out = LANG_NONE;
	switch ((enum term_kind)t.kind) {
	case TERM_BEGIN: case TERM_END: case TERM_AHEAD: case TERM_NOT_AHEAD:
		return l;
	case TERM_CAT:
		return lang_cat(x->p, empty_part(x, t.a), empty_part(x, t.b));
	case TERM_ALT:
		for (uint32_t i = 0; i < t.b; i++)
			out = lang_alt(x->p, out, empty_part(x, x->p->kids[t.a + i]));
		return out;
	case TERM_REPEAT:
		return t.min == 0 ? LANG_EMPTY : empty_part(x, t.a);
	default:
		return t.is_nullable ? LANG_EMPTY : LANG_NONE;
	}
}

/* The alternatives of l that read at least one character. */
static lang other_part(struct regex *x, lang l)
{
	struct term t = x->p->terms[l];
	lang out = LANG_NONE;
	switch ((enum term_kind)t.kind) {
	case TERM_BEGIN: case TERM_END: case TERM_AHEAD: case TERM_NOT_AHEAD:
		return LANG_NONE;
	case TERM_CAT:
		return lang_alt(x->p, lang_cat(x->p, other_part(x, t.a), t.b),
				lang_cat(x->p, empty_part(x, t.a), other_part(x, t.b)));
	case TERM_ALT:
		for (uint32_t i = 0; i < t.b; i++)
			out = lang_alt(x->p, out, other_part(x, x->p->kids[t.a + i]));
		return out;
	case TERM_REPEAT:
		if (!t.has_begin && !t.has_place)
			break;
		if (t.max == 1)
			return other_part(x, t.a);
		refuse(x, "an anchor that is repeated is not supported");
		return LANG_NONE;
	default:
		break;
	}
	return lang_and(x->p, l, lang_length(x->p, 1, GRAMMAR_NO_MAX));
}

/* Removes TERM_BEGIN from l. "^" holds if is_first and no character was read before it. */
static lang settle_begin(struct regex *x, lang l, bool is_first)
{
	struct term t = x->p->terms[l];
	lang out;
	if (!t.has_begin)
		return l;
	if (++x->n_anchors > 200) {
		refuse(x, "too many anchors");
		return LANG_NONE;
	}
	switch ((enum term_kind)t.kind) {
	case TERM_BEGIN:
		return is_first ? LANG_EMPTY : LANG_NONE;
	case TERM_CAT:
		if (!is_first || !x->p->terms[t.b].has_begin)
			return lang_cat(x->p, settle_begin(x, t.a, is_first),
					settle_begin(x, t.b, false));
		out = lang_cat(x->p, settle_begin(x, other_part(x, t.a), true),
			       settle_begin(x, t.b, false));
		return lang_alt(x->p, out,
				lang_cat(x->p, settle_begin(x, empty_part(x, t.a), true),
					 settle_begin(x, t.b, true)));
	case TERM_ALT:
	case TERM_AND: {
		out = t.kind == TERM_ALT ? LANG_NONE : LANG_ANY;
		for (uint32_t i = 0; i < t.b; i++) {
			lang kid = settle_begin(x, x->p->kids[t.a + i], is_first);
			out = t.kind == TERM_ALT ? lang_alt(x->p, out, kid)
						 : lang_and(x->p, out, kid);
		}
		return out;
	}
	case TERM_REPEAT:
		if (t.max == 1)
			return lang_alt(x->p, settle_begin(x, t.a, is_first), LANG_EMPTY);
		refuse(x, "an anchor that is repeated is not supported");
		return LANG_NONE;
	case TERM_AHEAD: case TERM_NOT_AHEAD:
		return grammar_regex_place(x, t.kind, settle_begin(x, t.a, is_first));
	default:
		refuse(x, "an anchor that is not supported here");
		return LANG_NONE;
	}
}

static lang settle_rest(struct regex *x, lang l, lang rest);

/* Settles a repetition that contains anchors or look-ahead. */
static lang settle_repeat(struct regex *x, struct term t, lang rest)
{
	struct term of = x->p->terms[t.a];
	bool is_guarded = of.kind == TERM_CAT &&
			  x->p->terms[of.a].kind == TERM_NOT_AHEAD &&
			  x->p->terms[of.b].kind == TERM_CLASS;
	/* (?:(?!x).)* up to the end of the text: x occurs nowhere. */
	if (is_guarded && rest == LANG_EMPTY) {
		lang no = settle_rest(x, x->p->terms[of.a].a, LANG_ANY);
		no = lang_cat(x->p, LANG_ANY, lang_and(x->p, no,
			      lang_length(x->p, 1, GRAMMAR_NO_MAX)));
		return lang_and(x->p, lang_not(x->p, no),
				lang_repeat(x->p, of.b, t.min, t.max));
	}
	if (t.max > 8) {
		refuse(x, "an anchor or look-ahead that is repeated is not supported");
		return LANG_NONE;
	}
	lang out = rest;
	for (uint32_t i = t.max; i-- > 0;) {
		out = settle_rest(x, t.a, out);
		if (i >= t.min)
			out = lang_alt(x->p, out, rest);
	}
	return out;
}

/* Settles the items of a sequence, the last one first. The recursion's depth then does
 * not grow with the sequence's length. */
static lang settle_sequence(struct regex *x, lang l, lang rest)
{
	struct grammar_parts items = {0};
	for (; x->p->terms[l].kind == TERM_CAT; l = x->p->terms[l].b)
		grammar_parts_add(&items, x->p->terms[l].a);
	grammar_parts_add(&items, l);
	while (items.n > 0)
		rest = settle_rest(x, items.p[--items.n], rest);
	free(items.p);
	return rest;
}

/* The texts of l, each followed by a text of rest. "$" and look-ahead in l constrain rest
 * too. */
static lang settle_rest(struct regex *x, lang l, lang rest)
{
	struct term t = x->p->terms[l];
	lang out = LANG_NONE;
	if (!t.has_place)
		return lang_cat(x->p, l, rest);
	switch ((enum term_kind)t.kind) {
	case TERM_END:
		return x->p->terms[rest].is_nullable ? LANG_EMPTY : LANG_NONE;
	case TERM_AHEAD:
		return lang_and(x->p, settle_rest(x, t.a, LANG_ANY), rest);
	case TERM_NOT_AHEAD:
		out = lang_not(x->p, settle_rest(x, t.a, LANG_ANY));
		return lang_and(x->p, out, rest);
	case TERM_CAT:
		return settle_sequence(x, l, rest);
	case TERM_ALT:
		for (uint32_t i = 0; i < t.b; i++)
			out = lang_alt(x->p, out,
				       settle_rest(x, x->p->kids[t.a + i], rest));
		return out;
	case TERM_REPEAT:
		return settle_repeat(x, t, rest);
	case TERM_AND: /* from a look-behind, which must be at the end of the text */
		if (rest != LANG_EMPTY)
			refuse(x, "look-behind that is not supported here");
		out = LANG_ANY;
		for (uint32_t i = 0; i < t.b && x->st == OK; i++)
			out = lang_and(x->p, out,
				       settle_rest(x, x->p->kids[t.a + i], rest));
		return out;
	default:
		refuse(x, "an anchor or look-ahead that is not supported here");
		return LANG_NONE;
	}
}

/* Settles a whole regex. is_search: the match may begin anywhere in the text. */
static lang settle(struct regex *x, lang l, bool is_search)
{
	lang rest = is_search ? LANG_ANY : LANG_EMPTY;
	lang first = settle_rest(x, settle_begin(x, l, true), rest);
	if (!is_search)
		return first;
	if (!x->p->terms[l].has_begin)
		return lang_cat(x->p, LANG_ANY, first);
	lang later = settle_rest(x, settle_begin(x, l, false), rest);
	return lang_alt(x->p, first,
			lang_cat(x->p, lang_length(x->p, 1, GRAMMAR_NO_MAX), later));
}

enum status lang_regex(struct lang_pool *p, struct str text, bool is_search, lang *out,
		       struct fail *fail)
{
	struct regex x = {.p = p, .s = text, .fail = fail, .is_search = is_search};
	if (text.n > GRAMMAR_MAX_TEXT)
		return fail_set(fail, E_LIMIT, "the regex is longer than %u bytes",
				GRAMMAR_MAX_TEXT);
	if (utf8_check(text) >= 0)
		return fail_set(fail, E_INVAL, "the regex is not UTF-8");
	x.folds_case = eat(&x, "(?i)");
	lang l = read_alternation(&x);
	if (x.st == OK)
		l = settle(&x, l, is_search);
	if (x.st == OK && lang_is_over(p))
		return fail_set(fail, E_LIMIT, "the regex takes too much work");
	if (x.st == OK)
		*out = l;
	return x.st;
}

/* --- the grammar of one regex --------------------------------------------- */

static const char short_names[] = "bfnrt";
static const char short_chars[] = "\b\f\n\r\t";

grammar_part grammar_build_json_class(struct grammar_build *b,
				      const struct grammar_range *r, size_t n)
{
	static const struct grammar_range escaped[] = {
		{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
	struct ranges plain = {0};
	grammar_part alts[36];
	size_t n_alts = 1;
	bool has[0x80] = {0};
	for (size_t i = 0; i < n; i++) {
		uint32_t lo = r[i].lo;
		for (uint32_t c = lo; c <= MIN(r[i].hi, 0x7Fu); c++)
			has[c] = true;
		for (size_t k = 0; k < ARRAY_LEN(escaped) && lo <= r[i].hi; k++) {
			if (escaped[k].lo > lo)
				add_range(&plain, lo, MIN(r[i].hi, escaped[k].lo - 1));
			lo = MAX(lo, escaped[k].hi + 1);
		}
		if (lo <= r[i].hi)
			add_range(&plain, lo, r[i].hi);
	}
	alts[0] = grammar_build_class(b, plain.r, plain.n, false);
	free(plain.r);
	for (uint32_t c = 0; c < 0x80; c++) {
		char text[8];
		const char *at = c ? strchr(short_chars, (int)c) : NULL;
		if (!has[c] || (c > 0x1F && c != '"' && c != '\\'))
			continue;
		if (c > 0x1F)
			snprintf(text, sizeof text, "\\%c", (char)c);
		else if (at)
			snprintf(text, sizeof text, "\\%c",
				 short_names[at - short_chars]);
		else
			snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
		alts[n_alts++] = grammar_build_lit(b, str_of(text));
	}
	return grammar_build_alt(b, alts, n_alts);
}


enum status grammar_build_regex(struct grammar_build *b, struct str text,
				grammar_part *out, struct fail *fail)
{
	struct lang_pool *p = lang_pool_create();
	lang l;
	enum status st = lang_regex(p, text, false, &l, fail);
	if (st == OK)
		st = lang_part(p, l, b, false, out, fail);
	lang_pool_destroy(p);
	return st;
}

enum status grammar_create_regex(struct str text, struct grammar **out,
				 struct fail *fail)
{
	grammar_part part;
	struct grammar_build *b = grammar_build_create();
	uint32_t root = grammar_build_rule(b, STR("regex"));
	enum status st = grammar_build_regex(b, text, &part, fail);
	if (st == OK) {
		grammar_build_set_rule(b, root, part);
		st = grammar_build_finish(b, root, out, fail);
	}
	grammar_build_destroy(b);
	return st;
}
