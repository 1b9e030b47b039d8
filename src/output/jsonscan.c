/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks JSON by RFC 8259, with limited nesting. A byte above 0x7F is accepted inside
 * strings, without a check of UTF-8: the text's source ensures that.
 */
#include "output/jsonscan.h"

#include "base/hex.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static enum jsonscan_result go(struct jsonscan *s, enum jsonscan_state next)
{
	s->state = next;
	return JSONSCAN_MORE;
}

/* Ends a value; what may follow depends on the container around it. */
static enum jsonscan_result end_value(struct jsonscan *s)
{
	if (s->depth > 0)
		return go(s, JSON_AFTER);
	s->state = JSON_DONE;
	return JSONSCAN_DONE;
}

static enum jsonscan_result open_container(struct jsonscan *s, bool is_object)
{
	if (s->depth == JSONSCAN_MAX_DEPTH)
		return JSONSCAN_BAD;
	uint64_t bit = 1ull << s->depth++;
	s->is_object = is_object ? s->is_object | bit : s->is_object & ~bit;
	return go(s, is_object ? JSON_KEY_OR_END : JSON_VALUE_OR_END);
}

static bool in_object(const struct jsonscan *s)
{
	return s->depth > 0 && s->is_object >> (s->depth - 1) & 1;
}

static enum jsonscan_result close_container(struct jsonscan *s, char c)
{
	if (s->depth == 0 || in_object(s) != (c == '}'))
		return JSONSCAN_BAD;
	s->depth--;
	return end_value(s);
}

static enum jsonscan_result open_string(struct jsonscan *s, bool is_key)
{
	s->is_key = is_key;
	s->is_half = false;
	return go(s, JSON_STRING);
}

static enum jsonscan_result open_word(struct jsonscan *s, const char *rest)
{
	s->rest = rest;
	return go(s, JSON_WORD);
}

static enum jsonscan_result begin_value(struct jsonscan *s, char c)
{
	switch (c) {
	case '{': return open_container(s, true);
	case '[': return open_container(s, false);
	case '"': return open_string(s, false);
	case 't': return open_word(s, "rue");
	case 'f': return open_word(s, "alse");
	case 'n': return open_word(s, "ull");
	case '-': return go(s, JSON_MINUS);
	case '0': return go(s, JSON_ZERO);
	default: return is_digit(c) ? go(s, JSON_INT) : JSONSCAN_BAD;
	}
}

static enum jsonscan_result in_string(struct jsonscan *s, char c)
{
	bool was_half = s->is_half;
	s->is_half = false;
	if (c == '\\') {
		s->is_half = was_half; /* the second half of a surrogate pair may follow */
		return go(s, JSON_ESCAPE);
	}
	if ((unsigned char)c < 0x20)
		return JSONSCAN_BAD;
	if (c != '"')
		return JSONSCAN_MORE;
	return s->is_key ? go(s, JSON_COLON) : end_value(s);
}

static enum jsonscan_result in_escape(struct jsonscan *s, char c)
{
	if (c == 'u') {
		s->n_hex = 0;
		s->hex = 0;
		return go(s, JSON_HEX);
	}
	s->is_half = false;
	return is_char_of(c, "\"\\/bfnrt") ? go(s, JSON_STRING) : JSONSCAN_BAD;
}

static enum jsonscan_result in_hex(struct jsonscan *s, char c)
{
	int v = hex_digit(c);
	if (v < 0)
		return JSONSCAN_BAD;
	s->hex = s->hex << 4 | (uint32_t)v;
	if (++s->n_hex < 4)
		return JSONSCAN_MORE;
	s->is_half = !s->is_half && s->hex >= 0xD800 && s->hex < 0xDC00;
	return go(s, JSON_STRING);
}

static enum jsonscan_result in_word(struct jsonscan *s, char c)
{
	if (c != *s->rest)
		return JSONSCAN_BAD;
	return *++s->rest ? JSONSCAN_MORE : end_value(s);
}

/* A number ends at the first byte that does not belong to it. That byte is then read as
 * what follows the number. */
static enum jsonscan_result end_number(struct jsonscan *s, char c)
{
	enum jsonscan_result r = end_value(s);
	if (r == JSONSCAN_DONE)
		return jsonscan_is_space(c) ? r : JSONSCAN_BAD;
	return jsonscan_push(s, c);
}

static enum jsonscan_result in_number(struct jsonscan *s, char c)
{
	bool digit = is_digit(c);
	switch (s->state) {
	case JSON_MINUS:
		return digit ? go(s, c == '0' ? JSON_ZERO : JSON_INT) : JSONSCAN_BAD;
	case JSON_INT:
		if (digit)
			return JSONSCAN_MORE;
		break;
	case JSON_DOT: return digit ? go(s, JSON_FRAC) : JSONSCAN_BAD;
	case JSON_E:
		if (c == '+' || c == '-')
			return go(s, JSON_E_SIGN);
		return digit ? go(s, JSON_E_DIGITS) : JSONSCAN_BAD;
	case JSON_E_SIGN: return digit ? go(s, JSON_E_DIGITS) : JSONSCAN_BAD;
	case JSON_FRAC:
	case JSON_E_DIGITS:
		if (digit)
			return JSONSCAN_MORE;
		break;
	default: break; /* state JSON_ZERO */
	}
	if (c == '.' && (s->state == JSON_ZERO || s->state == JSON_INT))
		return go(s, JSON_DOT);
	if ((c == 'e' || c == 'E') && s->state != JSON_E_DIGITS)
		return go(s, JSON_E);
	return end_number(s, c);
}

enum jsonscan_result jsonscan_push(struct jsonscan *s, char c)
{
	switch (s->state) {
	case JSON_STRING: return in_string(s, c);
	case JSON_ESCAPE: return in_escape(s, c);
	case JSON_HEX: return in_hex(s, c);
	case JSON_WORD: return in_word(s, c);
	default: break;
	}
	if (s->state >= JSON_MINUS && s->state <= JSON_E_DIGITS)
		return in_number(s, c);
	if (jsonscan_is_space(c))
		return s->state == JSON_DONE ? JSONSCAN_DONE : JSONSCAN_MORE;
	switch (s->state) {
	case JSON_VALUE: return begin_value(s, c);
	case JSON_VALUE_OR_END:
		return c == ']' ? close_container(s, c) : begin_value(s, c);
	case JSON_KEY: return c == '"' ? open_string(s, true) : JSONSCAN_BAD;
	case JSON_KEY_OR_END:
		if (c == '}')
			return close_container(s, c);
		return c == '"' ? open_string(s, true) : JSONSCAN_BAD;
	case JSON_COLON: return c == ':' ? go(s, JSON_VALUE) : JSONSCAN_BAD;
	case JSON_AFTER:
		if (c == ',')
			return go(s, in_object(s) ? JSON_KEY : JSON_VALUE);
		return c == '}' || c == ']' ? close_container(s, c) : JSONSCAN_BAD;
	default: return JSONSCAN_BAD;
	}
}

bool jsonscan_finish(struct jsonscan *s)
{
	switch (s->state) {
	case JSON_ZERO:
	case JSON_INT:
	case JSON_FRAC:
	case JSON_E_DIGITS: return s->depth == 0;
	default: return s->state == JSON_DONE;
	}
}

bool jsonscan_is_value(struct str text)
{
	struct jsonscan s;
	jsonscan_init(&s);
	for (size_t i = 0; i < text.n; i++)
		if (jsonscan_push(&s, text.p[i]) == JSONSCAN_BAD)
			return false;
	return jsonscan_finish(&s);
}
