/* SPDX-License-Identifier: Apache-2.0
 *
 * Translates in one pass from left to right. The two dialects share most of their
 * syntax. These constructs differ and are translated:
 *
 *   \s \S          White_Space. PCRE2's \s has U+180E, which left that set in
 *                  Unicode 6.3. Written as a list of ranges, which is faster in PCRE2 than a
 *                  property.
 *   \w \W \b \B    Alphabetic, marks, digits, connectors; PCRE2's is narrower.
 *   \h \H          hexadecimal digit, not horizontal space
 *   \v             U+000B only, not any vertical space
 *   \uHHHH \O      not in PCRE2
 *   \p{Han}        the script; PCRE2 means the script extensions by that
 *   \p{Letter}, \p{Alpha}, [[:alpha:]] …  long and POSIX names
 *   (?m: …)        lets "." match newline: PCRE2's (?s: …)
 *   a(?i)b|c       covers the alternatives too: a(?i:b|c)
 *   {,n}           {0,n}
 *   x{2,3}+        repeats the repeat; only ?+ *+ ++ are possessive
 *   x{2}?          zero or two times, not "lazy"
 *   [a[bc]]        a union of sets
 *   \q             a letter without a meaning is that letter
 *
 * ^ and $ match at lines in both, with PCRE2_MULTILINE. Refused: back references,
 * calls, callouts, set intersections, nested negated sets, extended mode, absent
 * operators, control and meta characters, grapheme boundaries. No tokenizer known to us uses
 * one of these. Caseless matching differs in one point: Oniguruma also lets one character match
 * several ("ß" and "ss"), PCRE2 does not.
 */
#include "tokenizer/oniguruma.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"

#define MAX_GROUPS 200
#define MAX_NAME 40

/* Character sets, each written as the inside of a class [...]. */
#define SPACES "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}" \
	       "\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define WORDS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* Oniguruma's \w and \p{Word} also match the superscripts and fractions of Latin-1. Its
 * [\w] and [[:word:]] do not. */
#define WORD_ESCAPE WORDS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define HEXES "0-9A-Fa-f"

struct regex_group {
	size_t start;   /* output offset of this group's "(" */
	int n_closes;   /* option groups "(?i:" opened inside; each needs a ")" when this group
			 * closes */
};

struct translation {
	struct str in;
	size_t i;
	struct buf *out;
	struct fail *fail;
	size_t atom;   /* output offset of the last item that a repeat may apply to */
	bool repeated; /* this item already has a quantifier */
	struct regex_group groups[MAX_GROUPS];
	int depth;
};

static enum status unsupported(struct translation *t, const char *what)
{
	return fail_set(t->fail, E_UNSUPPORTED,
			"regular expression: %s at byte %zu is not supported",
			what, t->i);
}

static int peek(const struct translation *t, size_t ahead)
{
	return t->i + ahead < t->in.n ? (unsigned char)t->in.p[t->i + ahead]
				      : -1;
}

static bool looking_at(const struct translation *t, const char *s)
{
	return str_starts((struct str){t->in.p + t->i, t->in.n - t->i},
			  str_of(s));
}

static void begin_atom(struct translation *t)
{
	t->atom = t->out->n;
	t->repeated = false;
}

/* --- named sets ------------------------------------------------------------ */

/* The named sets, each as the inside of a class. Names compare without case, space, "-"
 * and "_". A name that is not listed is taken as a script. */
static const struct named_set {
	const char *name, *inside;
} named_sets[] = {
	{"l", "\\p{L}"}, {"lu", "\\p{Lu}"}, {"ll", "\\p{Ll}"},
	{"lt", "\\p{Lt}"}, {"lm", "\\p{Lm}"}, {"lo", "\\p{Lo}"},
	{"m", "\\p{M}"}, {"mn", "\\p{Mn}"}, {"mc", "\\p{Mc}"},
	{"me", "\\p{Me}"}, {"n", "\\p{N}"}, {"nd", "\\p{Nd}"},
	{"nl", "\\p{Nl}"}, {"no", "\\p{No}"}, {"p", "\\p{P}"},
	{"pc", "\\p{Pc}"}, {"pd", "\\p{Pd}"}, {"ps", "\\p{Ps}"},
	{"pe", "\\p{Pe}"}, {"pi", "\\p{Pi}"}, {"pf", "\\p{Pf}"},
	{"po", "\\p{Po}"}, {"s", "\\p{S}"}, {"sm", "\\p{Sm}"},
	{"sc", "\\p{Sc}"}, {"sk", "\\p{Sk}"}, {"so", "\\p{So}"},
	{"z", "\\p{Z}"}, {"zs", "\\p{Zs}"}, {"zl", "\\p{Zl}"},
	{"zp", "\\p{Zp}"}, {"c", "\\p{C}"}, {"cc", "\\p{Cc}"},
	{"cf", "\\p{Cf}"}, {"cn", "\\p{Cn}"}, {"co", "\\p{Co}"},
	{"cs", "\\p{Cs}"}, {"lc", "\\p{L&}"},
	{"letter", "\\p{L}"}, {"uppercaseletter", "\\p{Lu}"},
	{"lowercaseletter", "\\p{Ll}"}, {"titlecaseletter", "\\p{Lt}"},
	{"casedletter", "\\p{L&}"}, {"modifierletter", "\\p{Lm}"},
	{"otherletter", "\\p{Lo}"}, {"mark", "\\p{M}"},
	{"combiningmark", "\\p{M}"}, {"nonspacingmark", "\\p{Mn}"},
	{"spacingmark", "\\p{Mc}"}, {"enclosingmark", "\\p{Me}"},
	{"number", "\\p{N}"}, {"decimalnumber", "\\p{Nd}"},
	{"letternumber", "\\p{Nl}"}, {"othernumber", "\\p{No}"},
	{"punctuation", "\\p{P}"}, {"connectorpunctuation", "\\p{Pc}"},
	{"dashpunctuation", "\\p{Pd}"}, {"openpunctuation", "\\p{Ps}"},
	{"closepunctuation", "\\p{Pe}"}, {"initialpunctuation", "\\p{Pi}"},
	{"finalpunctuation", "\\p{Pf}"}, {"otherpunctuation", "\\p{Po}"},
	{"symbol", "\\p{S}"}, {"mathsymbol", "\\p{Sm}"},
	{"currencysymbol", "\\p{Sc}"}, {"modifiersymbol", "\\p{Sk}"},
	{"othersymbol", "\\p{So}"}, {"separator", "\\p{Z}"},
	{"spaceseparator", "\\p{Zs}"}, {"lineseparator", "\\p{Zl}"},
	{"paragraphseparator", "\\p{Zp}"}, {"other", "\\p{C}"},
	{"control", "\\p{Cc}"}, {"format", "\\p{Cf}"},
	{"unassigned", "\\p{Cn}"}, {"privateuse", "\\p{Co}"},
	{"any", "\\p{Any}"}, {"assigned", "\\P{Cn}"},
	{"alpha", "\\p{Alphabetic}"}, {"alphabetic", "\\p{Alphabetic}"},
	{"alnum", "\\p{Alphabetic}\\p{Nd}"}, {"ascii", "\\x00-\\x7F"},
	{"blank", "\\t\\p{Zs}"}, {"cntrl", "\\p{Cc}"},
	{"digit", "\\p{Nd}"}, {"lower", "\\p{Lowercase}"},
	{"lowercase", "\\p{Lowercase}"}, {"punct", "\\p{P}"},
	{"space", SPACES}, {"whitespace", SPACES},
	{"upper", "\\p{Uppercase}"}, {"uppercase", "\\p{Uppercase}"},
	{"word", WORD_ESCAPE}, {"xdigit", HEXES},
	{"emoji", "\\p{Emoji}"}, {"ideographic", "\\p{Ideographic}"},
	{"extendedpictographic", "\\p{Extended_Pictographic}"},
};

/* In [[:name:]] only these names are valid, and some differ from \p{name}. */
static const struct named_set posix_sets[] = {
	{"alpha", "\\p{Alphabetic}"}, {"alnum", "\\p{Alphabetic}\\p{Nd}"},
	{"ascii", "\\x00-\\x7F"}, {"blank", "\\t\\p{Zs}"},
	{"cntrl", "\\p{Cc}"}, {"digit", "\\p{Nd}"},
	{"lower", "\\p{Lowercase}"}, {"punct", "\\p{P}\\p{S}"},
	{"space", SPACES}, {"upper", "\\p{Uppercase}"},
	{"word", WORDS}, {"xdigit", HEXES},
};

/* Writes the inside of the class called `name` into inside[]. */
static enum status find_set(struct translation *t, struct str name,
			    char inside[MAX_NAME + 80])
{
	char plain[MAX_NAME];
	size_t n = 0;
	for (size_t i = 0; i < name.n; i++) {
		unsigned char c = (unsigned char)name.p[i];
		if (c == ' ' || c == '_' || c == '-')
			continue;
		if (!isalnum(c) || n + 1 == sizeof plain)
			return unsupported(t, "this property");
		plain[n++] = (char)tolower(c);
	}
	plain[n] = '\0';
	if (n == 0)
		return unsupported(t, "an empty property");
	for (size_t i = 0; i < ARRAY_LEN(named_sets); i++)
		if (strcmp(named_sets[i].name, plain) == 0) {
			snprintf(inside, MAX_NAME + 80, "%s",
				 named_sets[i].inside);
			return OK;
		}
	snprintf(inside, MAX_NAME + 80, "\\p{sc:%s}", plain);
	return OK;
}

/* Writes a set, given as the inside of a class, at the current place of the output.
 * Inside a class a negated set must be a single property, because classes do not nest. */
static enum status write_set(struct translation *t, const char *inside,
			     bool negate, bool in_class)
{
	bool is_property = inside[0] == '\\' &&
			   (inside[1] == 'p' || inside[1] == 'P') &&
			   strchr(inside, '}')[1] == '\0';
	if (!in_class)
		begin_atom(t);
	else if (strcmp(inside, WORD_ESCAPE) == 0)
		inside = WORDS;
	if (is_property) {
		bool upper = (inside[1] == 'P') != negate;
		buf_addf(t->out, "\\%c%s", upper ? 'P' : 'p', inside + 2);
	} else if (!in_class) {
		buf_addf(t->out, "[%s%s]", negate ? "^" : "", inside);
	} else if (!negate) {
		buf_add_z(t->out, inside);
	} else if (strcmp(inside, SPACES) == 0) {
		buf_add_z(t->out, "\\P{White_Space}");
	} else {
		return unsupported(t, "this negated set in a class");
	}
	return OK;
}

/* Translates \p{Name} and \p{^Name}; on entry t->i is at the "p". */
static enum status property(struct translation *t, bool in_class)
{
	bool negate = peek(t, 0) == 'P';
	if (peek(t, 1) != '{')
		return unsupported(t, "\\p without braces");
	size_t start = t->i + 2;
	if (start < t->in.n && t->in.p[start] == '^') {
		negate = !negate;
		start++;
	}
	ptrdiff_t end = str_find(t->in, STR("}"), start);
	if (end < 0)
		return fail_set(t->fail, E_FORMAT,
				"regular expression: \\p{ without end");
	char inside[MAX_NAME + 80];
	struct str name = {t->in.p + start, (size_t)end - start};
	enum status st = find_set(t, name, inside);
	if (st == OK)
		st = write_set(t, inside, negate, in_class);
	t->i = (size_t)end + 1;
	return st;
}

/* --- escapes --------------------------------------------------------------- */

/* Translates \xHH, \x{H…} and \uHHHH; on entry t->i is at the letter. */
static enum status code_point(struct translation *t, bool in_class)
{
	bool braces = peek(t, 1) == '{';
	size_t most = braces ? 8 : peek(t, 0) == 'u' ? 4 : 2;
	size_t at = braces ? 2 : 1, n = 0;
	uint32_t cp = 0;
	while (n < most && peek(t, at + n) >= 0 && isxdigit(peek(t, at + n))) {
		int c = tolower(peek(t, at + n++));
		cp = cp << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	/* \x with two digits from 80 up is a byte in Oniguruma, not a character. */
	if (n == 0 || cp > 0x10FFFF || (braces && peek(t, at + n) != '}') ||
	    (!braces && most == 2 && cp >= 0x80))
		return unsupported(t, "this character code");
	if (!in_class)
		begin_atom(t);
	buf_addf(t->out, "\\x{%X}", cp);
	t->i += at + n + braces;
	return OK;
}

static void assert_boundary(struct translation *t, bool negate)
{
	begin_atom(t);
	buf_addf(t->out, negate ? "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))"
				: "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))",
		 WORD_ESCAPE, WORD_ESCAPE, WORD_ESCAPE, WORD_ESCAPE);
}

/* Translates an escape that stands for a set; t->i is at the letter. False: the escape is
 * of another kind. */
static bool set_escape(struct translation *t, bool in_class,
		       enum status *out_st)
{
	int c = peek(t, 0);
	const char *inside = NULL;
	switch (tolower(c)) {
	case 's': inside = SPACES; break;
	case 'w': inside = WORD_ESCAPE; break;
	case 'h': inside = HEXES; break;
	case 'd': inside = "\\p{Nd}"; break;
	case 'p':
		*out_st = property(t, in_class);
		return true;
	default:
		return false;
	}
	*out_st = write_set(t, inside, isupper(c), in_class);
	t->i++;
	return true;
}

/* Translates an escape that stands for one character. It means the same inside and
 * outside of classes. t->i is after the backslash. */
static enum status char_escape(struct translation *t, bool in_class)
{
	int c = peek(t, 0);
	if (c < 0)
		return fail_set(t->fail, E_FORMAT,
				"regular expression: it ends in \\");
	if (c == 'x' || c == 'u')
		return code_point(t, in_class);
	if (isdigit(c) || is_char_of(c, "cCMkgyYQE"))
		return unsupported(t, "this escape");
	if (!in_class)
		begin_atom(t);
	t->i++;
	if (c == 'v')
		buf_add_z(t->out, "\\x0B");
	else if (is_char_of(c, "tnrfae") || (c < 0x80 && ispunct(c)))
		buf_addf(t->out, "\\%c", c);
	else
		buf_add_c(t->out, (char)c);
	return OK;
}

static enum status escape(struct translation *t)
{
	enum status st = OK;
	t->i++;
	if (set_escape(t, false, &st))
		return st;
	int c = peek(t, 0);
	if (!is_char_of(c, "bBOAzZGKNRX"))
		return char_escape(t, false);
	t->i++;
	if (c == 'b' || c == 'B') {
		assert_boundary(t, c == 'B');
		return OK;
	}
	begin_atom(t);
	if (c == 'O')
		buf_add_z(t->out, "(?s:.)");
	else
		buf_addf(t->out, "\\%c", c);
	return OK;
}

/* --- classes --------------------------------------------------------------- */

/* Translates "[:name:]"; on entry t->i is at the "[". */
static enum status posix_set(struct translation *t, ptrdiff_t end)
{
	size_t start = t->i + 2;
	bool negate = t->in.p[start] == '^';
	struct str name = {t->in.p + start + negate,
			   (size_t)end - start - negate};
	const char *inside = NULL;
	for (size_t i = 0; i < ARRAY_LEN(posix_sets); i++)
		if (str_is(name, posix_sets[i].name))
			inside = posix_sets[i].inside;
	enum status st = inside ? write_set(t, inside, negate, true)
				: unsupported(t, "this POSIX bracket");
	t->i = (size_t)end + 2;
	return st;
}

/* True if the "-" at t->i is a plain character because it is first or last in the class. */
static bool is_plain_dash(const struct translation *t, bool at_edge)
{
	return peek(t, 0) == '-' && (at_edge || peek(t, 1) == ']');
}

static bool is_set_ahead(const struct translation *t, size_t at)
{
	int c = peek(t, at + 1);
	return peek(t, at) == '[' ||
	       (peek(t, at) == '\\' && is_char_of(c, "sSwWhHdDpP"));
}

/* Translates a backslash inside a class; t->i is at the backslash. */
static enum status class_escape(struct translation *t)
{
	enum status st = OK;
	t->i++;
	if (set_escape(t, true, &st))
		return st;
	if (peek(t, 0) != 'b')
		return char_escape(t, true);
	buf_add_z(t->out, "\\x08");
	t->i++;
	return OK;
}

/* Translates a "[" inside a class: a POSIX bracket or a nested set. The items of a nested
 * set are written into the outer class, because only unions are accepted. */
static enum status class_bracket(struct translation *t, int *nested)
{
	ptrdiff_t end = looking_at(t, "[:")
				? str_find(t->in, STR(":]"), t->i + 2) : -1;
	if (end >= 0)
		return posix_set(t, end);
	if (peek(t, 1) == '^' || peek(t, 1) == ']')
		return unsupported(t, "a nested set");
	(*nested)++;
	t->i++;
	return OK;
}

/* Translates the items between "[" and "]"; on entry t->i is after the "[". */
static enum status class_items(struct translation *t)
{
	int nested = 0;
	/* At the start of a class and right after a set, a "-" is a plain character: it cannot
	 * form a range there. */
	bool at_start = true, after_set = false;
	for (;;) {
		int c = peek(t, 0);
		bool is_set = is_set_ahead(t, 0) || c == ']';
		enum status st = OK;
		if (c < 0)
			return fail_set(t->fail, E_FORMAT,
					"regular expression: [ without ]");
		if (c == ']') {
			t->i++;
			if (nested-- == 0)
				return OK;
		} else if (c == '[') {
			st = class_bracket(t, &nested);
		} else if (looking_at(t, "&&")) {
			st = unsupported(t, "an intersection of sets");
		} else if (c == '\\') {
			st = class_escape(t);
		} else if (is_plain_dash(t, at_start)) {
			buf_add_z(t->out, "\\-");
			t->i++;
		} else if (c == '-' && (after_set || is_set_ahead(t, 1))) {
			st = unsupported(t, "a range with a set");
		} else {
			buf_add_c(t->out, (char)c);
			t->i++;
		}
		if (st != OK)
			return st;
		at_start = c == '[';
		after_set = is_set;
	}
}

static enum status class(struct translation *t)
{
	begin_atom(t);
	buf_add_c(t->out, '[');
	t->i++;
	if (peek(t, 0) == '^') {
		buf_add_c(t->out, '^');
		t->i++;
	}
	if (peek(t, 0) == ']') { /* a "]" right after the "[" is a plain character */
		buf_add_z(t->out, "\\]");
		t->i++;
	}
	enum status st = class_items(t);
	buf_add_c(t->out, ']');
	return st;
}

/* --- groups ---------------------------------------------------------------- */

static enum status push_group(struct translation *t)
{
	if (t->depth == MAX_GROUPS - 1)
		return unsupported(t, "nesting this deep");
	t->groups[++t->depth] = (struct regex_group){.start = t->out->n};
	return OK;
}

/* Translates "(?imx-imx)" and "(?imx-imx:"; on entry t->i is at the first letter. */
static enum status options(struct translation *t)
{
	struct buf letters = {0};
	enum status st = OK;
	int c;
	while ((c = peek(t, 0)) == 'i' || c == 'm' || c == '-') {
		buf_add_c(&letters, c == 'm' ? 's' : (char)c);
		t->i++;
	}
	if (c != ')' && c != ':') {
		st = unsupported(t, "this kind of group");
	} else {
		if (c == ':')
			st = push_group(t);
		else /* "(?i)" holds to the end of the enclosing group */
			t->groups[t->depth].n_closes++;
		begin_atom(t);
		buf_addf(t->out, "(?%s:", letters.p ? letters.p : "");
		t->i++;
	}
	buf_deinit(&letters);
	return st;
}

static enum status open_group(struct translation *t)
{
	static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?<=",
					    "(?<!", "(?>"};
	if (looking_at(t, "(*"))
		return unsupported(t, "(*");
	if (looking_at(t, "(?#")) {
		ptrdiff_t end = str_find(t->in, STR(")"), t->i);
		t->i = end < 0 ? t->in.n : (size_t)end + 1;
		return OK;
	}
	const char *kind = NULL;
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		if (looking_at(t, kinds[k]))
			kind = kinds[k];
	if (!kind && looking_at(t, "(?")) {
		t->i += 2;
		return options(t);
	}
	enum status st = push_group(t);
	begin_atom(t);
	buf_add_z(t->out, kind ? kind : "(");
	t->i += kind ? strlen(kind) : 1;
	return st;
}

static void close_options(struct translation *t)
{
	for (int k = t->groups[t->depth].n_closes; k > 0; k--)
		buf_add_c(t->out, ')');
}

static enum status close_group(struct translation *t)
{
	if (t->depth == 0)
		return fail_set(t->fail, E_FORMAT,
				"regular expression: ) without (");
	close_options(t);
	buf_add_c(t->out, ')');
	t->atom = t->groups[t->depth--].start;
	t->repeated = false;
	t->i++;
	return OK;
}

/* --- repeats --------------------------------------------------------------- */

/* Starts a repeat. PCRE2 needs a group around an item that is repeated twice. */
static void begin_repeat(struct translation *t)
{
	if (t->repeated) {
		struct buf inner = {0};
		buf_add(&inner, t->out->p + t->atom, t->out->n - t->atom);
		t->out->n = t->atom;
		buf_addf(t->out, "(?:%s)", inner.p);
		buf_deinit(&inner);
	}
	t->repeated = true;
}

/* Translates every form of "{n,m}". A brace that begins no interval is a plain character. */
static void interval(struct translation *t)
{
	size_t k = 1, low = 0, high = 0;
	bool comma;
	while (peek(t, k) >= 0 && isdigit(peek(t, k)))
		k++, low++;
	comma = peek(t, k) == ',';
	if (comma)
		k++;
	while (comma && peek(t, k) >= 0 && isdigit(peek(t, k)))
		k++, high++;
	if (peek(t, k) != '}' || low + high == 0) {
		begin_atom(t);
		buf_add_z(t->out, "\\{");
		t->i++;
		return;
	}
	begin_repeat(t);
	buf_add_z(t->out, low ? "{" : "{0");
	buf_add(t->out, t->in.p + t->i + 1, k);
	t->i += k + 1;
	if (comma && peek(t, 0) == '?') {
		buf_add_c(t->out, '?');
		t->i++;
	}
}

static void repeat(struct translation *t)
{
	begin_repeat(t);
	buf_add_c(t->out, t->in.p[t->i++]);
	if (peek(t, 0) == '?' || peek(t, 0) == '+')
		buf_add_c(t->out, t->in.p[t->i++]);
}

static enum status oniguruma_step(struct translation *t)
{
	int c = peek(t, 0);
	switch (c) {
	case '\\':
		return escape(t);
	case '[':
		return class(t);
	case '(':
		return open_group(t);
	case ')':
		return close_group(t);
	case '{':
		interval(t);
		return OK;
	case '*':
	case '+':
	case '?':
		repeat(t);
		return OK;
	}
	/* Copy a whole character: a repeat after it must apply to all its bytes. */
	uint32_t cp;
	size_t n = utf8_decode((struct str){t->in.p + t->i, t->in.n - t->i},
			       &cp);
	begin_atom(t);
	buf_add(t->out, t->in.p + t->i, n);
	t->i += n;
	return OK;
}

enum status oniguruma_translate(struct str pattern, struct buf *out,
				struct fail *fail)
{
	struct translation t = {.in = pattern, .out = out, .fail = fail,
				.atom = out->n};
	if (memchr(pattern.p ? pattern.p : "", '\0', pattern.n))
		return unsupported(&t, "a NUL byte");
	enum status st = OK;
	while (st == OK && t.i < pattern.n)
		st = oniguruma_step(&t);
	if (st == OK && t.depth > 0)
		st = fail_set(fail, E_FORMAT,
			      "regular expression: ( without )");
	close_options(&t);
	return st;
}
