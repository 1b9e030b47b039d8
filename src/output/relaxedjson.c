/* SPDX-License-Identifier: Apache-2.0 */
#include "output/relaxedjson.h"

#define MAX_KEY 256 /* maximal bytes of a key without quotes */

void relaxedjson_add_text(struct buf *out, struct str text)
{
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		if (c == '"' || c == '\\')
			buf_addf(out, "\\%c", c);
		else if (c == '\n')
			buf_add_z(out, "\\n");
		else if (c < 0x20 || c == 0x7f)
			buf_addf(out, "\\u%04x", c);
		else
			buf_add_c(out, (char)c);
	}
}

void relaxedjson_add_word(struct buf *out, struct str text)
{
	static const char *const python[][2] = {
		{"True", "true"}, {"False", "false"}, {"None", "null"}};
	struct str word = jsonscan_trim(text);
	for (int i = 0; i < 3; i++)
		if (str_is(word, python[i][0]))
			word = str_of(python[i][1]);
	if (jsonscan_is_value(word)) {
		buf_add_str(out, word);
		return;
	}
	buf_add_c(out, '"');
	relaxedjson_add_text(out, text);
	buf_add_c(out, '"');
}

void relaxedjson_init(struct relaxedjson *l, const char *mark)
{
	struct buf word = l->word;
	buf_clear(&word);
	*l = (struct relaxedjson){.mark = mark, .word = word};
}

void relaxedjson_deinit(struct relaxedjson *l)
{
	buf_deinit(&l->word);
}

static bool in_object(const struct relaxedjson *l)
{
	return l->is_object >> (l->depth - 1) & 1;
}

static enum jsonscan_result open_container(struct relaxedjson *l, char c, struct buf *out)
{
	if (l->depth == JSONSCAN_MAX_DEPTH)
		return JSONSCAN_BAD;
	uint64_t bit = (uint64_t)1 << l->depth++;
	l->is_object = c == '{' ? l->is_object | bit : l->is_object & ~bit;
	l->state = c == '{' ? RELAXED_KEY_OR_END : RELAXED_VALUE_OR_END;
	buf_add_c(out, c);
	return JSONSCAN_MORE;
}

static enum jsonscan_result close_container(struct relaxedjson *l, char c, struct buf *out)
{
	if (c != (in_object(l) ? '}' : ']'))
		return JSONSCAN_BAD;
	buf_add_c(out, c);
	l->state = RELAXED_AFTER;
	return --l->depth ? JSONSCAN_MORE : JSONSCAN_DONE;
}

/* Reads the first byte of a string with marks or quotes. False: c begins no string. */
static bool open_string(struct relaxedjson *l, char c, bool is_key, struct buf *out)
{
	l->is_key = is_key;
	if (c == l->mark[0]) {
		l->state = RELAXED_OPEN;
		l->n_mark = 1;
		return true;
	}
	if (c != '"')
		return false;
	l->state = RELAXED_STRING;
	jsonscan_init(&l->scan);
	jsonscan_push(&l->scan, c);
	buf_add_c(out, c);
	return true;
}

static enum jsonscan_result begin_value(struct relaxedjson *l, char c, struct buf *out)
{
	bool may_end = l->state == RELAXED_VALUE_OR_END;
	if (jsonscan_is_space(c))
		return JSONSCAN_MORE;
	if (c == '{' || (c == '[' && l->depth > 0))
		return open_container(l, c, out);
	if (l->depth == 0 || c == ',' || c == ':' || c == '}' || (c == ']' && !may_end))
		return JSONSCAN_BAD;
	if (c == ']')
		return close_container(l, c, out);
	if (!open_string(l, c, false, out)) {
		l->state = RELAXED_WORD;
		buf_clear(&l->word);
		buf_add_c(&l->word, c);
	}
	return JSONSCAN_MORE;
}

static enum jsonscan_result begin_key(struct relaxedjson *l, char c, struct buf *out)
{
	bool may_end = l->state == RELAXED_KEY_OR_END;
	if (jsonscan_is_space(c))
		return JSONSCAN_MORE;
	if (c == '}' && may_end)
		return close_container(l, c, out);
	if (is_char_of(c, ",:{}[]"))
		return JSONSCAN_BAD;
	if (!open_string(l, c, true, out)) {
		l->state = RELAXED_BARE_KEY;
		buf_clear(&l->word);
		buf_add_c(&l->word, c);
	}
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_key(struct relaxedjson *l, char c, struct buf *out)
{
	if (c != ':') {
		buf_add_c(&l->word, c);
		bool is_bad = c == '\n' || is_char_of(c, ",{}[]") || l->word.n > MAX_KEY;
		return is_bad ? JSONSCAN_BAD : JSONSCAN_MORE;
	}
	buf_add_c(out, '"');
	relaxedjson_add_text(out, jsonscan_trim(buf_str(&l->word)));
	buf_add_z(out, "\": ");
	l->state = RELAXED_VALUE;
	return JSONSCAN_MORE;
}

static enum jsonscan_result after_value(struct relaxedjson *l, char c, struct buf *out)
{
	if (jsonscan_is_space(c))
		return JSONSCAN_MORE;
	if (c != ',')
		return close_container(l, c, out);
	buf_add_z(out, ", ");
	l->state = in_object(l) ? RELAXED_KEY : RELAXED_VALUE;
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_word(struct relaxedjson *l, char c, struct buf *out)
{
	if (c != ',' && c != '}' && c != ']') {
		buf_add_c(&l->word, c);
		return JSONSCAN_MORE;
	}
	relaxedjson_add_word(out, jsonscan_trim(buf_str(&l->word)));
	return after_value(l, c, out);
}

static enum jsonscan_result end_string(struct relaxedjson *l)
{
	l->state = l->is_key ? RELAXED_COLON : RELAXED_AFTER;
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_open(struct relaxedjson *l, char c, struct buf *out)
{
	if (c != l->mark[l->n_mark])
		return JSONSCAN_BAD;
	if (l->mark[++l->n_mark])
		return JSONSCAN_MORE;
	buf_add_c(out, '"');
	l->n_mark = 0;
	l->state = RELAXED_TEXT;
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_text(struct relaxedjson *l, char c, struct buf *out)
{
	if (c == l->mark[l->n_mark]) {
		if (l->mark[++l->n_mark])
			return JSONSCAN_MORE;
		buf_add_c(out, '"');
		return end_string(l);
	}
	relaxedjson_add_text(out, (struct str){l->mark, l->n_mark});
	l->n_mark = c == l->mark[0];
	if (!l->n_mark)
		relaxedjson_add_text(out, (struct str){&c, 1});
	return JSONSCAN_MORE;
}

static enum jsonscan_result in_string(struct relaxedjson *l, char c, struct buf *out)
{
	enum jsonscan_result r = jsonscan_push(&l->scan, c);
	if (r == JSONSCAN_BAD)
		return r;
	buf_add_c(out, c);
	return r == JSONSCAN_DONE ? end_string(l) : r;
}

enum jsonscan_result relaxedjson_push(struct relaxedjson *l, char c, struct buf *out)
{
	switch (l->state) {
	case RELAXED_VALUE:
	case RELAXED_VALUE_OR_END: return begin_value(l, c, out);
	case RELAXED_KEY:
	case RELAXED_KEY_OR_END: return begin_key(l, c, out);
	case RELAXED_BARE_KEY: return in_key(l, c, out);
	case RELAXED_WORD: return in_word(l, c, out);
	case RELAXED_OPEN: return in_open(l, c, out);
	case RELAXED_TEXT: return in_text(l, c, out);
	case RELAXED_STRING: return in_string(l, c, out);
	case RELAXED_AFTER: return after_value(l, c, out);
	case RELAXED_COLON: break;
	}
	if (c == ':') {
		buf_add_z(out, ": ");
		l->state = RELAXED_VALUE;
		return JSONSCAN_MORE;
	}
	return jsonscan_is_space(c) ? JSONSCAN_MORE : JSONSCAN_BAD;
}
