/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out by trial what a chat template does.
 *
 * Templates disagree about system messages that are not the first, and agents send such
 * messages. Some templates write them where they stand, some raise an exception, some drop
 * them. Reading the source would not tell. So a conversation with a marked late system
 * message is rendered once. If the mark is lost, the caller merges system messages. More
 * trials tell how calls in the history must look, whether a message without text prints the
 * word None, whether there must be a list of tools, and whether tools are shown at all.
 */
#include "chat/chat_template.h"

#include <stdlib.h>

#include "chat/value.h"
#include "base/alloc.h"
#include "base/clock.h"

struct chat_template {
	struct jinja *jinja;
	struct arena arena;
	struct str bos, eos;
	struct chat_template_ways ways;
};

static struct jinja_value *probe_message(struct arena *a, const char *role,
					 const char *content)
{
	struct jinja_value *m = jinja_dict(a);
	value_set_str(a, m, "role", str_of(role), TRUST_TEMPLATE);
	value_set_str(a, m, "content", str_of(content), TRUST_USER);
	return m;
}

/* Does the template render a conversation of one message? */
static bool renders_one(const struct chat_template *t)
{
	struct arena a;
	struct marked out = {0};
	arena_init(&a);
	struct jinja_value *messages = jinja_list(&a);
	jinja_list_add(&a, messages, probe_message(&a, "user", "b"));
	const struct chat_template_input in = {&a, messages, NULL, jinja_dict(&a), false};
	bool does = chat_template_render(t, &in, &out, NULL) == OK;
	marked_deinit(&out);
	arena_deinit(&a);
	return does;
}

static void probe_tools(struct chat_template *t)
{
	bool works = renders_one(t);
	t->ways.lists_tools = !works;
	t->ways.lists_tools = !works && renders_one(t);
}

/* Does the template render the probe's word, given a tool of that name or a system message of
 * that text? */
static bool shows_probe(const struct chat_template *t, bool is_tool)
{
	struct arena a;
	struct marked out = {0};
	arena_init(&a);
	struct jinja_value *messages = jinja_list(&a), *tools = NULL;
	if (is_tool) {
		json_t *tool = json_pack(
			"[{ss, s{ss, ss, s{ss, s{s{ss, ss}}, s[s]}}}]", "type", "function",
			"function", "name", "plain_probe", "description", "d", "parameters",
			"type", "object", "properties", "x", "type", "string", "description",
			"d", "required", "x");
		tools = value_of_json(&a, tool);
		json_decref(tool);
	} else {
		jinja_list_add(&a, messages, probe_message(&a, "system", "plain_probe"));
	}
	jinja_list_add(&a, messages, probe_message(&a, "user", "b"));
	const struct chat_template_input in = {&a, messages, tools, jinja_dict(&a), false};
	bool shows = chat_template_render(t, &in, &out, NULL) == OK &&
		     str_find(buf_str(&out.text), STR("plain_probe"), 0) >= 0;
	marked_deinit(&out);
	arena_deinit(&a);
	return shows;
}

static bool loses_late_system(const struct chat_template *t)
{
	static const char *const turns[][2] = {
		{"system", "a"},
		{"user", "b"},
		{"assistant", "c"},
		{"system", "late-system-probe"},
		{"user", "d"},
	};
	struct arena a;
	arena_init(&a);
	struct jinja_value *messages = jinja_list(&a);
	for (size_t i = 0; i < ARRAY_LEN(turns); i++)
		jinja_list_add(&a, messages,
			       probe_message(&a, turns[i][0], turns[i][1]));
	const struct chat_template_input in = {&a, messages, NULL, jinja_dict(&a),
					       false};
	struct marked out = {0};
	bool lost = chat_template_render(t, &in, &out, NULL) != OK ||
		    str_find(buf_str(&out.text), STR("late-system-probe"), 0) < 0;
	marked_deinit(&out);
	arena_deinit(&a);
	return lost;
}

#define PROBE_ARGS "{\"probe-key\": \"probe-value\"}"

static struct jinja_value *probe_call(struct arena *a, const char *id, bool as_object)
{
	struct jinja_value *call = jinja_dict(a), *fn = jinja_dict(a);
	struct jinja_value *args = jinja_dict(a);
	value_set_str(a, args, "probe-key", STR("probe-value"), TRUST_USER);
	if (!as_object)
		args = jinja_string(a, STR(PROBE_ARGS), TRUST_USER);
	value_set_str(a, fn, "name", STR("f"), TRUST_USER);
	value_set(a, fn, "arguments", args);
	value_set_str(a, call, "id", str_of(id), TRUST_USER);
	value_set_str(a, call, "type", STR("function"), TRUST_USER);
	value_set(a, call, "function", fn);
	return call;
}

/* Renders a conversation with a call. The call's message has the text "", or None with
 * is_none. False: the template fails. */
static bool render_call(const struct chat_template *t, const char *id, bool as_object,
			bool is_none, struct marked *out)
{
	struct arena a;
	arena_init(&a);
	struct jinja_value *messages = jinja_list(&a), *calls = jinja_list(&a);
	struct jinja_value *asks = probe_message(&a, "assistant", "");
	if (is_none)
		value_set(&a, asks, "content", jinja_none(&a));
	struct jinja_value *result = probe_message(&a, "tool", "r");
	jinja_list_add(&a, calls, probe_call(&a, id, as_object));
	value_set(&a, asks, "tool_calls", calls);
	value_set_str(&a, result, "tool_call_id", str_of(id), TRUST_USER);
	value_set_str(&a, result, "name", STR("f"), TRUST_USER);
	jinja_list_add(&a, messages, probe_message(&a, "user", "b"));
	jinja_list_add(&a, messages, asks);
	jinja_list_add(&a, messages, result);
	const struct chat_template_input in = {&a, messages, NULL, jinja_dict(&a),
					       false};
	bool is_rendered = chat_template_render(t, &in, out, NULL) == OK;
	arena_deinit(&a);
	return is_rendered;
}

/* Does the template show the call as the model was trained on it? Not if it prints an
 * object in Python's way, or quotes a string once more. */
static bool shows_call(const struct chat_template *t, const char *id, bool as_object,
		       bool is_none)
{
	struct marked out = {0};
	bool shown = render_call(t, id, as_object, is_none, &out);
	struct str text = buf_str(&out.text);
	if (as_object)
		shown = shown && str_find(text, STR("probe-value"), 0) >= 0 &&
			str_find(text, STR("'probe-key'"), 0) < 0;
	else
		shown = shown && str_find(text, STR(PROBE_ARGS), 0) >= 0;
	marked_deinit(&out);
	return shown;
}

/* Does the template print None as the word "None"? No model was trained on that. */
static bool prints_none(const struct chat_template *t, const char *id)
{
	struct marked out = {0};
	bool is_printed = render_call(t, id, t->ways.takes_objects, true, &out) &&
			  str_find(buf_str(&out.text), STR("None"), 0) >= 0;
	marked_deinit(&out);
	return is_printed;
}

/* Does the template show nothing of a call, whatever its form? */
static bool hides_calls(const struct chat_template *t, const char *id)
{
	bool hides = true;
	for (int i = 0; i < 4 && hides; i++) {
		struct marked out = {0};
		hides = !render_call(t, id, i & 1, i & 2, &out) ||
			str_find(buf_str(&out.text), STR("probe-value"), 0) < 0;
		marked_deinit(&out);
	}
	return hides;
}

static void probe_calls(struct chat_template *t)
{
	static const char *const ids[] = {"call_0123456789", "abcdefghi"};
	for (int i = 0; i < 4 && !t->ways.takes_objects && !t->ways.takes_strings; i++) {
		t->ways.takes_objects = shows_call(t, ids[i % 2], true, i >= 2);
		t->ways.takes_strings = shows_call(t, ids[i % 2], false, i >= 2);
		bool shows = t->ways.takes_objects || t->ways.takes_strings;
		t->ways.wants_short_ids = i % 2 == 1 && shows;
		t->ways.wants_none = i >= 2 && shows;
	}
	t->ways.prints_none = prints_none(t, ids[t->ways.wants_short_ids]);
	t->ways.hides_calls = hides_calls(t, ids[0]) && hides_calls(t, ids[1]);
}

enum status chat_template_create(const struct chat_template_opts *o,
				 struct chat_template **out, struct fail *fail)
{
	struct jinja *jinja;
	enum status st = jinja_compile(o->source, &jinja, fail);
	if (st != OK)
		return st;
	struct chat_template *t = xcalloc(1, sizeof *t);
	t->jinja = jinja;
	arena_init(&t->arena);
	t->bos = str_of(arena_strdup(&t->arena, o->bos_text ? o->bos_text : ""));
	t->eos = str_of(arena_strdup(&t->arena, o->eos_text ? o->eos_text : ""));
	probe_tools(t);
	t->ways.shows_tools = shows_probe(t, true);
	t->ways.takes_system = shows_probe(t, false);
	t->ways.wants_one_system = loses_late_system(t);
	probe_calls(t);
	*out = t;
	return OK;
}

void chat_template_destroy(struct chat_template *t)
{
	if (!t)
		return;
	jinja_destroy(t->jinja);
	arena_deinit(&t->arena);
	free(t);
}

const struct chat_template_ways *chat_template_ways(const struct chat_template *t)
{
	return &t->ways;
}

enum status chat_template_render(const struct chat_template *t,
				 const struct chat_template_input *in,
				 struct marked *out, struct fail *fail)
{
	struct arena *a = in->arena;
	struct jinja_value *g = in->globals;
	value_set(a, g, "messages", in->messages);
	/* Hugging Face passes None where there are no tools; templates test that. */
	struct jinja_value *none = t->ways.lists_tools ? jinja_list(a) : jinja_none(a);
	value_set(a, g, "tools", in->tools ? in->tools : none);
	value_set(a, g, "add_generation_prompt", jinja_bool(a, !in->is_whole));
	if (t->bos.n)
		value_set_str(a, g, "bos_token", t->bos, TRUST_TEMPLATE);
	if (t->eos.n)
		value_set_str(a, g, "eos_token", t->eos, TRUST_TEMPLATE);
	const struct jinja_env env = {
		.arena = a, .globals = g, .now_s = clock_wall_s()};
	return jinja_render(t->jinja, &env, out, fail);
}

static ptrdiff_t find_last(struct str s, struct str needle)
{
	ptrdiff_t last = -1, at = str_find(s, needle, 0);
	while (at >= 0) {
		last = at;
		at = str_find(s, needle, (size_t)at + needle.n);
	}
	return last;
}

/* What the template wrote behind the last text of a user or an assistant, without blanks. */
static struct str tail_of(const struct marked *text)
{
	size_t from = 0;
	for (size_t i = 0; i + 1 < text->n_marks; i++)
		from = text->marks[i].end;
	while (from < text->text.n && is_char_of(text->text.p[from], " \t\r\n"))
		from++;
	return (struct str){text->text.p + from, text->text.n - from};
}

int32_t chat_template_end(const struct chat_template *t, const struct tokenizer *tokenizer)
{
	struct arena a;
	struct marked out = {0};
	struct ids ids = {0};
	int32_t end = -1;
	arena_init(&a);
	struct jinja_value *messages = jinja_list(&a);
	jinja_list_add(&a, messages, probe_message(&a, "user", "b"));
	jinja_list_add(&a, messages, probe_message(&a, "assistant", "c"));
	const struct chat_template_input in = {&a, messages, NULL, jinja_dict(&a), true};
	if (chat_template_render(t, &in, &out, NULL) == OK && out.n_marks &&
	    out.marks[out.n_marks - 1].trust == TRUST_TEMPLATE &&
	    tokenizer_encode(tokenizer, tail_of(&out), TRUST_TEMPLATE, &ids, NULL) == OK &&
	    ids.n && tokenizer_is_special(tokenizer, ids.p[0]))
		end = ids.p[0];
	ids_deinit(&ids);
	marked_deinit(&out);
	arena_deinit(&a);
	return end;
}

/* What the prompt's last writer wrote; "" if that is a user. The generation prompt is the
 * template's own last text. Only it can have opened a block that is still open; where an
 * assistant's message is continued, its last stretch of text. */
static struct str last_stretch(const struct marked *prompt)
{
	size_t n = prompt->n_marks;
	if (n == 0 || prompt->marks[n - 1].trust == TRUST_USER)
		return STR("");
	size_t from = n > 1 ? prompt->marks[n - 2].end : 0;
	return (struct str){prompt->text.p + from, prompt->text.n - from};
}

bool chat_template_opens(const struct marked *prompt, struct str open,
			 struct str close)
{
	struct str tail = last_stretch(prompt);
	ptrdiff_t at = find_last(tail, open);
	return at >= 0 && str_find(tail, close, (size_t)at) < 0;
}

bool chat_template_closes(const struct marked *prompt, struct str open,
			  struct str close)
{
	struct str tail = last_stretch(prompt);
	ptrdiff_t at = find_last(tail, close);
	if (at < 0 || str_find(tail, open, 0) < 0)
		return false;
	/* If only blanks follow, the block belongs to this turn, not to an earlier one. */
	size_t end = (size_t)at + close.n;
	while (end < tail.n && is_char_of(tail.p[end], " \t\r\n"))
		end++;
	return end == tail.n;
}
