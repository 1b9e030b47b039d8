/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools go into the system message: halod makes one if the template takes one, else the
 * first message has them. A call stands behind its message's text, as the model is told to
 * write it. Results become a message of the user, together with what the user says next: many
 * of these templates want user and assistant to take turns.
 */
#include "chat/chat_plain.h"

#include "json/json_digits.h"
#include "json/json_read.h"

struct chat_plain chat_plain_of(const struct chat_model *m)
{
	const struct tool_format *f = m->tool_format;
	if (!f || !m->template)
		return (struct chat_plain){0};
	/* messages.c has its own way with formats whose templates show no calls. */
	bool is_json = !f->is_python && !f->hidden && !f->relaxed_mark && !f->args.before_key;
	return (struct chat_plain){
		.tools = is_json && !chat_template_ways(m->template)->shows_tools,
		.calls = is_json && chat_template_ways(m->template)->hides_calls,
	};
}

static void add_call(const struct tool_format *f, struct str name, struct str args,
		     struct buf *out)
{
	buf_addf(out, "%s%.*s%s ", f->before_name, (int)name.n, name.p, f->after_name);
	buf_add_str(out, args);
	/* In a way's fixed text a tab is a space, and a space may be left out. */
	for (const char *p = f->first.end; p && *p; p++)
		if (*p != ' ')
			buf_add_c(out, *p == '\t' ? ' ' : *p);
	if (f->close)
		buf_add_z(out, f->close);
}

static void add_tools(const struct tool_format *f, const json_t *tools, struct buf *out)
{
	const json_t *tool;
	size_t i;
	buf_add_z(out, "# Tools\n\nYou can call these functions, each described as JSON:\n"
		       "<tools>");
	json_array_foreach((json_t *)tools, i, tool) {
		buf_add_c(out, '\n');
		json_digits_write(tool, true, out);
	}
	buf_add_z(out, "\n</tools>\n\nTo call a function, answer with its name and its arguments "
		       "as a JSON object, in this form:\n");
	add_call(f, STR("NAME"), STR("{\"PARAMETER\": \"VALUE\"}"), out);
	buf_add_z(out, "\n\nThe results come in the next message. Call a function only if you "
		       "need it; else answer in plain text.");
}

/* Puts text in front of a message's content, or behind it: content is a string, a list of parts
 * or none. */
static void add_text(json_t *message, struct str text, bool is_front)
{
	json_t *content = json_object_get(message, "content");
	if (json_is_array(content)) {
		json_t *part = json_pack("{ss, ss%}", "type", "text", "text", text.p, text.n);
		content = json_copy(content);
		json_array_insert_new(content, is_front ? 0 : json_array_size(content), part);
		json_object_set_new(message, "content", content);
		return;
	}
	struct buf b = {0};
	struct str own = json_read_view(content);
	const char *between = own.n ? "\n\n" : "";
	buf_add_str(&b, is_front ? text : own);
	buf_add_z(&b, between);
	buf_add_str(&b, is_front ? own : text);
	json_object_set_new_nocheck(message, "content", json_stringn_nocheck(b.p, b.n));
	buf_deinit(&b);
}

static void show_calls(const struct tool_format *f, json_t *message)
{
	json_t *call;
	size_t i;
	struct buf b = {0};
	json_array_foreach(json_object_get(message, "tool_calls"), i, call) {
		const json_t *fn = json_object_get(call, "function");
		const json_t *args = json_object_get(fn, "arguments");
		struct buf text = {0};
		if (json_is_string(args))
			buf_add_str(&text, json_read_view(args));
		else if (args)
			json_digits_write(args, true, &text);
		if (i > 0)
			buf_add_c(&b, '\n');
		add_call(f, json_read_view(json_object_get(fn, "name")),
			 text.n ? buf_str(&text) : STR("{}"), &b);
		buf_deinit(&text);
	}
	json_object_del(message, "tool_calls");
	if (b.n)
		add_text(message, buf_str(&b), false);
	buf_deinit(&b);
}

static bool has_role(const json_t *message, const char *role)
{
	return str_is(json_read_view(json_object_get(message, "role")), role);
}

/* Makes a result a text of the user. */
static void show_result(json_t *message)
{
	json_t *content = json_object_get(message, "content");
	json_object_set_new(message, "role", json_string("user"));
	json_object_del(message, "tool_call_id");
	json_object_del(message, "name");
	if (json_is_array(content)) {
		add_text(message, STR("<tool_response>"), true);
		add_text(message, STR("</tool_response>"), false);
		return;
	}
	struct buf b = {0};
	buf_add_z(&b, "<tool_response>\n");
	buf_add_str(&b, json_read_view(content));
	buf_add_z(&b, "\n</tool_response>");
	json_object_set_new_nocheck(message, "content", json_stringn_nocheck(b.p, b.n));
	buf_deinit(&b);
}

/* Appends the content of `message` to that of `to`. */
static void join(json_t *to, json_t *message)
{
	json_t *content = json_object_get(message, "content"), *part;
	size_t i;
	if (!json_is_array(content)) {
		add_text(to, json_read_view(content), false);
		return;
	}
	if (!json_is_array(json_object_get(to, "content"))) {
		json_t *first = json_pack("{ss, sO}", "type", "text", "text",
					  json_object_get(to, "content"));
		json_object_set_new(to, "content", json_pack("[o]", first));
	} else {
		json_object_set_new(to, "content", json_copy(json_object_get(to, "content")));
	}
	json_array_foreach(content, i, part)
		json_array_append(json_object_get(to, "content"), part);
}

/* Adds the tools to the system message, which is made if there is none. */
static void show_tools(const struct chat_model *m, json_t *messages, const json_t *tools)
{
	struct buf b = {0};
	json_t *first = json_array_get(messages, 0);
	bool is_system = has_role(first, "system") || has_role(first, "developer");
	add_tools(m->tool_format, tools, &b);
	json_t *text = json_stringn_nocheck(b.p, b.n);
	if (is_system)
		add_text(first, buf_str(&b), false);
	else if (chat_template_ways(m->template)->takes_system)
		json_array_insert_new(messages, 0, json_pack("{sssO}", "role", "system",
							     "content", text));
	else
		add_text(first, buf_str(&b), true);
	json_decref(text);
	buf_deinit(&b);
}

json_t *chat_plain_messages(const struct chat_model *m, const json_t *messages,
			    const json_t *tools)
{
	struct chat_plain plain = chat_plain_of(m);
	json_t *out = json_array(), *each, *last = NULL;
	bool is_result = false; /* the last message begins with results */
	size_t i;
	json_array_foreach((json_t *)messages, i, each) {
		json_t *message = json_copy(each);
		bool is_tool = plain.calls && has_role(message, "tool");
		if (is_tool)
			show_result(message);
		if (plain.calls && has_role(message, "assistant"))
			show_calls(m->tool_format, message);
		if (is_result && has_role(message, "user")) {
			join(last, message);
			json_decref(message);
			is_result = is_tool;
			continue;
		}
		is_result = is_tool;
		json_array_append_new(out, message);
		last = message;
	}
	if (plain.tools && tools)
		show_tools(m, out, tools);
	return out;
}
