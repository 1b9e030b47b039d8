/* SPDX-License-Identifier: Apache-2.0
 *
 *   NAME_OR_END ──► NAME ──► VALUE ──► STRING, WORD ──► AFTER ──► NAME_OR_END …
 *                              │                          ▲
 *                              └──► a list or a dict ─────┘
 *
 * A comma is written in front of the next member and not where it was read, since Python
 * allows a comma behind the last member.
 */
#include "output/pyargs.h"

#include "output/relaxedjson.h"

#define MAX_NAME 256 /* maximal bytes of a name or a bare word used as a key */

void pyargs_init(struct pyargs *p)
{
	struct buf word = p->word;
	buf_clear(&word);
	*p = (struct pyargs){.word = word};
}

void pyargs_deinit(struct pyargs *p)
{
	buf_deinit(&p->word);
}

bool pyargs_in_escape(const struct pyargs *p)
{
	return p->state == PY_ESCAPE || p->state == PY_HEX;
}

static bool is_in_name(char c, bool is_first)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) ||
	       (!is_first && c >= '0' && c <= '9');
}

static void begin_word(struct pyargs *p, enum pyargs_state state, char c)
{
	p->state = state;
	buf_clear(&p->word);
	buf_add_c(&p->word, c);
}

/* Writes a comma in front of a member that is not the first. */
static void begin_member(struct pyargs *p, struct buf *out)
{
	if (p->has_some)
		buf_add_z(out, ", ");
	else if (p->depth == 0)
		buf_add_c(out, '{');
	p->has_some = true;
}

static enum jsonscan_result begin_name(struct pyargs *p, char c, struct buf *out)
{
	if (c == ')') {
		buf_add_z(out, p->has_some ? "}" : "{}");
		return JSONSCAN_DONE;
	}
	if (!is_in_name(c, true))
		return JSONSCAN_BAD;
	begin_word(p, PY_NAME, c);
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_name(struct pyargs *p, char c, struct buf *out)
{
	if (p->state == PY_NAME && is_in_name(c, false) && p->word.n < MAX_NAME) {
		buf_add_c(&p->word, c);
		return JSONSCAN_MORE;
	}
	p->state = PY_EQUALS;
	if (jsonscan_is_space(c))
		return JSONSCAN_MORE;
	if (c != '=')
		return JSONSCAN_BAD;
	begin_member(p, out);
	buf_add_json(out, buf_str(&p->word));
	buf_add_z(out, ": ");
	p->state = PY_VALUE;
	return JSONSCAN_MORE;
}

static enum jsonscan_result open_container(struct pyargs *p, char c, struct buf *out)
{
	if (p->depth == JSONSCAN_MAX_DEPTH)
		return JSONSCAN_BAD;
	p->closers[p->depth++] = c == '{' ? '}' : c == '[' ? ']' : ')';
	p->state = c == '{' ? PY_KEY_OR_END : PY_VALUE_OR_END;
	p->has_some = false;
	buf_add_c(out, c == '{' ? '{' : '[');
	return JSONSCAN_MORE;
}

static enum jsonscan_result close_container(struct pyargs *p, char c, struct buf *out)
{
	if (c != p->closers[p->depth - 1])
		return JSONSCAN_BAD;
	buf_add_c(out, c == '}' ? '}' : ']');
	p->depth--;
	p->has_some = true; /* the outer container now has this one as a member */
	p->state = PY_AFTER;
	return JSONSCAN_MORE;
}

static enum jsonscan_result begin_value(struct pyargs *p, char c, struct buf *out)
{
	bool is_inside = p->state != PY_VALUE;
	if (is_inside && c == p->closers[p->depth - 1])
		return close_container(p, c, out);
	if (is_char_of(c, ",:=)]}"))
		return JSONSCAN_BAD;
	p->is_key = p->state == PY_KEY_OR_END;
	if (p->is_key && is_char_of(c, "{[("))
		return JSONSCAN_BAD;
	if (is_inside)
		begin_member(p, out);
	if (is_char_of(c, "{[("))
		return open_container(p, c, out);
	if (c == '"' || c == '\'') {
		p->quote = c;
		p->state = PY_STRING;
		buf_add_c(out, '"');
		return JSONSCAN_MORE;
	}
	begin_word(p, PY_WORD, c);
	return JSONSCAN_MORE;
}

/* Reads c behind a key or a value. */
static enum jsonscan_result behind(struct pyargs *p, char c, struct buf *out)
{
	if (jsonscan_is_space(c))
		return JSONSCAN_MORE;
	if (p->state == PY_COLON) {
		buf_add_z(out, ": ");
		p->state = PY_VALUE;
		return c == ':' ? JSONSCAN_MORE : JSONSCAN_BAD;
	}
	if (c != ',')
		return p->depth ? close_container(p, c, out)
		       : c == ')' ? begin_name(p, c, out) : JSONSCAN_BAD;
	p->state = !p->depth			       ? PY_NAME_OR_END
		   : p->closers[p->depth - 1] == '}' ? PY_KEY_OR_END
						       : PY_VALUE_OR_END;
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_word(struct pyargs *p, char c, struct buf *out)
{
	bool is_end = is_char_of(c, p->is_key ? ":,)]}" : ",)]}") || c == '\n';
	if (!is_end) {
		buf_add_c(&p->word, c);
		return is_char_of(c, "\"'({[=") ? JSONSCAN_BAD : JSONSCAN_MORE;
	}
	struct str word = jsonscan_trim(buf_str(&p->word));
	if (p->is_key)
		buf_add_json(out, word);
	else
		relaxedjson_add_word(out, word);
	p->state = p->is_key ? PY_COLON : PY_AFTER;
	return behind(p, c, out);
}

static enum jsonscan_result in_string(struct pyargs *p, char c, struct buf *out)
{
	if (c == '\\') {
		p->state = PY_ESCAPE;
	} else if (c == p->quote) {
		buf_add_c(out, '"');
		p->state = p->is_key ? PY_COLON : PY_AFTER;
	} else {
		relaxedjson_add_text(out, (struct str){&c, 1});
	}
	return JSONSCAN_MORE;
}

/* Reads the character behind a backslash. Python keeps the backslash of an escape that it
 * does not know, but \/ is JSON's. */
static enum jsonscan_result in_escape(struct pyargs *p, char c, struct buf *out)
{
	p->state = PY_STRING;
	if (c == 'u' || c == 'x') {
		p->state = PY_HEX;
		p->n_hex = c == 'u' ? 4 : 2;
		buf_add_z(out, c == 'u' ? "\\u" : "\\u00");
	} else if (is_char_of(c, "\"\\/bfnrt")) {
		buf_addf(out, "\\%c", c);
	} else if (c == '\'') {
		buf_add_c(out, c);
	} else if (c != '\n') { /* backslash and newline: Python drops both */
		buf_add_z(out, "\\\\");
		relaxedjson_add_text(out, (struct str){&c, 1});
	}
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_hex(struct pyargs *p, char c, struct buf *out)
{
	if (!is_char_of(c, "0123456789abcdefABCDEF"))
		return JSONSCAN_BAD;
	buf_add_c(out, c);
	if (--p->n_hex == 0)
		p->state = PY_STRING;
	return JSONSCAN_MORE;
}

enum jsonscan_result pyargs_push(struct pyargs *p, char c, struct buf *out)
{
	if (c == 0)
		return JSONSCAN_BAD;
	switch (p->state) {
	case PY_NAME:
	case PY_EQUALS: return in_name(p, c, out);
	case PY_WORD: return in_word(p, c, out);
	case PY_STRING: return in_string(p, c, out);
	case PY_ESCAPE: return in_escape(p, c, out);
	case PY_HEX: return in_hex(p, c, out);
	case PY_COLON:
	case PY_AFTER: return behind(p, c, out);
	default: break;
	}
	if (jsonscan_is_space(c))
		return JSONSCAN_MORE;
	return p->state == PY_NAME_OR_END ? begin_name(p, c, out) : begin_value(p, c, out);
}
