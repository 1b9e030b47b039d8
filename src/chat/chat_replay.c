/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/chat_replay.h"

#include <stdlib.h>

#include "json/json_digits.h"
#include "json/json_read.h"
#include "base/alloc.h"
#include "base/random.h"

/* A stand-in name is MARK, 16 hex digits, x, 8 hex digits. */
#define MARK "call"
/* Calls replayed in one prompt. Each costs a pass over the prompt's marks, so their number
 * is bounded. */
#define MAX_CALLS 256
enum { SECRET_END = sizeof MARK - 1 + 16 + 1, MARK_BYTES = SECRET_END + 8 };

struct replay_call {
	/* the stand-in: the name, or the one key of the arguments, in the rendered call */
	struct str mark;
	struct str name, text, args;
	struct replay_call *before;
	bool is_done;
};

static bool is_same(struct str a, struct str b)
{
	if (str_eq(a, b))
		return true;
	json_t *x = NULL, *y = NULL;
	bool same = json_read_parse(a, &x, NULL) == OK &&
		    json_read_parse(b, &y, NULL) == OK && json_digits_equal(x, y);
	json_decref(x);
	json_decref(y);
	return same;
}

/* Can the arguments alone be replaced? Not where the format writes parameters between tags:
 * there only the client's copy is JSON. */
static bool replays_args(const struct tool_format *f)
{
	return !f->open && !f->args.before_key;
}

bool replay_begin(struct chat_replay *r, struct str id, struct str name, struct str args,
		  struct str *out_name, struct str *out_key)
{
	struct callstore_call call;
	if (!r->store || r->n_calls == MAX_CALLS || !r->format ||
	    !(r->format->open || replays_args(r->format)) ||
	    !callstore_get(r->store, id, r->arena, &call) ||
	    !str_eq(name, call.name) || !is_same(args, call.args))
		return false;
	/* The secret is random, so no client can have written this name. */
	if (r->n_calls == 0)
		r->secret = random_u64();
	char mark[MARK_BYTES + 1];
	snprintf(mark, sizeof mark, MARK "%016llxx%08x", (unsigned long long)r->secret,
		 (unsigned)r->n_calls++);
	struct replay_call *new = arena_alloc(r->arena, sizeof *new);
	*new = (struct replay_call){arena_str(r->arena, str_of(mark)),
				    call.name, call.text, call.args, r->calls, false};
	r->calls = new;
	*out_key = (struct str){0};
	if (replays_args(r->format))
		*out_key = new->mark;
	else
		*out_name = new->mark;
	return true;
}

/* --- the prompt ---------------------------------------------------------- */

/* Appends bytes from..to of a marked text, with their trust. */
static void add_range(struct marked *out, const struct marked *m, size_t from,
		      size_t to)
{
	size_t begin = 0;
	for (size_t i = 0; i < m->n_marks && begin < to; i++) {
		size_t a = MAX(begin, from), b = MIN(m->marks[i].end, to);
		if (a < b)
			marked_add(out, (struct str){m->text.p + a, b - a},
				   m->marks[i].trust);
		begin = m->marks[i].end;
	}
}

static ptrdiff_t find_last(struct str s, struct str needle)
{
	ptrdiff_t last = -1, at = str_find(s, needle, 0);
	for (; at >= 0; at = str_find(s, needle, (size_t)at + needle.n))
		last = at;
	return last;
}

/* Appends the call in the model's words. The format's tags become the special tokens that
 * they were. */
static void add_call(struct marked *out, const struct replay_call *c,
		     const struct tool_format *f)
{
	struct str text = c->text, open = str_of(f->open), close = str_of(f->close_tag);
	if (str_starts(text, open)) {
		marked_add(out, open, TRUST_TEMPLATE);
		text = (struct str){text.p + open.n, text.n - open.n};
	}
	bool is_closed = str_ends(text, close);
	text.n -= is_closed ? close.n : 0;
	marked_add(out, text, TRUST_MODEL);
	if (is_closed)
		marked_add(out, close, TRUST_TEMPLATE);
}

/* Appends the text from *io_from to the call around the mark at `at`, then the model's
 * words in place of the template's. *io_from: the place behind the call. */
static bool replace_call(const struct chat_replay *r, const struct replay_call *c,
			 const struct marked *m, size_t at, size_t *io_from,
			 struct marked *out)
{
	struct str text = buf_str(&m->text);
	struct str front = {text.p + *io_from, at - *io_from};
	ptrdiff_t open = find_last(front, str_of(r->format->open));
	ptrdiff_t close = str_find(text, str_of(r->format->close_tag), at);
	if (open < 0 || close < 0)
		return false;
	add_range(out, m, *io_from, *io_from + (size_t)open);
	add_call(out, c, r->format);
	*io_from = (size_t)close + strlen(r->format->close_tag);
	return true;
}

/* Finds the object around a stand-in key at `at`; where the template takes strings, the
 * bare key. False: the template wrote something else. */
static bool find_object(const struct chat_replay *r, struct str text, size_t at, size_t from,
			size_t *out_begin, size_t *out_end)
{
	size_t begin = at, end = at + MARK_BYTES;
	*out_begin = begin;
	*out_end = end;
	bool is_quoted = begin > from && text.p[begin - 1] == '"' && end < text.n &&
			 text.p[end] == '"';
	if (!is_quoted || !r->takes_objects)
		return !is_quoted && !r->takes_objects;
	static const char behind[] = ":\"\"}";
	size_t k = 0;
	for (end++; end < text.n && behind[k]; end++) {
		if (text.p[end] == behind[k])
			k++;
		else if (text.p[end] != ' ' && text.p[end] != '\n')
			return false;
	}
	begin--;
	while (begin > from && (text.p[begin - 1] == ' ' || text.p[begin - 1] == '\n'))
		begin--;
	if (behind[k] || begin == from || text.p[begin - 1] != '{')
		return false;
	*out_begin = begin - 1;
	*out_end = end;
	return true;
}

static bool replace_args(const struct chat_replay *r, const struct replay_call *c,
			 const struct marked *m, size_t at, size_t *io_from,
			 struct marked *out)
{
	size_t begin, end;
	if (!find_object(r, buf_str(&m->text), at, *io_from, &begin, &end))
		return false;
	add_range(out, m, *io_from, begin);
	marked_add(out, c->args, TRUST_MODEL);
	*io_from = end;
	return true;
}

/* One pass over the marks. A call's first mark stands in the call itself. A template may
 * write the name again elsewhere, as in front of the call's result. */
bool replay_apply(const struct chat_replay *r, struct marked *prompt)
{
	if (r->n_calls == 0)
		return true;
	bool by_args = replays_args(r->format), good = true;
	struct replay_call **calls =
		arena_alloc(r->arena, (size_t)r->n_calls * sizeof *calls);
	int i = r->n_calls;
	for (struct replay_call *c = r->calls; c; c = c->before)
		calls[--i] = c;
	if (calls[0]->mark.n < SECRET_END) /* the request's memory was refused meanwhile */
		return true;
	struct str text = buf_str(&prompt->text);
	struct str secret = {calls[0]->mark.p, SECRET_END};
	struct marked out = {0};
	size_t from = 0;
	ptrdiff_t at;
	while (good && (at = str_find(text, secret, from)) >= 0) {
		size_t k = strtoul(text.p + at + SECRET_END, NULL, 16);
		struct replay_call *c = calls[MIN(k, (size_t)r->n_calls - 1)];
		if (by_args) {
			good = replace_args(r, c, prompt, (size_t)at, &from, &out);
			continue;
		}
		if (!c->is_done &&
		    replace_call(r, c, prompt, (size_t)at, &from, &out)) {
			c->is_done = true;
			continue;
		}
		add_range(&out, prompt, from, (size_t)at);
		marked_add(&out, c->name, TRUST_USER);
		from = MIN((size_t)at + MARK_BYTES, text.n);
	}
	add_range(&out, prompt, from, text.n);
	marked_deinit(prompt);
	*prompt = out;
	return good;
}
