/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a template's text into tokens. White space is handled as in Jinja with
 * trim_blocks and lstrip_blocks on and keep_trailing_newline off:
 *
 *   {%- {{- {#-   remove the white space before the tag
 *   {% {#         remove the blanks between the line's start and the tag
 *   {%+ {#+       keep these blanks
 *   -%} -}} -#}   remove the white space after the tag
 *   %} #}         remove one newline after the tag
 *   +%} +#}       keep this newline
 *
 * A `raw` block is one data token. Inside open brackets, `}}` and `%}` do not end the
 * tag, so {{ {'a': {}} }} works.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "jinja/jinja_ast.h"

#define SOURCE_MAX ((size_t)1 << 20)

struct lexer {
	struct arena *a;
	struct fail *fail;
	struct str s; /* the source, with every newline as \n */
	size_t pos, line_start;
	int line;
	bool line_starting; /* the last tag ended with a newline, so a line starts here */
	struct token *tokens;
	size_t n, cap;
	struct buf open; /* stack of brackets that are not closed yet */
};

enum status jlex_fail(struct fail *fail, int line, int column, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return fail_set(fail, E_FORMAT, "chat template, line %d, column %d: %s", line,
			column, text);
}

static enum status fail_here(const struct lexer *lx, const char *what)
{
	return jlex_fail(lx->fail, lx->line, (int)(lx->pos - lx->line_start) + 1,
			 "%s", what);
}

static bool at_text(const struct lexer *lx, size_t at, const char *text)
{
	size_t n = strlen(text);
	return at + n <= lx->s.n && memcmp(lx->s.p + at, text, n) == 0;
}

static char char_at(const struct lexer *lx, size_t at)
{
	return at < lx->s.n ? lx->s.p[at] : '\0';
}

static void advance_to(struct lexer *lx, size_t to)
{
	for (; lx->pos < to; lx->pos++) {
		if (lx->s.p[lx->pos] != '\n')
			continue;
		lx->line++;
		lx->line_start = lx->pos + 1;
	}
}

/* Emits a token for the text from the current position to `to`. */
static struct token *emit(struct lexer *lx, enum tok type, size_t to)
{
	if (lx->n == lx->cap) {
		size_t cap = lx->cap ? lx->cap * 2 : 256;
		struct token *tokens = arena_alloc(lx->a, cap * sizeof *tokens);
		if (lx->n)
			memcpy(tokens, lx->tokens, lx->n * sizeof *tokens);
		lx->tokens = tokens;
		lx->cap = cap;
	}
	struct token *t = &lx->tokens[lx->n++];
	*t = (struct token){
		.type = type, .line = lx->line,
		.column = (int)(lx->pos - lx->line_start) + 1,
		.text = {lx->s.p + lx->pos, to - lx->pos},
	};
	advance_to(lx, to);
	return t;
}

static size_t skip_space(const struct lexer *lx, size_t at)
{
	uint32_t c;
	while (at < lx->s.n) {
		size_t len = utf8_decode((struct str){lx->s.p + at, lx->s.n - at}, &c);
		if (c == UTF8_BAD || !jcase_is_space(c))
			break;
		at += len;
	}
	return at;
}

/* Offset after the closing tag ("%}", maybe with a sign) at `at`; 0: no closing tag
 * there. */
static size_t tag_end(const struct lexer *lx, size_t at, const char *close)
{
	bool is_variable = close[0] == '}';
	if (char_at(lx, at) == '-' && at_text(lx, at + 1, close))
		return skip_space(lx, at + 3);
	if (!is_variable && char_at(lx, at) == '+' && at_text(lx, at + 1, close))
		return at + 3;
	if (!at_text(lx, at, close))
		return 0;
	at += 2;
	return at + (!is_variable && char_at(lx, at) == '\n');
}

/* The part of the text before a tag that the tag leaves. With sign '-' the tag removes
 * all white space before itself. Without a sign, a block tag removes the blanks between
 * the line's start and itself. */
static struct str strip_before(const struct lexer *lx, struct str text, char sign,
			       bool is_variable)
{
	if (sign == '-') {
		struct jstr s = {.p = text.p, .n = text.n};
		size_t from;
		jcase_strip(&s, NULL, false, true, &from, &text.n);
		return text;
	}
	if (sign == '+' || is_variable)
		return text;
	size_t line = text.n;
	while (line > 0 && text.p[line - 1] != '\n')
		line--;
	if (line == 0 && !lx->line_starting)
		return text;
	size_t at = (size_t)(text.p - lx->s.p) + line;
	if (skip_space(lx, at) >= (size_t)(text.p - lx->s.p) + text.n)
		text.n = line;
	return text;
}

/* Emits the text up to `tag`. A sign "-" or "+" of the tag decides which white space goes. */
static void emit_data(struct lexer *lx, size_t tag, char sign, bool is_variable)
{
	struct str text = {lx->s.p + lx->pos, tag - lx->pos};
	struct str kept = strip_before(lx, text, sign, is_variable);
	if (kept.n)
		emit(lx, T_DATA, lx->pos + kept.n);
	advance_to(lx, tag);
}

static char sign_at(const struct lexer *lx, size_t at)
{
	char c = char_at(lx, at);
	return c == '-' || c == '+' ? c : '\0';
}

/* Moves past a tag and records whether a line starts there. */
static void tag_done(struct lexer *lx, size_t end)
{
	advance_to(lx, end);
	lx->line_starting = lx->s.p[end - 1] == '\n';
}

/* If the tag at `at` begins with `word`, the offset after the word, else 0. */
static size_t tag_word(const struct lexer *lx, size_t at, const char *word)
{
	at += 2 + (sign_at(lx, at + 2) != 0);
	at = skip_space(lx, at);
	if (!at_text(lx, at, word))
		return 0;
	return skip_space(lx, at + strlen(word));
}

/* Offset after the {% raw %} that begins at `at`, else 0. A following newline is kept. */
static size_t raw_begin(const struct lexer *lx, size_t at)
{
	at = tag_word(lx, at, "raw");
	if (at && char_at(lx, at) == '-' && at_text(lx, at + 1, "%}"))
		return skip_space(lx, at + 3);
	return at && at_text(lx, at, "%}") ? at + 2 : 0;
}

static enum status lex_raw(struct lexer *lx, size_t body)
{
	tag_done(lx, body);
	for (size_t at = body; at + 1 < lx->s.n; at++) {
		if (!at_text(lx, at, "{%"))
			continue;
		size_t word = tag_word(lx, at, "endraw");
		size_t end = word ? tag_end(lx, word, "%}") : 0;
		if (!end)
			continue;
		emit_data(lx, at, sign_at(lx, at + 2), false);
		tag_done(lx, end);
		return OK;
	}
	return fail_here(lx, "missing end of raw block");
}

static enum status lex_comment(struct lexer *lx, size_t body)
{
	for (size_t at = body; at < lx->s.n; at++) {
		size_t end = tag_end(lx, at, "#}");
		if (end) {
			tag_done(lx, end);
			return OK;
		}
	}
	return fail_here(lx, "missing end of comment");
}

/* --- inside tags --------------------------------------------------------- */

static size_t skip_digits(const struct lexer *lx, size_t at, const char *digits)
{
	/* single underscores may stand between digits */
	for (;;) {
		size_t next = at + (char_at(lx, at) == '_');
		if (!is_char_of(char_at(lx, next), digits))
			return at;
		at = next + 1;
	}
}

#define DECIMALS "0123456789"

/* Offset after the float at `at`, 0 if there is none. Floats are 1.5, 1e3, 1_0.5E-7. The
 * numbers in users.0.1 are no floats. */
static size_t float_end(const struct lexer *lx, size_t at)
{
	if (lx->pos > 0 && lx->s.p[lx->pos - 1] == '.')
		return 0;
	size_t end = skip_digits(lx, at, DECIMALS);
	bool is_float = false;
	if (char_at(lx, end) == '.' && skip_digits(lx, end + 1, DECIMALS) > end + 1 &&
	    char_at(lx, end + 1) != '_') {
		end = skip_digits(lx, end + 1, DECIMALS);
		is_float = true;
	}
	if ((char_at(lx, end) | 32) == 'e') {
		size_t digits = end + 1 + (sign_at(lx, end + 1) != 0);
		if (char_at(lx, digits) != '_' &&
		    skip_digits(lx, digits, DECIMALS) > digits) {
			end = skip_digits(lx, digits, DECIMALS);
			is_float = true;
		}
	}
	return is_float ? end : 0;
}

static enum status lex_integer(struct lexer *lx)
{
	size_t at = lx->pos, end;
	char kind = (char)(char_at(lx, at + 1) | 32);
	int base = 10;
	if (char_at(lx, at) == '0' && is_char_of(kind, "box")) {
		base = kind == 'b' ? 2 : kind == 'o' ? 8 : 16;
		end = skip_digits(lx, at + 2, base == 2 ? "01" : base == 8 ? "01234567" :
				  DECIMALS "abcdefABCDEF");
		if (end == at + 2) { /* "0" followed by a name, not a prefix */
			base = 10;
			end = at + 1;
		}
	} else {
		end = skip_digits(lx, at, char_at(lx, at) == '0' ? "0" : DECIMALS);
	}
	uint64_t v = 0;
	bool over = false;
	for (size_t i = at + (base == 10 ? 0 : 2); i < end; i++) {
		char c = lx->s.p[i];
		if (c == '_')
			continue;
		over |= __builtin_mul_overflow(v, (uint64_t)base, &v) ||
			__builtin_add_overflow(v, (uint64_t)hex_digit(c), &v);
	}
	if (over || v > INT64_MAX)
		return fail_here(lx, "this integer does not fit into 64 bits");
	emit(lx, T_INT, end)->i = (int64_t)v;
	return OK;
}

static void lex_float(struct lexer *lx, size_t end)
{
	struct buf digits = {0};
	for (size_t i = lx->pos; i < end; i++)
		if (lx->s.p[i] != '_')
			buf_add_c(&digits, lx->s.p[i]);
	emit(lx, T_FLOAT, end)->f = strtod(digits.p, NULL);
	buf_deinit(&digits);
}

/* The value of `n` hex digits at `at`, or UTF8_BAD. */
static uint32_t hex(struct str s, size_t at, size_t n)
{
	uint32_t v = 0;
	if (at + n > s.n)
		return UTF8_BAD;
	for (size_t i = at; i < at + n; i++) {
		int digit = hex_digit(s.p[i]);
		if (digit < 0)
			return UTF8_BAD;
		v = v << 4 | (uint32_t)digit;
	}
	return v;
}

static void put_cp(struct buf *out, uint32_t c)
{
	char p[4];
	if (c >= 0xD800 && c <= 0xDFFF)
		c = 0xFFFD; /* half a surrogate pair is no character */
	buf_add(out, p, utf8_encode(c, p));
}

/* Decodes \x, \u and \U. Two \u escapes may form a surrogate pair. Returns the number of
 * bytes read after the backslash; 0: malformed. */
static size_t unescape_hex(struct str s, size_t at, struct buf *out)
{
	size_t n = s.p[at] == 'x' ? 2 : s.p[at] == 'u' ? 4 : 8;
	uint32_t c = hex(s, at + 1, n);
	if (c == UTF8_BAD || c > 0x10FFFF)
		return 0;
	size_t used = 1 + n;
	if (n == 4 && c >= 0xD800 && c < 0xDC00 && at + 6 < s.n &&
	    s.p[at + 5] == '\\' && s.p[at + 6] == 'u') {
		uint32_t low = hex(s, at + 7, 4);
		if (low != UTF8_BAD && low >= 0xDC00 && low <= 0xDFFF) {
			c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
			used += 6;
		}
	}
	put_cp(out, c);
	return used;
}

/* Decodes the escape whose backslash is before s[at]. Returns the bytes read; 0:
 * malformed. */
static size_t unescape(struct str s, size_t at, struct buf *out)
{
	static const char from[] = "ntrbfav\\'\"", to[] = "\n\t\r\b\f\a\v\\'\"";
	char c = s.p[at];
	const char *simple = c ? strchr(from, c) : NULL;
	if (simple) {
		buf_add_c(out, to[simple - from]);
		return 1;
	}
	if (c == '\n')
		return 1;
	if (c == 'x' || c == 'u' || c == 'U')
		return unescape_hex(s, at, out);
	if (c == 'N')
		return 0; /* \N{name} is not supported */
	if (c < '0' || c > '7') { /* an unknown escape stays, with its backslash */
		buf_add_c(out, '\\');
		buf_add_c(out, c);
		return 1;
	}
	uint32_t v = 0;
	size_t n = 0;
	for (; n < 3 && at + n < s.n && s.p[at + n] >= '0' && s.p[at + n] <= '7'; n++)
		v = v * 8 + (uint32_t)(s.p[at + n] - '0');
	put_cp(out, v);
	return n;
}

static enum status lex_string(struct lexer *lx)
{
	char quote = lx->s.p[lx->pos];
	size_t end = lx->pos + 1;
	while (end < lx->s.n && lx->s.p[end] != quote)
		end += lx->s.p[end] == '\\' ? 2 : 1;
	if (end >= lx->s.n)
		return fail_here(lx, "this string has no end");
	struct str body = {lx->s.p + lx->pos + 1, end - lx->pos - 1};
	struct buf out = {0};
	for (size_t i = 0; i < body.n; i++) {
		if (body.p[i] != '\\') {
			buf_add_c(&out, body.p[i]);
			continue;
		}
		size_t used = unescape(body, i + 1, &out);
		if (!used) {
			buf_deinit(&out);
			return fail_here(lx, "a malformed escape in this string");
		}
		i += used;
	}
	emit(lx, T_STRING, end + 1)->text = arena_str(lx->a, buf_str(&out));
	buf_deinit(&out);
	return OK;
}

static size_t name_end(const struct lexer *lx)
{
	size_t at = lx->pos;
	while (at < lx->s.n) {
		uint32_t c;
		size_t len = utf8_decode((struct str){lx->s.p + at, lx->s.n - at}, &c);
		if (c != '_' && (c == UTF8_BAD || !jcase_is_alnum(c)))
			break;
		at += len;
	}
	return at;
}

static enum status lex_operator(struct lexer *lx)
{
	static const struct {
		const char *text;
		enum tok type;
	} ops[] = { /* an operator stands before its own prefixes */
		{"//", T_FLOORDIV}, {"**", T_POW}, {"==", T_EQ}, {"!=", T_NE},
		{">=", T_GE}, {"<=", T_LE}, {"+", T_ADD}, {"-", T_SUB}, {"/", T_DIV},
		{"*", T_MUL}, {"%", T_MOD}, {"~", T_TILDE}, {"[", T_LBRACKET},
		{"]", T_RBRACKET}, {"(", T_LPAREN}, {")", T_RPAREN}, {"{", T_LBRACE},
		{"}", T_RBRACE}, {">", T_GT}, {"<", T_LT}, {"=", T_ASSIGN},
		{".", T_DOT}, {":", T_COLON}, {"|", T_PIPE}, {",", T_COMMA},
		{";", T_SEMICOLON},
	};
	size_t i = 0;
	while (i < ARRAY_LEN(ops) && !at_text(lx, lx->pos, ops[i].text))
		i++;
	if (i == ARRAY_LEN(ops))
		return fail_here(lx, "unexpected character");
	char c = ops[i].text[0];
	if (c == '(' || c == '[' || c == '{') {
		buf_add_c(&lx->open, c == '(' ? ')' : (char)(c + 2));
	} else if (c == ')' || c == ']' || c == '}') {
		if (lx->open.n == 0 || lx->open.p[lx->open.n - 1] != c)
			return fail_here(lx, "this bracket closes nothing");
		lx->open.n--;
	}
	emit(lx, ops[i].type, lx->pos + strlen(ops[i].text));
	return OK;
}

static enum status lex_one(struct lexer *lx)
{
	unsigned char c = (unsigned char)lx->s.p[lx->pos];
	if (c >= '0' && c <= '9') {
		size_t end = float_end(lx, lx->pos);
		if (!end)
			return lex_integer(lx);
		lex_float(lx, end);
		return OK;
	}
	size_t end = name_end(lx);
	if (end > lx->pos) {
		emit(lx, T_NAME, end);
		return OK;
	}
	if (c == '"' || c == '\'')
		return lex_string(lx);
	return lex_operator(lx);
}

/* Splits the inside of a tag into tokens, from after its opening to its end. */
static enum status lex_inside(struct lexer *lx, bool is_variable)
{
	lx->open.n = 0;
	while (lx->pos < lx->s.n) {
		size_t end = lx->open.n ? 0 :
			     tag_end(lx, lx->pos, is_variable ? "}}" : "%}");
		if (end) {
			emit(lx, is_variable ? T_VAR_END : T_BLOCK_END, end);
			lx->line_starting = lx->s.p[end - 1] == '\n';
			return OK;
		}
		size_t next = skip_space(lx, lx->pos);
		if (next > lx->pos) {
			advance_to(lx, next);
			continue;
		}
		enum status st = lex_one(lx);
		if (st)
			return st;
	}
	return OK; /* the tag is not closed: the parser will report that */
}

static enum status lex_all(struct lexer *lx)
{
	enum status st = OK;
	while (!st && lx->pos < lx->s.n) {
		size_t tag = lx->pos;
		while (tag < lx->s.n && !(lx->s.p[tag] == '{' &&
					  is_char_of(char_at(lx, tag + 1), "%{#")))
			tag++;
		if (tag == lx->s.n) {
			emit(lx, T_DATA, tag);
			break;
		}
		char kind = lx->s.p[tag + 1], sign = sign_at(lx, tag + 2);
		size_t body = tag + 2 + (sign != 0);
		emit_data(lx, tag, sign, kind == '{');
		size_t raw = kind == '%' ? raw_begin(lx, tag) : 0;
		if (raw) {
			st = lex_raw(lx, raw);
		} else if (kind == '#') {
			st = lex_comment(lx, body);
		} else {
			emit(lx, kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN, body);
			st = lex_inside(lx, kind == '{');
		}
	}
	emit(lx, T_EOF, lx->pos);
	return st;
}

/* Turns \r\n and \r into \n and removes one newline at the very end. */
static struct str normalize(struct arena *a, struct str source)
{
	char *p = arena_alloc(a, source.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < source.n; i++) {
		char c = source.p[i];
		if (c == '\r') {
			if (i + 1 < source.n && source.p[i + 1] == '\n')
				i++;
			c = '\n';
		}
		p[n++] = c;
	}
	if (n && p[n - 1] == '\n')
		n--;
	return (struct str){p, n};
}

enum status jlex_run(struct arena *a, struct str source, struct token **out,
		     struct fail *fail)
{
	if (source.n > SOURCE_MAX)
		return fail_set(fail, E_LIMIT, "the chat template is longer than %zu "
				"bytes", SOURCE_MAX);
	struct lexer lx = {
		.a = a, .fail = fail, .s = normalize(a, source), .line = 1,
		.line_starting = true,
	};
	enum status st = lex_all(&lx);
	buf_deinit(&lx.open);
	if (!st)
		*out = lx.tokens;
	return st;
}
