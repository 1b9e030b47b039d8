/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/responses, the body as a chat.
 *
 *   previous_response_id    the messages of that conversation, see response_store.h
 *   instructions            the system message; not kept for the next response
 *   input                   see responses_items.c
 *   tools                   functions, those of namespaces by a name of both
 *
 * Tools of other types run at OpenAI (web_search, …) or are made for its models. Agents
 * always send some, so they are left out and not refused; fields.h tells the client.
 */
#include "api/responses.h"

#include <stdlib.h>

#include "api/chat_body.h"
#include "api/fields.h"
#include "api/text_call.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "json/json_digits.h"
#include "json/json_fast.h"

#define MAX_TOOLS 1024

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
		*out = text.n ? json_fast_load(buf_str(&text)) : json_array();
	buf_deinit(&text);
	return st;
}

/* Keeps the body's items, spelled out and with ids, for clients that ask for them later. */
static void keep_input(struct json_node at, struct responses *r)
{
	json_t *items = json_array();
	size_t n = json_is_array(at.v) ? json_array_size(at.v) : 1;
	for (size_t i = 0; i < n; i++) {
		char id[64];
		json_t *item = json_is_array(at.v)
				       ? json_copy(json_array_get(at.v, i))
				       : json_pack("{ss, s[{ss, sO}]}", "role", "user",
						   "content", "type", "input_text",
						   "text", at.v);
		snprintf(id, sizeof id, "msg_%s_in%zu", r->id + 5, i);
		if (!json_object_get(item, "id"))
			json_object_set_new(item, "id", json_string(id));
		if (!json_object_get(item, "type"))
			json_object_set_new(item, "type", json_string("message"));
		json_array_append_new(items, item);
	}
	json_digits_write(items, false, &r->input);
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
	struct json_node input = json_read_get(body, "input");
	json_t *resolved;
	st = responses_resolve(&input, c, &resolved, fail);
	if (resolved)
		input.v = resolved;
	if (st == OK)
		st = responses_read_items(&input, messages, to, fail);
	if (st == OK && r->stores) {
		json_digits_write(messages, false, &r->history);
		keep_input(input, r);
	}
	json_decref(resolved);
	if (st == OK && system.n) {
		json_t *m = dialect_message("system", system);
		json_paths_add(&to->paths, m, &at);
		json_array_insert_new(messages, 0, m);
	}
	return st;
}

/* --- parameters ----------------------------------------------------------------------- */

/* A namespace whose functions are read. */
struct tool_space {
	struct str name, about;
};

/* Offers a function. In a namespace its name is that of both, and the first function tells
 * what the namespace is for. r->names has both names, for the answer. */
static enum status read_function(const struct json_node *tool, struct tool_space *space,
				 struct responses *r, struct dialect_body *to,
				 struct fail *fail)
{
	struct json_node about = json_read_get(tool, "description");
	struct str name, text = STR("");
	enum status st = json_read_need_text(tool, "name", &name, fail);
	if (st == OK)
		st = json_read_str(&about, &text, fail);
	if (st != OK)
		return st;
	json_t *fn = json_object();
	dialect_copy(to, fn, "name", tool, "name");
	dialect_copy(to, fn, "description", tool, "description");
	dialect_copy(to, fn, "parameters", tool, "parameters");
	dialect_copy(to, fn, "strict", tool, "strict");
	if (space) {
		struct buf whole = {0}, words = {0};
		responses_join_name(space->name, name, &whole);
		dialect_set_str(fn, "name", buf_str(&whole));
		buf_add_str(&words, space->about);
		if (words.n && text.n)
			buf_add_z(&words, "\n\n");
		buf_add_str(&words, text);
		dialect_set_str(fn, "description", buf_str(&words));
		space->about = STR("");
		if (!r->names)
			r->names = json_object();
		buf_reserve(&whole, 0);
		dialect_set(r->names, whole.p,
			    json_pack("[s%, s%]", space->name.p, space->name.n, name.p,
				      name.n));
		buf_deinit(&whole);
		buf_deinit(&words);
	}
	dialect_add_tool(to, fn, tool);
	return OK;
}

static enum status read_tool_list(const struct json_node *at, struct tool_space *space,
				  struct responses *r, struct dialect_body *to,
				  struct fail *fail);

static enum status read_namespace(const struct json_node *tool, struct responses *r,
				  struct dialect_body *to, struct fail *fail)
{
	struct json_node about = json_read_get(tool, "description");
	struct json_node tools = json_read_get(tool, "tools");
	struct tool_space space = {.about = STR("")};
	enum status st = json_read_need_text(tool, "name", &space.name, fail);
	if (st == OK)
		st = json_read_str(&about, &space.about, fail);
	if (st == OK)
		st = json_read_need(&tools, fail);
	return st == OK ? read_tool_list(&tools, &space, r, to, fail) : st;
}

static enum status read_tool_list(const struct json_node *at, struct tool_space *space,
				  struct responses *r, struct dialect_body *to,
				  struct fail *fail)
{
	size_t n;
	enum status st = json_read_list(at, MAX_TOOLS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node tool = json_read_item(at, i);
		struct str kind;
		st = json_read_need_object(&tool, fail);
		if (st == OK)
			st = json_read_need_text(&tool, "type", &kind, fail);
		if (st == OK && str_is(kind, "function"))
			st = read_function(&tool, space, r, to, fail);
		else if (st == OK && str_is(kind, "namespace") && !space)
			st = read_namespace(&tool, r, to, fail);
		else if (st == OK)
			fields_ignore(&to->ignored, &tool, kind);
	}
	return st;
}

/* Reads tool_choice. Only functions can be chosen. */
static enum status read_tool_choice(const struct json_node *body,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "tool_choice");
	struct json_node type = json_read_get(&at, "type");
	struct json_node space_at = json_read_get(&at, "namespace");
	struct str kind, name, space = STR("");
	struct buf whole = {0};
	if (!at.v || json_is_string(at.v)) {
		dialect_copy(to, to->chat, "tool_choice", body, "tool_choice");
		return OK;
	}
	enum status st = json_read_object(&at, fail);
	if (st == OK)
		st = json_read_need_str(&type, &kind, fail);
	if (st == OK && !str_is(kind, "function")) {
		kind = json_read_clip(kind, 40);
		st = json_read_fail(&type, fail, "is \"%.*s\": only a function can be chosen",
				    (int)kind.n, kind.p);
	}
	if (st == OK)
		st = json_read_need_text(&at, "name", &name, fail);
	if (st == OK)
		st = json_read_str(&space_at, &space, fail);
	if (st != OK)
		return st;
	responses_join_name(space, name, &whole);
	dialect_demand_tool(to, buf_str(&whole), &at);
	buf_deinit(&whole);
	return OK;
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
	st = json_read_need_text(&at, "type", &kind, fail);
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

/* `include` asks for more in the answer. Of its words one is served: reasoning that a client
 * without a store sends back. */
static enum status read_include(const struct json_node *body, struct responses *r,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node at = json_read_get(body, "include");
	size_t n;
	enum status st = json_read_list(&at, MAX_TOOLS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(&at, i);
		struct str word;
		st = json_read_need_str(&item, &word, fail);
		if (st == OK && str_is(word, "reasoning.encrypted_content"))
			r->seals = true;
		else if (st == OK)
			fields_ignore(&to->ignored, &item, word);
	}
	return st;
}

static enum status read_options(const struct json_node *body, struct responses *r,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node tools = json_read_get(body, "tools");
	fields_copy(body, DIALECT_RESPONSES, to);
	dialect_copy(to, to->chat, "max_tokens", body, "max_output_tokens");
	struct json_node parallel = json_read_get(body, "parallel_tool_calls");
	bool is_parallel;
	enum status st = json_read_bool(&parallel, &is_parallel, fail);
	if (st == OK)
		st = read_tool_list(&tools, NULL, r, to, fail);
	if (st == OK)
		st = read_tool_choice(body, to, fail);
	if (st == OK)
		st = read_format(body, to, fail);
	if (st == OK)
		st = read_reasoning_effort(body, to, fail);
	if (st == OK)
		st = read_include(body, r, to, fail);
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
		buf_addf(out, ",\"%s\":", members[i].name);
		if (at.v)
			json_digits_write(at.v, false, out);
		else
			buf_add_z(out, members[i].dflt);
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
		st = read_options(body, r, to, fail);
	if (st == OK)
		make_echo(body, &r->echo);
	return st;
}

/* --- input_tokens ----------------------------------------------------------------------- */

static enum status responses_read_count(const struct api *a, const struct text_input *in,
					struct buf *out, struct fail *fail)
{
	struct api_call c = {.api = a, .owner = in->owner};
	struct dialect_body to;
	size_t n = 0;
	dialect_body_init(&to);
	to.model = &a->chat;
	enum status st = responses_to_chat(in->body, &c, &to, fail);
	if (st == OK)
		st = chat_body_count(a, &to, in, &n, fail);
	if (st == OK)
		buf_addf(out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", n);
	dialect_body_deinit(&to);
	dialect_responses.deinit(&c);
	return st;
}

enum status api_input_tokens(const struct api *a, const struct api_input *in, struct buf *out,
			     struct fail *fail)
{
	return text_call(a, in, responses_read_count, out, fail);
}
