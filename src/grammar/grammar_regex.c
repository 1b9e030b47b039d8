/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions as JSON Schema and clients write them (ECMA-262 with what
 * Python and PCRE share), to grammar parts. What is not regular (back references,
 * look-around, word boundaries) is refused by name and place.
 *
 *   alternation  ->  sequence ("|" sequence)*
 *   sequence     ->  "^"? (atom quantifier?)* "$"?     anchors at the top only
 *   atom         ->  character | "." | class | escape | "(" alternation ")"
 *
 * Classes are those of ASCII: \d is [0-9] as in ECMA, not every script's digits.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "grammar/grammar_private.h"

#define MAX_RANGES 4096

struct regex {
	struct grammar_build *b;
	const struct grammar_regex_opts *o;
	struct str s;
	size_t at;
	int nesting;
	struct fail *fail;
	enum status st;
};

/* A part with what is known of its length. */
struct piece {
	grammar_part part;
	uint32_t min, max; /* characters */
	bool is_class;
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

static uint32_t add_sat(uint32_t a, uint32_t b)
{
	return a > GRAMMAR_NO_MAX - b ? GRAMMAR_NO_MAX : a + b;
}

static uint32_t mul_sat(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;
	return a == 0 || b == 0 ? 0 : v > GRAMMAR_NO_MAX ? GRAMMAR_NO_MAX : (uint32_t)v;
}

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

static struct piece class_piece(struct regex *x, struct ranges *r, bool is_negated)
{
	struct piece out = {.min = 1, .max = 1, .is_class = true};
	size_t n = r->r ? range_normalize(r->r, r->n) : 0;
	/* The class is all but these. */
	struct ranges not = {0};
	if (is_negated) {
		for (size_t i = 0; i < n; i++)
			add_range(&not, r->r[i].lo, r->r[i].hi);
	} else {
		struct grammar_range *neg = xmalloc((n + 2) * sizeof *neg);
		size_t n_neg = range_negate(r->r, n, neg);
		for (size_t i = 0; i < n_neg; i++)
			add_range(&not, neg[i].lo, neg[i].hi);
		free(neg);
	}
	if (x->o->avoid)
		add_range(&not, (uint8_t)x->o->avoid, (uint8_t)x->o->avoid);
	struct grammar_range *use = xmalloc((not.n + 2) * sizeof *use);
	n = not.r ? range_normalize(not.r, not.n) : 0;
	n = range_negate(not.r, n, use);
	if (n == 0)
		refuse(x, "a class without characters");
	else if (x->o->is_json)
		out.part = grammar_build_json_class(x->b, use, n);
	else
		out.part = grammar_build_class(x->b, use, n, false);
	free(use);
	free(not.r);
	free(r->r);
	return out;
}

/* n hexadecimal digits. */
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

/* \d and the like, into r; false when c is none of them. */
static bool add_named(struct ranges *r, uint32_t c)
{
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
		return true;
	}
	return false;
}

/* Behind a backslash, a single character; its code point. */
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
			  ? "word boundaries are not supported"
			  : c == 'p' || c == 'P'
			  ? "Unicode properties are not supported"
			  : "an escape that is not supported");
	}
	return c;
}

/* One character or named class within brackets. False for a named class. */
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
	if (add_named(r, (uint8_t)peek(x))) {
		x->at++;
		return false;
	}
	*out_cp = read_escape(x, true);
	return true;
}

static struct piece read_class(struct regex *x)
{
	struct ranges r = {0};
	bool is_negated = eat(x, "^");
	bool is_first = true;
	while (!is_end(x) && (peek(x) != ']' || (is_first && x->s.n > x->at + 1 &&
						 x->s.p[x->at + 1] == ']'))) {
		uint32_t lo, hi;
		is_first = false;
		if (x->s.p[x->at] == '[' && x->at + 1 < x->s.n &&
		    strchr(":.=", x->s.p[x->at + 1])) {
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
	return class_piece(x, &r, is_negated);
}

/* --- structure ----------------------------------------------------------- */

static struct piece read_alternation(struct regex *x, bool is_top);

static struct piece read_group(struct regex *x)
{
	if (eat(x, "?")) {
		if (eat(x, "<") || eat(x, "P<")) {
			if (peek(x) == '=' || peek(x) == '!')
				refuse(x, "look-behind is not supported");
			while (!is_end(x) && peek(x) != '>')
				x->at++;
			if (!eat(x, ">"))
				refuse(x, "a group's name is not closed");
		} else if (!eat(x, ":")) {
			refuse(x, peek(x) == '=' || peek(x) == '!'
				  ? "look-ahead is not supported"
				  : "a kind of group that is not supported");
		}
	}
	if (++x->nesting > GRAMMAR_MAX_NESTING)
		refuse(x, "groups are nested too deeply");
	struct piece out = {0};
	if (x->st == OK)
		out = read_alternation(x, false);
	x->nesting--;
	if (!eat(x, ")"))
		refuse(x, "a group is not closed");
	return out;
}

static struct piece read_atom(struct regex *x)
{
	static const struct grammar_range newline[] = {{'\n', '\n'}, {'\r', '\r'},
						       {0x2028, 0x2029}};
	struct ranges r = {0};
	char c = peek(x);
	if (eat(x, "("))
		return read_group(x);
	if (eat(x, "["))
		return read_class(x);
	if (c == '*' || c == '+' || c == '?' || c == '{')
		refuse(x, "nothing to repeat");
	if (c == '^' || c == '$')
		refuse(x, "an anchor inside of the regex is not supported");
	if (eat(x, ".")) {
		for (size_t i = 0; i < ARRAY_LEN(newline); i++)
			add_range(&r, newline[i].lo, newline[i].hi);
		return class_piece(x, &r, true);
	}
	if (eat(x, "\\")) {
		if (is_end(x)) {
			refuse(x, "a backslash at the end");
		} else if (add_named(&r, (uint8_t)peek(x))) {
			x->at++;
			return class_piece(x, &r, false);
		} else {
			uint32_t cp = read_escape(x, false);
			add_range(&r, cp, cp);
		}
	} else {
		uint32_t cp = next_char(x);
		add_range(&r, cp, cp);
	}
	return class_piece(x, &r, false);
}

/* {m}, {m,}, {m,n}; "{" that is no count is a character, as in ECMA's old grammar,
 * but rather a mistake: refused. */
static void read_counts(struct regex *x, uint32_t *min, uint32_t *max)
{
	if (!grammar_read_count(x->s, &x->at, min))
		refuse(x, "a repetition count is missing");
	*max = *min;
	if (eat(x, ",") && !grammar_read_count(x->s, &x->at, max))
		*max = GRAMMAR_NO_MAX;
	if (!eat(x, "}") || *min > *max)
		refuse(x, "a repetition count that is none");
}

static struct piece read_quantified(struct regex *x)
{
	struct piece p = read_atom(x);
	uint32_t min = 1, max = 1;
	if (is_end(x))
		return p;
	if (eat(x, "*"))
		min = 0, max = GRAMMAR_NO_MAX;
	else if (eat(x, "+"))
		max = GRAMMAR_NO_MAX;
	else if (eat(x, "?"))
		min = 0;
	else if (eat(x, "{"))
		read_counts(x, &min, &max);
	else
		return p;
	if (peek(x) == '+')
		refuse(x, "possessive repetition is not supported");
	eat(x, "?"); /* lazy: the same language */
	p.part = grammar_build_repeat(x->b, p.part, min, max);
	p.min = mul_sat(p.min, min);
	p.max = mul_sat(p.max, max);
	p.is_class = false;
	return p;
}

static struct piece anything(struct regex *x)
{
	struct ranges r = {0};
	add_range(&r, 0, 0x10FFFF);
	struct piece p = class_piece(x, &r, false);
	p.part = grammar_build_repeat(x->b, p.part, 0, GRAMMAR_NO_MAX);
	p.min = 0;
	p.max = GRAMMAR_NO_MAX;
	return p;
}

/* \A, \z and \Z are anchors too. */
static bool eat_begin(struct regex *x)
{
	return eat(x, "^") || eat(x, "\\A");
}

static bool eat_end(struct regex *x)
{
	size_t before = x->at;
	if (!eat(x, "$") && !eat(x, "\\z") && !eat(x, "\\Z"))
		return false;
	if (is_end(x) || peek(x) == '|')
		return true;
	x->at = before;
	return false;
}

static struct piece read_sequence(struct regex *x, bool is_top)
{
	struct grammar_parts seq = {0};
	struct piece out = {0}, p;
	bool is_begun = is_top && eat_begin(x), is_ended = false;
	if (is_top && x->o->is_search && !is_begun) {
		grammar_parts_add(&seq, anything(x).part);
		out.max = GRAMMAR_NO_MAX;
	}
	while (!is_end(x) && peek(x) != '|' && !(peek(x) == ')' && !is_top)) {
		if (is_top && (is_ended = eat_end(x)))
			break;
		if (peek(x) == ')') {
			refuse(x, "a parenthesis that was not opened");
			break;
		}
		p = read_quantified(x);
		grammar_parts_add(&seq, p.part);
		out.min = add_sat(out.min, p.min);
		out.max = add_sat(out.max, p.max);
		out.is_class = seq.n == 1 && p.is_class;
	}
	if (is_top && x->o->is_search && !is_ended) {
		grammar_parts_add(&seq, anything(x).part);
		out.max = GRAMMAR_NO_MAX;
	}
	out.is_class = out.is_class && seq.n == 1;
	if (x->st == OK)
		out.part = grammar_build_seq(x->b, seq.p, seq.n);
	free(seq.p);
	return out;
}

static struct piece read_alternation(struct regex *x, bool is_top)
{
	struct grammar_parts alts = {0};
	struct piece out = read_sequence(x, is_top);
	grammar_parts_add(&alts, out.part);
	while (eat(x, "|")) {
		struct piece p = read_sequence(x, is_top);
		grammar_parts_add(&alts, p.part);
		out.min = MIN(out.min, p.min);
		out.max = MAX(out.max, p.max);
		out.is_class = false;
	}
	if (x->st == OK)
		out.part = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

/* Is it one class, repeated, between its anchors? Its length can then be bounded
 * from outside. */
static void find_class(struct regex *x, struct grammar_regex *out)
{
	x->at = 0;
	bool is_begun = eat_begin(x);
	if ((x->o->is_search && !is_begun) || is_end(x) || strchr("|$", peek(x)))
		return;
	struct piece body = read_atom(x);
	uint32_t min = 1, max = 1;
	if (x->st != OK || !body.is_class)
		return;
	if (eat(x, "*"))
		min = 0, max = GRAMMAR_NO_MAX;
	else if (eat(x, "+"))
		max = GRAMMAR_NO_MAX;
	else if (eat(x, "?"))
		min = 0;
	else if (eat(x, "{"))
		read_counts(x, &min, &max);
	bool is_ended = eat_end(x);
	if (x->o->is_search && !is_ended)
		return;
	out->is_class = x->at == x->s.n;
	out->body = body.part;
}

enum status grammar_build_regex(struct grammar_build *b, struct str text,
				const struct grammar_regex_opts *o,
				struct grammar_regex *out, struct fail *fail)
{
	struct regex x = {.b = b, .o = o, .s = text, .fail = fail};
	if (text.n > GRAMMAR_MAX_TEXT)
		return fail_set(fail, E_LIMIT, "the regex is longer than %u bytes",
				GRAMMAR_MAX_TEXT);
	if (utf8_check(text) >= 0)
		return fail_set(fail, E_INVAL, "the regex is not UTF-8");
	struct piece p = read_alternation(&x, true);
	if (x.st != OK)
		return x.st;
	*out = (struct grammar_regex){.part = p.part, .min = p.min, .max = p.max};
	find_class(&x, out);
	return x.st;
}

enum status grammar_create_regex(struct str text, struct grammar **out,
				 struct fail *fail)
{
	const struct grammar_regex_opts o = {0};
	struct grammar_regex re;
	struct grammar_build *b = grammar_build_create();
	uint32_t root = grammar_build_rule(b, STR("regex"));
	enum status st = grammar_build_regex(b, text, &o, &re, fail);
	if (st == OK) {
		grammar_build_set_rule(b, root, re.part);
		st = grammar_build_finish(b, root, out, fail);
	}
	grammar_build_destroy(b);
	return st;
}
