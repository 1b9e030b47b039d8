/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/responses, the body: input items as a chat.
 *
 *   previous_response_id    the messages of that conversation, see response_store.h
 *   instructions            the system message; not kept for the next response
 *   message                 its role; developer is system
 *   reasoning, assistant's message, function_call
 *                           one assistant message, as long as no other comes between
 *   function_call_output    tool
 *
 * Tools of other types than function run at OpenAI (web_search, …) or are made for its
 * models. Agents always send some, so they are left out and not refused.
 */
#include "api/responses.h"

#include <stdlib.h>

#include "api/fields.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"

#define MAX_ITEMS 10000
#define MAX_TOOLS 1024

/* --- items ------------------------------------------------------------------------ */

struct responses_reader {
	json_t *messages;
	json_t *turn; /* borrowed: the assistant's message that further items extend; NULL: none */
	struct dialect_body *to;
	const struct json_node *item; /* the item being read */
};

static void add_message(struct responses_reader *r, json_t *m)
{
	json_array_append_new(r->messages, m);
	json_paths_add(&r->to->paths, m, r->item);
	r->turn = NULL;
}

/* The assistant's message that is being put together; made if there is none. */
static json_t *turn_of(struct responses_reader *r)
{
	if (!r->turn) {
		json_t *m = dialect_message("assistant", STR(""));
		add_message(r, m);
		r->turn = m;
	}
	return r->turn;
}

static enum status need_text(const struct json_node *at, const char *key,
			     struct str *out, struct fail *fail)
{
	struct json_node text = json_read_get(at, key);
	return json_read_need_str(&text, out, fail);
}

static enum status read_message(const struct json_node *item, struct responses_reader *r,
				struct fail *fail)
{
	static const char *const roles[] = {"user", "assistant", "system",
					    "developer"};
	struct json_node role_at = json_read_get(item, "role");
	struct json_node content = json_read_get(item, "content");
	struct dialect_content said = {0};
	struct str role;
	const char *known = NULL;
	enum status st = json_read_need_str(&role_at, &role, fail);
	if (st != OK)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(roles); i++)
		if (str_is(role, roles[i]))
			known = roles[i];
	if (!known)
		return json_read_fail(&role_at, fail,
				      "must be user, assistant, system or developer");
	st = json_read_need(&content, fail);
	if (st == OK)
		st = dialect_read_content(&content, r->to, &said, fail);
	if (st == OK && strcmp(known, "assistant") != 0) {
		add_message(r, dialect_message_of(known, &said));
	} else if (st == OK) {
		/* A second text begins a new message. Reasoning before a text belongs to
		 * the text's message. */
		json_t *has = r->turn ? json_object_get(r->turn, "content") : NULL;
		if (json_string_length(has) || json_object_get(r->turn, "tool_calls"))
			r->turn = NULL;
		dialect_set(turn_of(r), "content", dialect_take_content(&said));
	}
	dialect_content_deinit(&said);
	return st;
}

static enum status read_call(const struct json_node *item, struct responses_reader *r,
			     struct fail *fail)
{
	struct str id, name, arguments;
	enum status st = need_text(item, "call_id", &id, fail);
	if (st == OK)
		st = need_text(item, "name", &name, fail);
	if (st == OK)
		st = need_text(item, "arguments", &arguments, fail);
	if (st != OK)
		return st;
	json_t *m = turn_of(r), *calls = json_object_get(m, "tool_calls");
	json_t *call = json_object(), *fn = json_object();
	/* Beside calls null is how a chat spells "no text": see store(). */
	if (json_string_length(json_object_get(m, "content")) == 0)
		dialect_set(m, "content", json_null());
	if (!calls) {
		calls = json_array();
		dialect_set(m, "tool_calls", calls);
	}
	dialect_set_str(call, "id", id);
	dialect_set_str(call, "type", STR("function"));
	dialect_set_str(fn, "name", name);
	dialect_set_str(fn, "arguments", arguments);
	dialect_set(call, "function", fn);
	json_paths_add(&r->to->paths, call, item);
	json_paths_add(&r->to->paths, fn, item);
	json_array_append_new(calls, call);
	return OK;
}

static enum status read_call_output(const struct json_node *item,
				    struct responses_reader *r, struct fail *fail)
{
	struct json_node output = json_read_get(item, "output");
	struct dialect_content c = {0};
	struct str id;
	enum status st = need_text(item, "call_id", &id, fail);
	if (st == OK)
		st = json_read_need(&output, fail);
	if (st == OK)
		st = dialect_read_content(&output, r->to, &c, fail);
	if (st == OK) {
		json_t *m = dialect_message_of("tool", &c);
		dialect_set_str(m, "tool_call_id", id);
		add_message(r, m);
	}
	dialect_content_deinit(&c);
	return st;
}

/* Reads reasoning that is sent as text. encrypted_content is only for the server that made
 * it. */
static enum status read_reasoning(const struct json_node *item, struct responses_reader *r,
				  struct fail *fail)
{
	struct json_node content = json_read_get(item, "content");
	struct buf text = {0};
	enum status st = dialect_read_texts(&content, &text, fail);
	if (st == OK && text.n) {
		r->turn = NULL; /* reasoning begins a turn */
		dialect_set_str(turn_of(r), "reasoning_content", buf_str(&text));
	}
	buf_deinit(&text);
	return st;
}

static enum status read_item(const struct json_node *item, struct responses_reader *r,
			     struct fail *fail)
{
	struct json_node type = json_read_get(item, "type");
	struct str kind = STR("message");
	enum status st = json_read_need_object(item, fail);
	if (st == OK)
		st = json_read_str(&type, &kind, fail);
	if (st != OK)
		return st;
	r->item = item;
	if (str_is(kind, "message"))
		return read_message(item, r, fail);
	if (str_is(kind, "function_call"))
		return read_call(item, r, fail);
	if (str_is(kind, "function_call_output"))
		return read_call_output(item, r, fail);
	if (str_is(kind, "reasoning"))
		return read_reasoning(item, r, fail);
	kind = json_read_clip(kind, 40);
	return json_read_fail(&type, fail,
			      "is \"%.*s\": items here are message, reasoning, "
			      "function_call or function_call_output",
			      (int)kind.n, kind.p);
}

static enum status read_input(const struct json_node *body, json_t *messages,
			      struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "input");
	struct responses_reader r = {.messages = messages, .to = to, .item = &at};
	size_t n;
	if (json_is_string(at.v)) {
		add_message(&r, dialect_message("user", json_read_view(at.v)));
		return OK;
	}
	enum status st = json_read_need(&at, fail);
	if (st == OK)
		st = json_read_list(&at, MAX_ITEMS, &n, fail);
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node item = json_read_item(&at, i);
		st = read_item(&item, &r, fail);
	}
	if (st == OK && json_array_size(messages) == 0)
		st = json_read_fail(&at, fail, "must have at least one item");
	return st;
}

/* --- the conversation --------------------------------------------------------------- */

/* *out: a list of the messages before this call's own. */
static enum status read_previous(const struct json_node *body,
				 const struct api_call *c, json_t **out,
				 struct fail *fail)
{
	struct json_node at = json_read_get(body, "previous_response_id");
	struct buf text = {0};
	struct str id = STR("");
	enum status st = json_read_str(&at, &id, fail);
	if (st == OK && at.v &&
	    !response_store_get(c->api->responses, c->owner, id, RESPONSE_MESSAGES,
				&text)) {
		id = json_read_clip(id, 60);
		st = json_read_fail(&at, fail,
				    "is \"%.*s\", which is not known (any more): send "
				    "the whole conversation as `input`",
				    (int)id.n, id.p);
	}
	if (st == OK)
		*out = text.n ? json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL)
			      : json_array();
	buf_deinit(&text);
	return st;
}

/* Keeps the body's items, spelled out and with ids, for clients that ask for them later. */
static void keep_input(const struct json_node *body, struct responses *r)
{
	struct json_node at = json_read_get(body, "input");
	json_t *items = json_array();
	size_t n = json_is_array(at.v) ? json_array_size(at.v) : 1;
	for (size_t i = 0; i < n; i++) {
		char id[64];
		json_t *item = json_is_array(at.v)
				       ? json_copy(json_array_get(at.v, i))
				       : json_pack("{ss, s[{ss, sO}]}", "role", "user",
						   "content", "type", "input_text",
						   "text", at.v);
		snprintf(id, sizeof id, "msg_%s_%zu", r->id + 5, i);
		if (!json_object_get(item, "id"))
			json_object_set_new(item, "id", json_string(id));
		if (!json_object_get(item, "type"))
			json_object_set_new(item, "type", json_string("message"));
		json_array_append_new(items, item);
	}
	char *text = json_dumps(items, JSON_COMPACT);
	buf_add_z(&r->input, text ? text : "[]");
	free(text);
	json_decref(items);
}

/* Sets the paths for faults: the list is the client's `input`; the messages that are in it
 * so far came with previous_response_id. */
static void name_messages(const struct json_node *body, const json_t *messages,
			  struct dialect_body *to)
{
	struct json_node input = json_read_get(body, "input");
	struct json_node id = json_read_get(body, "previous_response_id");
	json_paths_add(&to->paths, messages, &input);
	for (size_t i = 0; i < json_array_size(messages); i++)
		json_paths_add(&to->paths, json_array_get(messages, i), &id);
}

static enum status read_messages(const struct json_node *body, struct api_call *c,
				 struct dialect_body *to, struct fail *fail)
{
	struct responses *r = c->state;
	struct json_node at = json_read_get(body, "instructions");
	struct str system = STR("");
	json_t *messages = NULL;
	enum status st = json_read_str(&at, &system, fail);
	if (st == OK)
		st = read_previous(body, c, &messages, fail);
	if (st != OK)
		return st;
	dialect_set(to->chat, "messages", messages);
	name_messages(body, messages, to);
	st = read_input(body, messages, to, fail);
	if (st != OK)
		return st;
	if (r->stores) {
		char *text = json_dumps(messages, JSON_COMPACT);
		buf_add_z(&r->history, text ? text : "[]");
		free(text);
		keep_input(body, r);
	}
	if (system.n) {
		json_t *m = dialect_message("system", system);
		json_paths_add(&to->paths, m, &at);
		json_array_insert_new(messages, 0, m);
	}
	return OK;
}

/* --- parameters ----------------------------------------------------------------------- */

static enum status read_tools(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	static const char *const same[] = {"name", "description", "parameters",
					   "strict"};
	struct json_node at = json_read_get(body, "tools");
	size_t n;
	enum status st = json_read_list(&at, MAX_TOOLS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node tool = json_read_item(&at, i);
		struct str kind, name;
		st = json_read_need_object(&tool, fail);
		if (st == OK)
			st = need_text(&tool, "type", &kind, fail);
		if (st != OK || !str_is(kind, "function"))
			continue;
		st = need_text(&tool, "name", &name, fail);
		json_t *fn = json_object();
		for (size_t k = 0; k < ARRAY_LEN(same); k++)
			dialect_copy(to, fn, same[k], &tool, same[k]);
		dialect_add_tool(to, fn, &tool);
	}
	return st;
}

/* Reads tool_choice. A choice among tools that were left out counts as no choice. */
static enum status read_tool_choice(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "tool_choice");
	struct str kind, name;
	if (!at.v || json_is_string(at.v)) {
		dialect_copy(to, to->chat, "tool_choice", body, "tool_choice");
		return OK;
	}
	enum status st = json_read_object(&at, fail);
	if (st == OK)
		st = need_text(&at, "type", &kind, fail);
	if (st != OK || !str_is(kind, "function"))
		return st;
	st = need_text(&at, "name", &name, fail);
	if (st == OK)
		dialect_demand_tool(to, name, &at);
	return st;
}

static enum status read_format(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	static const char *const same[] = {"name", "schema", "strict",
					   "description"};
	struct json_node text = json_read_get(body, "text");
	struct json_node at = json_read_get(&text, "format");
	struct str kind;
	enum status st = json_read_object(&text, fail);
	if (st == OK)
		st = json_read_object(&at, fail);
	if (st != OK || !at.v)
		return st;
	st = need_text(&at, "type", &kind, fail);
	if (st != OK)
		return st;
	json_t *schema = json_object();
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		dialect_copy(to, schema, same[i], &at, same[i]);
	dialect_demand_format(to, kind, schema, &at);
	return OK;
}

static enum status read_reasoning_effort(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "reasoning");
	struct json_node effort = json_read_get(&at, "effort");
	struct str s = STR("");
	enum status st = json_read_object(&at, fail);
	if (st == OK)
		st = json_read_str(&effort, &s, fail);
	if (st != OK || !effort.v)
		return st;
	dialect_copy(to, to->chat, "reasoning_effort", &at, "effort");
	if (str_is(s, "none"))
		dialect_set(to->chat, "enable_thinking", json_false());
	return OK;
}

static enum status read_options(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	fields_copy(body, DIALECT_RESPONSES, to);
	dialect_copy(to, to->chat, "max_tokens", body, "max_output_tokens");
	struct json_node parallel = json_read_get(body, "parallel_tool_calls");
	bool is_parallel;
	enum status st = json_read_bool(&parallel, &is_parallel, fail);
	if (st == OK)
		st = read_tools(body, to, fail);
	if (st == OK)
		st = read_tool_choice(body, to, fail);
	if (st == OK)
		st = read_format(body, to, fail);
	if (st == OK)
		st = read_reasoning_effort(body, to, fail);
	return st;
}

/* --- what the answer repeats ------------------------------------------------------------ */

/* Writes the fields that the answer repeats: as the client sent them, else OpenAI's defaults. */
static void make_echo(const struct json_node *body, struct buf *out)
{
	static const struct {
		const char *name, *dflt;
	} members[] = {
		{"instructions", "null"}, {"max_output_tokens", "null"},
		{"metadata", "{}"}, {"parallel_tool_calls", "true"},
		{"previous_response_id", "null"},
		{"reasoning", "{\"effort\":null,\"summary\":null}"},
		{"store", "true"}, {"temperature", "null"},
		{"text", "{\"format\":{\"type\":\"text\"}}"},
		{"tool_choice", "\"auto\""}, {"tools", "[]"}, {"top_p", "null"},
		{"truncation", "\"disabled\""}, {"user", "null"},
	};
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		struct json_node at = json_read_get(body, members[i].name);
		char *text = at.v ? json_dumps(at.v, JSON_COMPACT | JSON_ENCODE_ANY)
				  : NULL;
		buf_addf(out, ",\"%s\":%s", members[i].name,
			 text ? text : members[i].dflt);
		free(text);
	}
}

enum status responses_to_chat(const struct json_node *body, struct api_call *c,
			      struct dialect_body *to, struct fail *fail)
{
	struct responses *r = c->state = xcalloc(1, sizeof *r);
	struct json_node store = json_read_get(body, "store");
	r->stores = true;
	r->created = clock_wall_s();
	memcpy(r->id, "resp_", 5);
	random_hex(16, r->id + 5);
	enum status st = json_read_bool(&store, &r->stores, fail);
	if (st == OK)
		st = read_messages(body, c, to, fail);
	if (st == OK)
		st = read_options(body, to, fail);
	if (st == OK)
		make_echo(body, &r->echo);
	return st;
}
