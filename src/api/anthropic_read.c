/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/messages, the body: Anthropic's Messages as a chat.
 *
 *   system                     the first message, of role system
 *   system, in messages        system, at its place
 *   user: text                 user
 *   user: tool_result          tool
 *   assistant: text, thinking, tool_use   one message with content,
 *                              reasoning_content, tool_calls
 *   assistant: server_tool_use, mcp_tool_use and their results, which Anthropic's servers
 *                              made: a call, and a message of the tool
 *   stop_sequences, thinking, tools, tool_choice, metadata.user_id, output_config
 *                              their chat names
 *
 * cache_control and signatures are left out: this server needs neither. Tools without a
 * schema (web_search_…, bash_…) are Anthropic's own: fields.h tells that they are ignored. Images
 * of users and tools become parts of type image_url; documents are refused by name.
 *
 * Claude Code begins its system prompt with a line that differs with every request
 * ("x-anthropic-billing-header: …"). In a prompt that line would end all prefix caching, so
 * it is taken out.
 *
 * A last message of the assistant is the beginning of the answer, which goes on from its last
 * word. Only where it ends with calls does a new turn begin.
 */
#include <stdlib.h>

#include "api/chat_body.h"
#include "api/api_dialect.h"
#include "api/fields.h"
#include "api/text_call.h"
#include "base/alloc.h"
#include "json/json_digits.h"

#define MAX_MESSAGES 10000
#define MAX_BLOCKS 10000
#define MAX_TOOLS 1024
#define BILLING "x-anthropic-billing-header:"

/* --- blocks --------------------------------------------------------------------- */

/* Reads the `type` of a content block. */
static enum status read_type(const struct json_node *at, struct str *out,
			     struct fail *fail)
{
	struct json_node type = json_read_get(at, "type");
	enum status st = json_read_need_object(at, fail);
	return st == OK ? json_read_need_str(&type, out, fail) : st;
}

static enum status fail_block(const struct json_node *at, struct str kind,
			      const struct chat_model *m, struct fail *fail)
{
	struct json_node type = json_read_get(at, "type");
	return dialect_fail_type(&type, kind, m, fail);
}

static void add_said(json_t *messages, const char *role, struct str text,
		     const struct json_node *from, struct dialect_body *to)
{
	json_t *m = dialect_message(role, text);
	json_paths_add(&to->paths, m, from);
	json_array_append_new(messages, m);
}

/* --- system ------------------------------------------------------------------- */

/* Adds a system message with the texts at `at`, if there are any. */
static enum status read_system(const struct json_node *at, const struct json_node *from,
			       json_t *messages, struct dialect_body *to, struct fail *fail)
{
	struct buf b = {0};
	enum status st = dialect_read_texts(at, &b, fail);
	struct str s = buf_str(&b);
	if (st == OK && str_starts(s, STR(BILLING))) {
		ptrdiff_t end = str_find(s, STR("\n"), 0);
		size_t n = end < 0 ? s.n : (size_t)end + 1;
		s = (struct str){s.p + n, s.n - n};
	}
	if (st == OK && s.n)
		add_said(messages, "system", s, from, to);
	buf_deinit(&b);
	return st;
}

/* --- messages ------------------------------------------------------------------- */

static void add_text(struct buf *b, struct str s)
{
	if (b->n)
		buf_add_c(b, '\n');
	buf_add_str(b, s);
}

static void add_message(json_t *messages, json_t *m, const struct json_node *from,
			struct dialect_body *to)
{
	json_paths_add(&to->paths, m, from);
	json_array_append_new(messages, m);
}

/* Adds what the user has said so far as a message, if there is any. */
static void flush_user(struct dialect_content *said, json_t *messages,
		       const struct json_node *from, struct dialect_body *to)
{
	if (dialect_has_content(said))
		add_message(messages, dialect_message_of("user", said), from, to);
}

static enum status read_tool_result(const struct json_node *block, json_t *messages,
				    struct dialect_body *to, struct fail *fail)
{
	struct json_node content = json_read_get(block, "content");
	struct json_node error = json_read_get(block, "is_error");
	struct dialect_content c = {0};
	bool is_error = false;
	struct str id;
	enum status st = json_read_need_text(block, "tool_use_id", &id, fail);
	if (st == OK)
		st = json_read_bool(&error, &is_error, fail);
	/* Templates have no place for it, and a text may not say that it is an error. */
	if (st == OK && is_error)
		dialect_add_text(&c, STR("Error:"));
	if (st == OK)
		st = dialect_read_content(&content, to, &c, fail);
	if (st == OK) {
		json_t *m = dialect_message_of("tool", &c);
		dialect_set_str(m, "tool_call_id", id);
		add_message(messages, m, block, to);
	}
	dialect_content_deinit(&c);
	return st;
}

static enum status read_user(const struct json_node *content, json_t *messages,
			     struct dialect_body *to, struct fail *fail)
{
	struct dialect_content said = {0};
	size_t n, n_before = json_array_size(messages);
	enum status st = json_read_list(content, MAX_BLOCKS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node block = json_read_item(content, i);
		struct str kind, s;
		st = read_type(&block, &kind, fail);
		if (st != OK)
			break;
		if (str_is(kind, "tool_result")) {
			flush_user(&said, messages, content->up, to);
			st = read_tool_result(&block, messages, to, fail);
		} else if (str_is(kind, "text")) {
			st = json_read_need_text(&block, "text", &s, fail);
			if (st == OK)
				dialect_add_text(&said, s);
		} else if (str_is(kind, "image")) {
			st = dialect_read_block(&block, to, &said, fail);
		} else {
			st = fail_block(&block, kind, to->model, fail);
		}
	}
	flush_user(&said, messages, content->up, to);
	/* A user's turn without blocks still becomes a message, with the text "". */
	if (json_array_size(messages) == n_before)
		add_said(messages, "user", STR(""), content->up, to);
	dialect_content_deinit(&said);
	return st;
}

static enum status read_tool_use(const struct json_node *block, json_t *calls,
				 struct dialect_body *to, struct fail *fail)
{
	struct json_node input = json_read_get(block, "input");
	struct str id, name;
	enum status st = json_read_need_text(block, "id", &id, fail);
	if (st == OK)
		st = json_read_need_text(block, "name", &name, fail);
	if (st == OK)
		st = json_read_object(&input, fail);
	if (st != OK)
		return st;
	json_t *call = json_object(), *fn = json_object();
	dialect_set_str(call, "id", id);
	dialect_set_str(call, "type", STR("function"));
	dialect_set_str(fn, "name", name);
	dialect_set(fn, "arguments", json_object());
	dialect_copy(to, fn, "arguments", block, "input");
	json_paths_add(&to->paths, call, block);
	json_paths_add(&to->paths, fn, block);
	dialect_set(call, "function", fn);
	json_array_append_new(calls, call);
	return OK;
}

struct turn {
	struct buf text, thinking;
	json_t *calls;
	struct dialect_body *to;
	json_t *messages; /* borrowed */
	bool is_begun; /* a message of the turn has been added */
};

/* Adds what the assistant has said so far as a message. */
static void flush_assistant(struct turn *t, const struct json_node *content)
{
	bool has_calls = json_array_size(t->calls) > 0;
	if (t->is_begun && !has_calls && t->text.n == 0 && t->thinking.n == 0)
		return;
	json_t *m = dialect_message("assistant", buf_str(&t->text));
	if (has_calls && t->text.n == 0)
		dialect_set(m, "content", json_null());
	if (t->thinking.n)
		dialect_set_str(m, "reasoning_content", buf_str(&t->thinking));
	if (has_calls) {
		json_object_set(m, "tool_calls", t->calls);
		json_paths_add(&t->to->paths, t->calls, content);
	}
	json_paths_add(&t->to->paths, m, content->up);
	json_array_append_new(t->messages, m);
	json_decref(t->calls);
	t->calls = json_array();
	buf_clear(&t->text);
	buf_clear(&t->thinking);
	t->is_begun = true;
}

/* Adds the result of a tool that ran at Anthropic: its JSON, without what only Anthropic can
 * read. */
static enum status read_server_result(const struct json_node *block, struct turn *t,
				      struct fail *fail)
{
	struct json_node content = json_read_get(block, "content");
	struct str id;
	enum status st = json_read_need_text(block, "tool_use_id", &id, fail);
	if (st != OK)
		return st;
	json_t *shown = content.v ? json_digits_copy(content.v) : NULL, *item;
	struct buf text = {0};
	size_t i;
	json_array_foreach(shown, i, item)
		json_object_del(item, "encrypted_content");
	if (shown)
		json_digits_write(shown, true, &text);
	json_t *m = dialect_message("tool", buf_str(&text));
	dialect_set_str(m, "tool_call_id", id);
	flush_assistant(t, block->up);
	add_message(t->messages, m, block, t->to);
	json_decref(shown);
	buf_deinit(&text);
	return OK;
}

static enum status read_assistant_block(const struct json_node *block,
					struct turn *t, struct fail *fail)
{
	struct str kind, s;
	enum status st = read_type(block, &kind, fail);
	if (st != OK)
		return st;
	if (str_is(kind, "tool_use") || str_is(kind, "server_tool_use") ||
	    str_is(kind, "mcp_tool_use"))
		return read_tool_use(block, t->calls, t->to, fail);
	if (str_ends(kind, STR("_tool_result")))
		return read_server_result(block, t, fail);
	if (str_is(kind, "redacted_thinking"))
		return OK; /* encrypted for Anthropic's servers: not shown to the model */
	bool is_thinking = str_is(kind, "thinking");
	if (!is_thinking && !str_is(kind, "text"))
		return fail_block(block, kind, NULL, fail);
	st = json_read_need_text(block, is_thinking ? "thinking" : "text", &s, fail);
	if (st == OK)
		add_text(is_thinking ? &t->thinking : &t->text, s);
	return st;
}

static enum status read_assistant(const struct json_node *content, json_t *messages,
				  struct dialect_body *to, struct fail *fail)
{
	struct turn t = {.calls = json_array(), .to = to, .messages = messages};
	size_t n;
	enum status st = json_read_list(content, MAX_BLOCKS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node block = json_read_item(content, i);
		st = read_assistant_block(&block, &t, fail);
	}
	flush_assistant(&t, content);
	json_decref(t.calls);
	buf_deinit(&t.text);
	buf_deinit(&t.thinking);
	return st;
}

static enum status read_message(const struct json_node *at, json_t *messages,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node role_at = json_read_get(at, "role");
	struct json_node content = json_read_get(at, "content");
	struct str role;
	enum status st = json_read_need_object(at, fail);
	if (st == OK)
		st = json_read_need_str(&role_at, &role, fail);
	if (st != OK)
		return st;
	bool is_user = str_is(role, "user"), is_system = str_is(role, "system");
	if (!is_user && !is_system && !str_is(role, "assistant"))
		return json_read_fail(&role_at, fail, "must be user, assistant or system");
	st = json_read_need(&content, fail);
	if (st != OK)
		return st;
	if (is_system)
		return read_system(&content, at, messages, to, fail);
	if (json_is_string(content.v)) {
		add_said(messages, is_user ? "user" : "assistant",
			 json_read_view(content.v), at, to);
		return OK;
	}
	return is_user ? read_user(&content, messages, to, fail)
		       : read_assistant(&content, messages, to, fail);
}

/* A last message of the assistant begins the answer. */
static enum status read_beginning(const struct json_node *body, const json_t *messages,
				  struct dialect_body *to, struct fail *fail)
{
	struct json_node list = json_read_get(body, "messages");
	struct json_node choice = json_read_get(body, "tool_choice");
	struct json_node kind = json_read_get(&choice, "type");
	size_t n = json_array_size(list.v);
	const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
	struct json_node from = json_read_item(&list, n - 1);
	struct json_node role = json_read_get(&from, "role");
	bool is_said = str_is(json_read_view(role.v), "assistant") &&
		       str_is(json_read_view(json_object_get(last, "role")), "assistant");
	if (!is_said || json_object_get(last, "tool_calls"))
		return OK;
	if (json_is_string(kind.v) && (str_is(json_read_view(kind.v), "any") ||
				       str_is(json_read_view(kind.v), "tool")))
		return json_read_fail(&choice, fail,
				      "demands a call, which cannot go on from the text of "
				      "a last message of the assistant");
	dialect_set(to->chat, "continue_final_message", json_true());
	json_paths_add_field(&to->paths, to->chat, "continue_final_message", &from);
	return OK;
}

static enum status read_messages(const struct json_node *body, struct dialect_body *to,
				 struct fail *fail)
{
	struct json_node system = json_read_get(body, "system");
	struct json_node at = json_read_get(body, "messages");
	json_t *messages = json_array();
	size_t n;
	dialect_set(to->chat, "messages", messages);
	enum status st = read_system(&system, &system, messages, to, fail);
	if (st == OK)
		st = json_read_need(&at, fail);
	if (st == OK)
		st = json_read_list(&at, MAX_MESSAGES, &n, fail);
	if (st == OK && n == 0)
		st = json_read_fail(&at, fail, "must have at least one message");
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node item = json_read_item(&at, i);
		st = read_message(&item, messages, to, fail);
	}
	return st == OK ? read_beginning(body, messages, to, fail) : st;
}

/* --- tools ---------------------------------------------------------------------- */

/* Offers a tool that the client runs. */
static enum status read_tool(const struct json_node *tool, struct dialect_body *to,
			     struct fail *fail)
{
	struct json_node schema = json_read_get(tool, "input_schema");
	struct str name;
	enum status st = json_read_need_text(tool, "name", &name, fail);
	if (st == OK)
		st = json_read_object(&schema, fail);
	if (st != OK)
		return st;
	json_t *fn = json_object();
	dialect_set_str(fn, "name", name);
	dialect_copy(to, fn, "description", tool, "description");
	dialect_copy(to, fn, "parameters", tool, "input_schema");
	dialect_copy(to, fn, "strict", tool, "strict");
	dialect_add_tool(to, fn, tool);
	return OK;
}

/* Tools of Anthropic's own types are ignored, unless they bring a schema. */
static enum status read_tools(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "tools");
	size_t n;
	enum status st = json_read_list(&at, MAX_TOOLS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node tool = json_read_item(&at, i);
		struct json_node type = json_read_get(&tool, "type");
		struct json_node schema = json_read_get(&tool, "input_schema");
		struct str kind = STR("custom");
		st = json_read_need_object(&tool, fail);
		if (st == OK)
			st = json_read_str(&type, &kind, fail);
		if (st == OK && (schema.v || str_is(kind, "custom")))
			st = read_tool(&tool, to, fail);
		else if (st == OK)
			fields_ignore(&to->ignored, &tool, kind);
	}
	return st;
}

static enum status read_tool_choice(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "tool_choice");
	struct json_node one = json_read_get(&at, "disable_parallel_tool_use");
	struct str kind, name;
	bool is_one = false;
	if (!at.v)
		return OK;
	enum status st = read_type(&at, &kind, fail);
	if (st == OK)
		st = json_read_bool(&one, &is_one, fail);
	if (st != OK)
		return st;
	if (is_one)
		dialect_set(to->chat, "parallel_tool_calls", json_false());
	if (str_is(kind, "auto") || str_is(kind, "none")) {
		dialect_set_str(to->chat, "tool_choice", kind);
	} else if (str_is(kind, "any")) {
		dialect_set_str(to->chat, "tool_choice", STR("required"));
	} else if (str_is(kind, "tool")) {
		st = json_read_need_text(&at, "name", &name, fail);
		if (st == OK)
			dialect_demand_tool(to, name, &at);
	} else {
		struct json_node type = json_read_get(&at, "type");
		st = json_read_fail(&type, fail,
				    "must be auto, any, tool or none");
	}
	return st;
}

/* --- the rest ------------------------------------------------------------------- */

static enum status read_thinking(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "thinking");
	struct str kind;
	if (!at.v)
		return OK;
	enum status st = read_type(&at, &kind, fail);
	if (st != OK)
		return st;
	dialect_set(to->chat, "enable_thinking",
		    json_boolean(!str_is(kind, "disabled")));
	dialect_copy(to, to->chat, "thinking_budget", &at, "budget_tokens");
	return OK;
}

static enum status read_output_format(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node config = json_read_get(body, "output_config");
	struct json_node newer = json_read_get(&config, "format");
	struct json_node older = json_read_get(body, "output_format");
	struct json_node at = newer.v ? newer : older;
	struct str kind;
	enum status st = json_read_object(&config, fail);
	if (st != OK)
		return st;
	dialect_copy(to, to->chat, "reasoning_effort", &config, "effort");
	if (!at.v)
		return OK;
	st = read_type(&at, &kind, fail);
	if (st != OK)
		return st;
	json_t *schema = json_object();
	dialect_set_str(schema, "name", STR("output"));
	dialect_set(schema, "strict", json_true());
	dialect_copy(to, schema, "schema", &at, "schema");
	dialect_demand_format(to, kind, schema, &at);
	return OK;
}

static enum status read_options(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node metadata = json_read_get(body, "metadata");
	fields_copy(body, DIALECT_MESSAGES, to);
	dialect_copy(to, to->chat, "max_tokens", body, "max_tokens");
	dialect_copy(to, to->chat, "stop", body, "stop_sequences");
	dialect_copy(to, to->chat, "user", &metadata, "user_id");
	enum status st = read_thinking(body, to, fail);
	if (st == OK)
		st = read_tools(body, to, fail);
	if (st == OK)
		st = read_tool_choice(body, to, fail);
	if (st == OK)
		st = read_output_format(body, to, fail);
	return st;
}

enum status anthropic_to_chat(const struct json_node *body, bool needs_max_tokens,
			      struct dialect_body *to, struct fail *fail)
{
	struct json_node max = json_read_get(body, "max_tokens");
	enum status st = needs_max_tokens ? json_read_need(&max, fail) : OK;
	if (st == OK)
		st = read_messages(body, to, fail);
	return st == OK ? read_options(body, to, fail) : st;
}

/* --- count_tokens ---------------------------------------------------------------- */

static enum status count_tokens(const struct api *a, const struct text_input *in,
				struct buf *out, struct fail *fail)
{
	struct dialect_body to;
	size_t n = 0;
	dialect_body_init(&to);
	to.model = &a->chat;
	enum status st = anthropic_to_chat(in->body, false, &to, fail);
	if (st == OK)
		st = chat_body_count(a, &to, in, &n, fail);
	if (st == OK)
		buf_addf(out, "{\"input_tokens\":%zu}", n);
	dialect_body_deinit(&to);
	return st;
}

enum status api_count_tokens(const struct api *a, const struct api_input *in, struct buf *out,
			     struct fail *fail)
{
	return text_call(a, in, count_tokens, out, fail);
}
