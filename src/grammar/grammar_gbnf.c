/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads GBNF, the grammar notation of llama.cpp:
 *
 *   name ::= alternatives       a rule; it ends at a line end outside of parentheses
 *   "text" [a-z] [^"\\] . name ( alternatives )
 *   | * + ? {m} {m,} {m,n}     # comment
 *
 * Escapes: \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH. The last three are code
 * points. The text begins with the rule `root`.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"
#include "grammar/grammar_private.h"

struct gbnf {
	struct grammar_build *b;
	struct str s;
	size_t at;
	struct strmap names; /* rule name to rule number */
	bool *is_set;
	size_t cap_set;
	int nesting;
	struct fail *fail;
	enum status st;
};

static void refuse(struct gbnf *x, const char *why)
{
	size_t line = 1;
	if (x->st != OK)
		return;
	for (size_t i = 0; i < x->at && i < x->s.n; i++)
		line += x->s.p[i] == '\n';
	x->st = fail_set(x->fail, E_INVAL, "%s, in line %zu of the grammar", why, line);
}

static char peek(const struct gbnf *x)
{
	return x->st != OK || x->at >= x->s.n ? '\0' : x->s.p[x->at];
}

static bool eat(struct gbnf *x, const char *lit)
{
	size_t n = strlen(lit);
	if (x->st != OK || x->s.n - x->at < n || memcmp(x->s.p + x->at, lit, n) != 0)
		return false;
	x->at += n;
	return true;
}

static void skip_space(struct gbnf *x, bool over_lines)
{
	for (;;) {
		char c = peek(x);
		if (c == '#') {
			while (peek(x) && peek(x) != '\n')
				x->at++;
		} else if (c == ' ' || c == '\t' ||
			   (over_lines && (c == '\n' || c == '\r'))) {
			x->at++;
		} else {
			return;
		}
	}
}

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static struct str read_name(struct gbnf *x)
{
	size_t begin = x->at;
	while (is_name(peek(x)))
		x->at++;
	return (struct str){x->s.p + begin, x->at - begin};
}

static uint32_t rule_of(struct gbnf *x, struct str name)
{
	uint32_t rule;
	if (strmap_get(&x->names, name, &rule))
		return rule;
	rule = grammar_build_rule(x->b, name);
	strmap_put(&x->names, name, rule);
	if (rule >= x->cap_set) {
		size_t cap = 2 * (size_t)rule + 16;
		x->is_set = xrealloc(x->is_set, cap);
		memset(x->is_set + x->cap_set, 0, cap - x->cap_set);
		x->cap_set = cap;
	}
	return rule;
}

/* --- characters ---------------------------------------------------------- */

static uint32_t read_hex(struct gbnf *x, int n)
{
	uint32_t v = 0;
	if (!grammar_read_hex(x->s, &x->at, n, &v))
		refuse(x, "a hexadecimal digit is missing");
	if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000))
		refuse(x, "a code point that is none");
	return v;
}

static uint32_t read_char(struct gbnf *x)
{
	uint32_t cp;
	if (!eat(x, "\\")) {
		struct str rest = {x->s.p + x->at, x->s.n - x->at};
		x->at += utf8_decode(rest, &cp);
		return cp;
	}
	char c = peek(x);
	x->at++;
	switch (c) {
	case 'n': return '\n';
	case 'r': return '\r';
	case 't': return '\t';
	case 'x': return read_hex(x, 2);
	case 'u': return read_hex(x, 4);
	case 'U': return read_hex(x, 8);
	case '\\': case '"': case '[': case ']': case '-': case '^': return (uint8_t)c;
	default:
		x->at--;
		refuse(x, "an escape that is not known");
		return 0;
	}
}

static grammar_part read_literal(struct gbnf *x)
{
	struct buf text = {0};
	while (peek(x) && peek(x) != '"' && peek(x) != '\n') {
		char bytes[4];
		uint32_t cp = read_char(x);
		if (x->st == OK)
			buf_add(&text, bytes, utf8_encode(cp, bytes));
	}
	if (!eat(x, "\""))
		refuse(x, "a literal is not closed");
	grammar_part out = grammar_build_lit(x->b, buf_str(&text));
	buf_deinit(&text);
	return out;
}

static grammar_part read_class(struct gbnf *x)
{
	struct grammar_range *r = NULL;
	size_t n = 0, cap = 0;
	bool is_negated = eat(x, "^");
	while (peek(x) && peek(x) != ']' && peek(x) != '\n') {
		uint32_t lo = read_char(x), hi = lo;
		if (peek(x) == '-' && x->at + 1 < x->s.n && x->s.p[x->at + 1] != ']') {
			x->at++;
			hi = read_char(x);
		}
		if (hi < lo)
			refuse(x, "a range that is none");
		if (n == cap) {
			cap = cap ? 2 * cap : 8;
			r = xrealloc(r, cap * sizeof *r);
		}
		r[n++] = (struct grammar_range){lo, hi};
	}
	if (!eat(x, "]"))
		refuse(x, "a class is not closed");
	grammar_part out = grammar_build_class(x->b, r, n, is_negated);
	free(r);
	return out;
}

/* --- structure ----------------------------------------------------------- */

static grammar_part read_alternatives(struct gbnf *x);

/* Reads one item; false at the end of the sequence. */
static bool read_item(struct gbnf *x, grammar_part *out)
{
	static const struct grammar_range all = {0, 0x10FFFF};
	if (eat(x, "\"")) {
		*out = read_literal(x);
	} else if (eat(x, "[")) {
		*out = read_class(x);
	} else if (eat(x, ".")) {
		*out = grammar_build_class(x->b, &all, 1, false);
	} else if (eat(x, "(")) {
		if (++x->nesting > GRAMMAR_MAX_NESTING)
			refuse(x, "groups are nested too deeply");
		*out = x->st == OK ? read_alternatives(x) : 0;
		x->nesting--;
		if (!eat(x, ")"))
			refuse(x, "a group is not closed");
	} else if (is_name(peek(x))) {
		*out = grammar_build_ref(x->b, rule_of(x, read_name(x)));
	} else {
		return false;
	}
	return x->st == OK;
}

static bool read_count(struct gbnf *x, uint32_t *out)
{
	skip_space(x, false);
	bool is_there = grammar_read_count(x->s, &x->at, out);
	skip_space(x, false);
	return is_there;
}

static grammar_part read_quantifiers(struct gbnf *x, grammar_part part)
{
	uint32_t min, max;
	for (;;) {
		if (eat(x, "*")) {
			min = 0, max = GRAMMAR_NO_MAX;
		} else if (eat(x, "+")) {
			min = 1, max = GRAMMAR_NO_MAX;
		} else if (eat(x, "?")) {
			min = 0, max = 1;
		} else if (eat(x, "{")) {
			if (!read_count(x, &min))
				refuse(x, "a repetition count is missing");
			max = min;
			if (eat(x, ",") && !read_count(x, &max))
				max = GRAMMAR_NO_MAX;
			if (!eat(x, "}") || min > max)
				refuse(x, "a repetition count that is none");
		} else {
			return part;
		}
		part = grammar_build_repeat(x->b, part, min, max);
	}
}

static grammar_part read_sequence(struct gbnf *x)
{
	struct grammar_parts seq = {0};
	grammar_part part;
	for (;;) {
		skip_space(x, x->nesting > 0);
		if (!read_item(x, &part))
			break;
		grammar_parts_add(&seq, read_quantifiers(x, part));
	}
	part = x->st == OK ? grammar_build_seq(x->b, seq.p, seq.n) : 0;
	free(seq.p);
	return part;
}

static grammar_part read_alternatives(struct gbnf *x)
{
	struct grammar_parts alts = {0};
	do {
		/* after a bar the alternative may continue on the next line */
		skip_space(x, true);
		grammar_parts_add(&alts, read_sequence(x));
		skip_space(x, x->nesting > 0);
	} while (eat(x, "|"));
	grammar_part out = x->st == OK ? grammar_build_alt(x->b, alts.p, alts.n) : 0;
	free(alts.p);
	return out;
}

static void read_rule(struct gbnf *x)
{
	struct str name = read_name(x);
	if (name.n == 0) {
		refuse(x, "the name of a rule is missing");
		return;
	}
	uint32_t rule = rule_of(x, name);
	skip_space(x, false);
	if (!eat(x, "::="))
		refuse(x, "`::=` is missing");
	if (x->is_set[rule])
		refuse(x, "a rule is defined twice");
	x->is_set[rule] = true;
	grammar_part part = read_alternatives(x);
	if (peek(x) && peek(x) != '\n' && peek(x) != '\r')
		refuse(x, "a character that has no place there");
	grammar_build_set_rule(x->b, rule, part);
}

enum status grammar_create_gbnf(struct str text, struct grammar **out,
				struct fail *fail)
{
	if (text.n > GRAMMAR_MAX_TEXT)
		return fail_set(fail, E_LIMIT, "the grammar is longer than %u bytes",
				GRAMMAR_MAX_TEXT);
	if (utf8_check(text) >= 0 || memchr(text.p, '\0', text.n))
		return fail_set(fail, E_INVAL, "the grammar is not a UTF-8 text");
	struct gbnf x = {.b = grammar_build_create(), .s = text, .fail = fail};
	strmap_init(&x.names, 0);
	uint32_t root = rule_of(&x, STR("root"));
	for (skip_space(&x, true); x.st == OK && x.at < text.n; skip_space(&x, true))
		read_rule(&x);
	if (x.st == OK)
		x.st = grammar_build_finish(x.b, root, out, fail);
	strmap_deinit(&x.names);
	free(x.is_set);
	grammar_build_destroy(x.b);
	return x.st;
}
