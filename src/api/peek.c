/* SPDX-License-Identifier: Apache-2.0 */
#include "api/peek.h"

#include <jansson.h>

#include "api/multipart.h"

#define MAX_NAME 4096 /* bytes of a model's name, with its quotes */

struct cursor {
	const char *p, *end;
};

static void skip_space(struct cursor *c)
{
	while (c->p < c->end && is_char_of(*c->p, " \t\r\n"))
		c->p++;
}

/* Is the quote at p a part of the string that began at start? */
static bool is_escaped(const char *start, const char *p)
{
	size_t n = 0;
	while (p - 1 - n > start && p[-1 - (ptrdiff_t)n] == '\\')
		n++;
	return n % 2 != 0;
}

/* Takes the string that begins here, with its quotes. False: there is none. */
static bool take_string(struct cursor *c, struct str *out)
{
	const char *start = c->p, *p = start;
	if (start >= c->end || *start != '"')
		return false;
	do {
		p = memchr(p + 1, '"', (size_t)(c->end - p - 1)); /* most of a body is text */
	} while (p && is_escaped(start, p));
	if (!p)
		return false;
	c->p = p + 1;
	*out = (struct str){start, (size_t)(c->p - start)};
	return true;
}

/* Takes the value that begins here, whatever is in it. False: it does not end. */
static bool take_value(struct cursor *c, struct str *out)
{
	const char *start = c->p;
	struct str s;
	int depth = 0;
	while (c->p < c->end) {
		char x = *c->p;
		if (x == '"') {
			if (!take_string(c, &s))
				return false;
			continue;
		}
		if (depth == 0 && (x == ',' || x == '}'))
			break;
		depth += (x == '{' || x == '[') - (x == '}' || x == ']');
		c->p++;
	}
	*out = (struct str){start, (size_t)(c->p - start)};
	while (out->n && is_char_of(out->p[out->n - 1], " \t\r\n"))
		out->n--;
	return c->p < c->end;
}

/* The text of a string, with its escapes read. "": it is no string. One that is longer than any
 * name is cut and stays as it is: it is nobody's. */
static void add_text(struct str quoted, struct buf *out)
{
	if (!quoted.n || *quoted.p != '"')
		return;
	if (quoted.n > MAX_NAME) {
		buf_add(out, quoted.p + 1, MAX_NAME);
		return;
	}
	json_t *v = json_loadb(quoted.p, quoted.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (json_is_string(v))
		buf_add(out, json_string_value(v), json_string_length(v));
	json_decref(v);
}

/* Puts the cursor before the first member of the outermost object. False: there is none. */
static bool begin_object(struct cursor *c)
{
	skip_space(c);
	return c->p < c->end && *c->p == '{';
}

/* Takes the next member, of which the cursor stands before the brace or comma. */
static bool take_member(struct cursor *c, struct str *key, struct str *value)
{
	c->p++;
	skip_space(c);
	if (!take_string(c, key))
		return false;
	skip_space(c);
	if (c->p >= c->end || *c->p != ':')
		return false;
	c->p++;
	skip_space(c);
	return take_value(c, value);
}

void peek_body(struct str body, bool takes_name, struct peek *out)
{
	struct cursor c = {body.p, body.p + body.n};
	struct str key, value, model = {0}, name = {0};
	*out = (struct peek){0};
	for (bool more = begin_object(&c); more && take_member(&c, &key, &value);
	     more = *c.p == ',') {
		if (str_is(key, "\"model\""))
			model = value;
		else if (takes_name && str_is(key, "\"name\""))
			name = value;
		else if (str_is(key, "\"stream\""))
			out->is_stream = str_is(value, "true");
	}
	add_text(model, &out->model);
	if (!out->model.n)
		add_text(name, &out->model);
}

bool peek_member(struct str body, const char *quoted, struct str *out)
{
	struct cursor c = {body.p, body.p + body.n};
	struct str key;
	for (bool more = begin_object(&c); more && take_member(&c, &key, out); more = *c.p == ',')
		if (str_is(key, quoted))
			return true;
	return false;
}

void peek_form(struct str type, struct str body, struct peek *out)
{
	struct multipart form;
	*out = (struct peek){0};
	/* Of a broken form, what stands before the fault: whoever reads it all says what it is. */
	(void)!multipart_read(type, body, &form, NULL);
	const struct multipart_part *p = multipart_find(&form, "model", NULL);
	if (p)
		buf_add_str(&out->model, p->content);
}

void peek_deinit(struct peek *p) { buf_deinit(&p->model); }
