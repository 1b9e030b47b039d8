/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses tool calls byte by byte, in time linear in the text.
 *
 * Outside of calls, text goes to its channel. White space and prefixes of literals wait
 * for what follows. Inside a call, all its text is kept (`raw`). A byte that does not fit
 * makes the call broken: its whole text is handed back, and the parser continues outside
 * of calls. No text is ever lost: without calls the output equals the input.
 *
 *              literal                      literal | TOOL_END
 *   TEXT ──────────────► EXPECT, UNTIL, … ──────────────────► TEXT
 *     ▲                        │
 *     └──── OUT_CALL_BROKEN ───┘
 *
 * Arguments are always emitted as JSON. JSON arguments are checked and passed on as the
 * model spelled them. Parameters between tags become strings, except if the tool's schema
 * permits another type and the text is JSON.
 */
#include "output/toolparse.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "output/relaxedjson.h"
#include "output/pyargs.h"

#define MAX_NAME 256 /* maximal bytes of a name, key or header */

/* The part of a TOOL_CALL's object that is being read. */
enum field { FIELD_NONE, FIELD_KEY, FIELD_BEFORE, FIELD_NAME, FIELD_ARGS,
	     FIELD_TEXT_ARGS, FIELD_OTHER };

struct toolparse {
	struct toolparse_opts o;
	toolparse_sink sink;
	void *ctx;
	const struct tool_state *state;
	size_t at[TOOL_LITERALS]; /* for each literal: number of its bytes at the end of the text */
	struct buf hold;          /* text of this state that is not decided yet */
	size_t n_space;           /* white space at the front of `hold` */
	int n_calls, n_begun;
	bool is_over;             /* with one_call: the call is complete */

	/* the call */
	bool in_call, is_named, has_args;
	struct buf lead;  /* white space before the call */
	struct buf raw;   /* whole text of the call */
	size_t n_header;  /* bytes at the front of `raw` that are a header, read as a whole */
	struct buf name;
	struct buf args;  /* arguments that were not emitted yet */
	struct buf key;   /* name of the current parameter */
	int n_params;
	bool is_string, is_first; /* in TOOL_VALUE: the value is a string; its first byte is still
				   * to come */

	/* JSON */
	struct jsonscan scan, inner; /* inner: arguments that are spelled as a JSON string */
	enum field field, next_field;
	struct buf word;
	uint32_t half; /* first half of a surrogate pair; 0: none */
	struct relaxedjson relaxed;
	struct pyargs python;
};

static void toolparse_step(struct toolparse *p, char c);
static void push_byte(struct toolparse *p, char c);

static void toolparse_emit(struct toolparse *p, enum out_channel channel, struct str text)
{
	if (text.n)
		p->sink(p->ctx, channel, text);
}

/* --- calls --------------------------------------------------------------- */

static const struct toolparse_tool *find_tool(const struct toolparse *p,
					      struct str name)
{
	for (int i = 0; i < p->o.n_tools; i++)
		if (str_eq(p->o.tools[i].name, name))
			return &p->o.tools[i];
	return NULL;
}

static void toolparse_enter(struct toolparse *p, unsigned next)
{
	p->state = &tool_states[next & TOOL_STATE];
	memset(p->at, 0, sizeof p->at);
	buf_clear(&p->hold);
	buf_clear(&p->word);
	p->n_space = 0;
	p->field = FIELD_NONE;
	jsonscan_init(&p->scan);
	relaxedjson_init(&p->relaxed, p->state->literals[0]);
	pyargs_init(&p->python);
	p->is_first = true;
}

static void leave_call(struct toolparse *p)
{
	p->in_call = p->is_named = p->has_args = false;
	p->n_params = 0;
	p->n_header = 0;
	buf_clear(&p->lead);
	buf_clear(&p->raw);
	buf_clear(&p->name);
	buf_clear(&p->args);
}

static void begin_call(struct toolparse *p, struct str text)
{
	p->in_call = true;
	p->n_begun++;
	buf_add_str(&p->raw, text);
}

/* Breaks the call. Text after an emitted name is reported as that call's, so a client
 * that showed the name learns of it. A call without a tag is plain text. */
static void break_call(struct toolparse *p)
{
	bool is_bare = p->state->is_bare && !p->is_named;
	buf_add_str(&p->lead, buf_str(&p->raw));
	toolparse_emit(p, is_bare ? OUT_CONTENT : OUT_CALL_BROKEN, buf_str(&p->lead));
	leave_call(p);
	toolparse_enter(p, p->o.format->start);
	/* what follows stands inside a text, not at the start of an answer */
	if (p->state->kind == TOOL_EXPECT)
		toolparse_enter(p, p->state->other);
	else if (p->state->kind == TOOL_UNTIL)
		toolparse_enter(p, p->state->next[0]);
}

static void flush_args(struct toolparse *p)
{
	if (!p->is_named)
		return;
	toolparse_emit(p, OUT_CALL_ARGS, buf_str(&p->args));
	buf_clear(&p->args);
}

static void end_call(struct toolparse *p)
{
	if (p->n_params > 0)
		buf_add_c(&p->args, '}');
	else if (!p->has_args)
		buf_add_z(&p->args, "{}");
	flush_args(p);
	toolparse_emit(p, OUT_CALL_END, buf_str(&p->raw));
	leave_call(p);
	p->n_calls++;
	p->is_over = p->o.one_call;
}

/* Sets the call's name; false: the name is not valid here. */
static bool set_name(struct toolparse *p, struct str name)
{
	if (name.n == 0 || name.n > MAX_NAME || p->is_named)
		return false;
	for (size_t i = 0; i < name.n; i++)
		if ((unsigned char)name.p[i] <= ' ' || is_char_of(name.p[i], "\"<>{}"))
			return false;
	if (p->state->is_bare && !find_tool(p, name))
		return false;
	p->is_named = true;
	buf_add_str(&p->name, name);
	toolparse_emit(p, OUT_CALL_NAME, name);
	flush_args(p);
	return true;
}

/* --- literals ------------------------------------------------------------ */

/* The index of the literal that c completes; -1: none. *out_held: bytes at the end of
 * `hold` that may become one. */
static int match(struct toolparse *p, char c, size_t *out_held)
{
	*out_held = 0;
	for (int i = 0; i < TOOL_LITERALS && p->state->literals[i]; i++) {
		const char *lit = p->state->literals[i];
		if (lit[p->at[i]] == c)
			p->at[i]++;
		else
			p->at[i] = lit[0] == c;
		if (!lit[p->at[i]])
			return i;
		*out_held = MAX(*out_held, p->at[i]);
	}
	return -1;
}

/* The state just entered reads `text` again. */
static void again(struct toolparse *p, struct str text, bool is_new)
{
	struct buf copy = {0};
	buf_add_str(&copy, text);
	for (size_t i = 0; i < copy.n; i++) {
		if (is_new)
			push_byte(p, copy.p[i]);
		else
			toolparse_step(p, copy.p[i]);
	}
	buf_deinit(&copy);
}

/* Enters the next state after a literal of n_literal bytes at the end of `hold`. */
static void toolparse_follow(struct toolparse *p, unsigned next, size_t n_literal)
{
	struct buf read = p->hold;
	p->hold = (struct buf){0};
	struct str lit = {n_literal ? read.p + read.n - n_literal : NULL, n_literal};
	bool was_outside = p->state->is_outside;
	if (next & TOOL_END)
		end_call(p);
	toolparse_enter(p, next);
	if (!p->state->is_outside && (was_outside || next & TOOL_END)) {
		begin_call(p, lit);
		if (was_outside)
			buf_add(&p->lead, read.p, read.n - n_literal);
	}
	if (next & TOOL_AGAIN)
		again(p, lit, p->state->is_outside);
	buf_deinit(&read);
}

/* Enters state `other`, which reads all text of this state again. */
static void follow_other(struct toolparse *p)
{
	unsigned next = p->state->other;
	if (!next) {
		break_call(p);
		return;
	}
	struct buf read = p->hold;
	p->hold = (struct buf){0};
	if (next & TOOL_END) {
		p->raw.n -= MIN(read.n, p->raw.n);
		end_call(p);
	}
	toolparse_enter(p, next);
	again(p, buf_str(&read), p->state->is_outside);
	buf_deinit(&read);
}

/* --- text and words ------------------------------------------------------ */

static void release(struct toolparse *p, size_t n)
{
	toolparse_emit(p, p->state->channel, (struct str){p->hold.p, n});
	buf_drop(&p->hold, n);
}

/* Reads c in TOOL_TEXT. `hold` is white space and then a prefix of a literal. */
static void step_text(struct toolparse *p, char c)
{
	size_t held;
	int i = match(p, c, &held);
	buf_add_c(&p->hold, c);
	if (i < 0 && held == 0 && jsonscan_is_space(c) && p->hold.n == p->n_space + 1) {
		p->n_space++;
		return;
	}
	if (i < 0 && held > 0 && p->hold.n == p->n_space + held)
		return;
	size_t n_literal = i < 0 ? held : strlen(p->state->literals[i]);
	size_t n = p->hold.n - n_literal;
	if (n > p->n_space) {
		while (n > 0 && jsonscan_is_space(p->hold.p[n - 1]))
			n--;
		release(p, n);
	}
	p->n_space = p->hold.n - n_literal;
	if (i >= 0)
		toolparse_follow(p, p->state->next[i], n_literal);
}

/* Reads c in TOOL_EXPECT. `hold` is white space and then a prefix of a literal. */
static void step_expect(struct toolparse *p, char c)
{
	buf_add_c(&p->hold, c);
	if (jsonscan_is_space(c) && p->hold.n == p->n_space + 1) {
		p->n_space++;
		return;
	}
	struct str word = {p->hold.p + p->n_space, p->hold.n - p->n_space};
	bool may_become = false;
	for (int i = 0; i < TOOL_LITERALS && p->state->literals[i]; i++) {
		struct str lit = str_of(p->state->literals[i]);
		if (str_eq(lit, word)) {
			toolparse_follow(p, p->state->next[i], lit.n);
			return;
		}
		may_become |= str_starts(lit, word);
	}
	if (!may_become)
		follow_other(p);
}

/* Where a message goes by its header " to=self", as an index of next: to the user, to the model
 * itself, or to a tool. */
static int reader_of(struct str header)
{
	ptrdiff_t at = str_find(header, STR("to="), 0);
	size_t begin = (size_t)at + 3, end = begin;
	while (at >= 0 && end < header.n && !jsonscan_is_space(header.p[end]) &&
	       header.p[end] != '<')
		end++;
	struct str word = {header.p + begin, end - begin};
	return at < 0 || str_is(word, "user") ? 0 : str_is(word, "self") ? 1 : 2;
}

/* Reads "<|channel|>commentary to=functions.f <|constrain|>json"; the two parts come in
 * either order. Or "assistant to=self", where a call is not in the header. */
static void take_header(struct toolparse *p, struct str header, size_t n_literal)
{
	const struct tool_state *s = p->state;
	static const char to[] = "to=functions.";
	ptrdiff_t at = str_find(header, STR("to=functions."), 0);
	if (tool_states[s->next[2]].is_outside) {
		toolparse_enter(p, s->next[reader_of(header)]);
		return;
	}
	if (at < 0) {
		bool thinks = str_find(header, STR("analysis"), 0) >= 0;
		toolparse_enter(p, s->next[thinks]);
		return;
	}
	struct str name = {header.p + at + sizeof to - 1,
			   header.n - (size_t)at - (sizeof to - 1)};
	size_t n = 0;
	while (n < name.n && !jsonscan_is_space(name.p[n]) && name.p[n] != '<')
		n++;
	char copy[MAX_NAME];
	n = MIN(n, sizeof copy);
	memcpy(copy, name.p, n);
	begin_call(p, (struct str){header.p, header.n + n_literal});
	p->n_header = header.n;
	toolparse_enter(p, s->next[2]);
	if (!set_name(p, (struct str){copy, n}))
		break_call(p);
}

static bool may_be_header(struct str text)
{
	text = jsonscan_trim(text);
	return text.n == 0 || text.p[0] == '<' || text.p[0] == 't' ||
	       text.p[0] == 'a';
}

/* The name in "functions.NAME:0". */
static struct str name_of_id(struct str id)
{
	struct str front = STR("functions.");
	size_t n = id.n;
	while (n > 0 && id.p[n - 1] >= '0' && id.p[n - 1] <= '9')
		n--;
	if (n > 0 && n < id.n && id.p[n - 1] == ':')
		id.n = n - 1;
	if (str_starts(id, front))
		id = (struct str){id.p + front.n, id.n - front.n};
	return id;
}

static void step_until(struct toolparse *p, char c)
{
	size_t held;
	int i = match(p, c, &held);
	buf_add_c(&p->hold, c);
	bool is_header = p->state->take == TAKE_HEADER;
	if (i < 0) {
		bool fits = p->hold.n <= MAX_NAME &&
			    (!is_header || may_be_header(buf_str(&p->hold)));
		if (fits)
			return;
		if (!is_header) {
			break_call(p);
			return;
		}
		/* emitted at once: reading it again would find the same header for ever */
		toolparse_emit(p, OUT_CONTENT, buf_str(&p->hold));
		toolparse_enter(p, p->state->next[0]);
		return;
	}
	size_t n = strlen(p->state->literals[i]);
	struct str text = {p->hold.p, p->hold.n - n};
	if (is_header) {
		take_header(p, text, n);
		return;
	}
	text = jsonscan_trim(text);
	if (p->state->take == TAKE_ID)
		text = name_of_id(text);
	bool is_name = p->state->take == TAKE_NAME || p->state->take == TAKE_ID;
	if (is_name && !set_name(p, text)) {
		break_call(p);
		return;
	}
	if (p->state->take == TAKE_KEY) {
		buf_clear(&p->key);
		buf_add_str(&p->key, text);
	}
	toolparse_follow(p, p->state->next[i], n);
}

/* --- parameters between tags --------------------------------------------- */

static bool is_string_param(const struct toolparse *p)
{
	const struct toolparse_tool *tool = find_tool(p, buf_str(&p->name));
	for (int i = 0; tool && i < tool->n_params; i++)
		if (str_eq(tool->params[i].name, buf_str(&p->key)))
			return tool->params[i].is_string;
	return false;
}

static void begin_value(struct toolparse *p)
{
	p->is_first = false;
	p->is_string = is_string_param(p);
	p->has_args = true;
	buf_add_z(&p->args, p->n_params++ ? ", " : "{");
	buf_add_json(&p->args, buf_str(&p->key));
	buf_add_z(&p->args, ": ");
	if (p->is_string)
		buf_add_c(&p->args, '"');
}

static void step_value(struct toolparse *p, char c)
{
	bool strips = p->state->strips_newlines;
	if (p->is_first) {
		begin_value(p);
		if (strips && c == '\n')
			return;
	}
	size_t held;
	int i = match(p, c, &held);
	buf_add_c(&p->hold, c);
	if (i < 0 && !p->is_string)
		return;
	size_t n_literal = i < 0 ? held : strlen(p->state->literals[i]);
	size_t n = p->hold.n - n_literal;
	if (n > 0 && strips && p->hold.p[n - 1] == '\n')
		n--;
	if (p->is_string)
		relaxedjson_add_text(&p->args, (struct str){p->hold.p, n});
	else
		relaxedjson_add_word(&p->args, (struct str){p->hold.p, n});
	if (i < 0) {
		buf_drop(&p->hold, n);
	} else {
		if (p->is_string)
			buf_add_c(&p->args, '"');
		toolparse_follow(p, p->state->next[i], n_literal);
	}
	flush_args(p);
}

/* --- JSON ---------------------------------------------------------------- */

static void add_cp(struct buf *out, uint32_t cp)
{
	char bytes[4];
	buf_add(out, bytes, utf8_encode(cp, bytes));
}

/* Half a surrogate pair is no character, so a replacement is written. */
static void drop_half(struct toolparse *p, struct buf *out)
{
	if (p->half)
		add_cp(out, 0xFFFD);
	p->half = 0;
}

/* Completes a \u escape. */
static void add_unicode(struct toolparse *p, uint32_t cp, struct buf *out)
{
	if (p->half && cp >= 0xDC00 && cp < 0xE000) {
		add_cp(out, 0x10000 + ((p->half - 0xD800) << 10) + (cp - 0xDC00));
		p->half = 0;
		return;
	}
	drop_half(p, out);
	if (cp >= 0xD800 && cp < 0xDC00)
		p->half = cp;
	else
		add_cp(out, cp >= 0xDC00 && cp < 0xE000 ? 0xFFFD : cp);
}

/* Decodes byte c of a string that `scan` has accepted. before: the scanner's state before
 * c. */
static void unescape(struct toolparse *p, enum jsonscan_state before, char c,
		     struct buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	bool is_end = before == JSON_STRING && c == '"';
	if (before == JSON_ESCAPE && c != 'u') {
		drop_half(p, out);
		buf_add_c(out, to[strchr(from, c) - from]);
	} else if (before == JSON_HEX && p->scan.state == JSON_STRING) {
		add_unicode(p, p->scan.hex, out);
	} else if (is_end || (before == JSON_STRING && c != '\\')) {
		drop_half(p, out);
		if (!is_end)
			buf_add_c(out, c);
	}
}

static void begin_args(struct toolparse *p)
{
	p->has_args = true;
	jsonscan_init(&p->inner);
}

/* Decides by the key how its value in the call's object is read. */
static bool choose_field(struct toolparse *p)
{
	struct str key = buf_str(&p->word);
	p->field = FIELD_BEFORE;
	if (str_is(key, "name"))
		p->next_field = FIELD_NAME;
	else if (str_is(key, "arguments") || str_is(key, "parameters"))
		p->next_field = FIELD_ARGS;
	else
		p->next_field = FIELD_OTHER;
	buf_clear(&p->word);
	return !(p->next_field == FIELD_NAME && p->is_named) &&
	       !(p->next_field == FIELD_ARGS && p->has_args);
}

/* Reads the first byte of a field's value. */
static bool begin_field(struct toolparse *p, char c)
{
	p->field = p->next_field;
	if (p->field == FIELD_NAME)
		return c == '"';
	if (p->field != FIELD_ARGS)
		return true;
	begin_args(p);
	if (c == '{')
		buf_add_c(&p->args, c);
	else
		p->field = FIELD_TEXT_ARGS;
	return c == '{' || c == '"';
}

/* Reads bytes of arguments that are spelled as a string. */
static bool push_inner(struct toolparse *p)
{
	for (size_t i = 0; i < p->word.n; i++) {
		char c = p->word.p[i];
		if (p->inner.state == JSON_VALUE && p->inner.depth == 0 &&
		    !jsonscan_is_space(c) && c != '{')
			return false;
		if (jsonscan_push(&p->inner, c) == JSONSCAN_BAD)
			return false;
	}
	buf_add_str(&p->args, buf_str(&p->word));
	buf_clear(&p->word);
	return true;
}

/* Reads c inside a field's value. is_end: c was the last byte of the value. */
static bool push_field(struct toolparse *p, enum jsonscan_state before, char c)
{
	bool is_end = p->scan.depth <= 1 &&
		      (p->scan.state == JSON_AFTER || p->scan.state == JSON_KEY ||
		       p->scan.state == JSON_DONE);
	bool good = true;
	if (p->field == FIELD_NAME || p->field == FIELD_TEXT_ARGS)
		unescape(p, before, c, &p->word);
	if (p->field == FIELD_TEXT_ARGS)
		good = push_inner(p) && (!is_end || jsonscan_finish(&p->inner));
	else if (p->field == FIELD_ARGS)
		buf_add_c(&p->args, c);
	else if (p->field == FIELD_NAME && is_end)
		good = set_name(p, buf_str(&p->word));
	if (p->field == FIELD_NAME && p->word.n > MAX_NAME)
		good = false;
	if (is_end) {
		p->field = FIELD_NONE;
		buf_clear(&p->word);
	}
	return good;
}

/* Emits arguments, cut only between characters and escapes. */
static void offer_args(struct toolparse *p)
{
	bool in_string = p->field == FIELD_TEXT_ARGS;
	const struct jsonscan *s = in_string ? &p->inner : &p->scan;
	if (p->args.n && !jsonscan_in_escape(s))
		flush_args(p);
}

static bool push_call(struct toolparse *p, enum jsonscan_state before, char c)
{
	switch (p->field) {
	case FIELD_NONE:
		if (p->scan.depth == 1 && p->scan.state == JSON_STRING) {
			p->field = FIELD_KEY;
			p->half = 0;
		}
		return true;
	case FIELD_KEY:
		if (p->scan.state == JSON_COLON)
			return choose_field(p);
		unescape(p, before, c, &p->word);
		return p->word.n <= MAX_NAME;
	case FIELD_BEFORE:
		if (jsonscan_is_space(c) || c == ':')
			return true;
		p->half = 0;
		return begin_field(p, c);
	default: return push_field(p, before, c);
	}
}

static void step_json(struct toolparse *p, char c)
{
	bool is_args = p->state->kind == TOOL_ARGS;
	enum jsonscan_state before = p->scan.state;
	if (before == JSON_VALUE && p->scan.depth == 0 && !jsonscan_is_space(c) && c != '{') {
		break_call(p);
		return;
	}
	enum jsonscan_result r = jsonscan_push(&p->scan, c);
	bool good = r != JSONSCAN_BAD;
	if (good && is_args) {
		p->has_args = true;
		if (before != JSON_VALUE || !jsonscan_is_space(c) || p->scan.depth > 0)
			buf_add_c(&p->args, c);
	} else if (good) {
		good = push_call(p, before, c);
	}
	if (good && r == JSONSCAN_DONE)
		good = p->is_named;
	if (!good) {
		break_call(p);
		return;
	}
	offer_args(p);
	if (r == JSONSCAN_DONE)
		toolparse_follow(p, p->state->next[0], 0);
}

static void step_relaxed(struct toolparse *p, char c)
{
	bool is_python = p->state->kind == TOOL_PYTHON;
	enum jsonscan_result r = is_python ? pyargs_push(&p->python, c, &p->args)
					   : relaxedjson_push(&p->relaxed, c, &p->args);
	if (r == JSONSCAN_BAD) {
		break_call(p);
		return;
	}
	p->has_args = true;
	if (!is_python || !pyargs_in_escape(&p->python))
		flush_args(p);
	if (r == JSONSCAN_DONE)
		toolparse_follow(p, p->state->next[0], 0);
}

/* --- the whole ----------------------------------------------------------- */

static void toolparse_step(struct toolparse *p, char c)
{
	switch (p->state->kind) {
	case TOOL_TEXT: step_text(p, c); break;
	case TOOL_EXPECT: step_expect(p, c); break;
	case TOOL_UNTIL: step_until(p, c); break;
	case TOOL_VALUE: step_value(p, c); break;
	case TOOL_CALL:
	case TOOL_ARGS: step_json(p, c); break;
	case TOOL_PYTHON:
	case TOOL_RELAXED: step_relaxed(p, c); break;
	}
}

static void push_byte(struct toolparse *p, char c)
{
	if (p->is_over)
		return;
	if (p->in_call)
		buf_add_c(&p->raw, c);
	toolparse_step(p, c);
}

struct toolparse *toolparse_create(const struct toolparse_opts *o,
				   toolparse_sink sink, void *ctx)
{
	struct toolparse *p = xcalloc(1, sizeof *p);
	p->o = *o;
	p->sink = sink;
	p->ctx = ctx;
	toolparse_enter(p, o->format->start);
	return p;
}

void toolparse_destroy(struct toolparse *p)
{
	if (!p)
		return;
	buf_deinit(&p->hold);
	buf_deinit(&p->lead);
	buf_deinit(&p->raw);
	buf_deinit(&p->name);
	buf_deinit(&p->args);
	buf_deinit(&p->key);
	buf_deinit(&p->word);
	relaxedjson_deinit(&p->relaxed);
	pyargs_deinit(&p->python);
	free(p);
}

void toolparse_push(struct toolparse *p, struct str text)
{
	for (size_t i = 0; i < text.n; i++)
		push_byte(p, text.p[i]);
}

/* Ends a call that the answer's limit cut off. Its arguments so far are out already, but
 * for a value that had only begun. */
static void cut_call(struct toolparse *p)
{
	if (p->state->kind == TOOL_VALUE)
		flush_args(p);
	toolparse_emit(p, OUT_CALL_CUT, buf_str(&p->raw));
	leave_call(p);
	buf_clear(&p->hold);
}

/* Is the text held back the beginning of a header, or of words that follow a tag? */
static bool holds_words(const struct toolparse *p)
{
	if (p->state->kind == TOOL_EXPECT)
		return p->state != &tool_states[p->o.format->start];
	if (p->state->take != TAKE_HEADER)
		return false;
	static const char *const words[] = {"<|", "to=", "assistant"};
	struct str text = jsonscan_trim(buf_str(&p->hold));
	bool holds = false;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		holds |= str_starts(text, str_of(words[i])) || str_starts(str_of(words[i]), text);
	return holds;
}

/* Is the open call surely one? A format without a tag begins like any JSON. */
static bool is_call(const struct toolparse *p)
{
	return p->is_named || !p->state->is_bare || p->o.begun.n > 0;
}

void toolparse_finish(struct toolparse *p, bool is_cut)
{
	if (p->is_over)
		return;
	if (p->in_call && p->state->kind == TOOL_EXPECT &&
	    p->state->other & TOOL_END) {
		p->raw.n -= MIN(p->hold.n, p->raw.n);
		end_call(p);
		return;
	}
	if (p->in_call && is_cut && is_call(p)) {
		cut_call(p);
		return;
	}
	if (p->in_call) {
		break_call(p);
		return;
	}
	/* white space after the last call is dropped, and so is half a tag if a limit cut it */
	bool is_blank = jsonscan_trim(buf_str(&p->hold)).n == 0;
	bool is_behind = p->n_calls > 0 && (is_blank || is_cut);
	if (!is_behind && !(is_cut && holds_words(p)))
		toolparse_emit(p, p->state->kind == TOOL_TEXT ? p->state->channel : OUT_CONTENT,
			       buf_str(&p->hold));
	buf_clear(&p->hold);
}

bool toolparse_in_reasoning(const struct toolparse *p)
{
	return p->state->kind == TOOL_TEXT && p->state->channel == OUT_REASONING;
}

int toolparse_n_begun(const struct toolparse *p) { return p->n_begun; }

bool toolparse_call(const struct toolparse *p, struct buf *out)
{
	if (!p->in_call || !out)
		return p->in_call;
	if (p->n_header)
		buf_add_str(out, buf_str(&p->name));
	buf_add(out, p->raw.p + p->n_header, p->raw.n - p->n_header);
	return true;
}

bool toolparse_in_content(const struct toolparse *p)
{
	return p->state->kind == TOOL_TEXT && p->state->channel == OUT_CONTENT;
}

bool toolparse_is_over(const struct toolparse *p) { return p->is_over; }

/* Closes all containers that are open in `s`, the innermost first. */
static void close_all(const struct jsonscan *s, struct buf *out)
{
	for (int i = s->depth; i > 0; i--)
		buf_add_c(out, s->is_object >> (i - 1) & 1 ? '}' : ']');
}

bool toolparse_close(struct str text, struct buf *out)
{
	struct jsonscan s, whole = {0}; /* whole: the state at the last place that can be closed */
	size_t n = 0;
	jsonscan_init(&s);
	for (size_t i = 0; i < text.n; i++) {
		bool is_new = s.depth == 0 && s.state == JSON_VALUE;
		if (is_new && !jsonscan_is_space(text.p[i]) && text.p[i] != '{')
			return false;
		if (jsonscan_push(&s, text.p[i]) == JSONSCAN_BAD)
			return false;
		bool in_text = s.state == JSON_STRING && !s.is_key && !s.is_half;
		bool can_close = s.state == JSON_AFTER || s.state == JSON_KEY_OR_END ||
				 s.state == JSON_VALUE_OR_END || s.state == JSON_DONE;
		bool is_comma = text.p[i] == ',' && (s.state == JSON_KEY || s.state == JSON_VALUE);
		if (!in_text && !can_close && !is_comma)
			continue;
		whole = s;
		n = i + !is_comma;
	}
	if (n == 0)
		return false;
	buf_add(out, text.p, n);
	if (whole.state == JSON_STRING)
		buf_add_c(out, '"');
	close_all(&whole, out);
	return true;
}
