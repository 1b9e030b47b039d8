/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/responses: the items of `input` become messages of a chat.
 *
 *   message                 a message of its role; developer is system
 *   reasoning, message of the assistant, function_call
 *                           one message of the assistant, until another item comes between
 *   function_call_output    a message of the tool
 *   custom_tool_call, local_shell_call, web_search_call, …
 *                           a call. Its name is the tool's, its argument what was asked
 *   their outputs           messages of the tool. Some calls hold their result: so does that
 *   item_reference          the stored item of that id
 *
 * A history may hold calls of tools that this server does not run. They are kept, so that the
 * model sees what happened. Items that only another server can read (compaction) are refused.
 */
#include "api/responses.h"

#include "base/alloc.h"
#include "json/json_digits.h"
#include "json/json_fast.h"

#define MAX_ITEMS 10000

/* --- messages ------------------------------------------------------------------------ */

struct responses_reader {
	json_t *messages;
	json_t *turn; /* borrowed: the assistant's message that further items extend; NULL: none */
	struct dialect_body *to;
	const struct json_node *item; /* the item being read */
};

void responses_join_name(struct str space, struct str name, struct buf *out)
{
	buf_add_str(out, space);
	if (space.n && space.p[space.n - 1] != '_')
		buf_add_z(out, "__");
	buf_add_str(out, name);
}

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

/* Adds a call to the assistant's message. arguments: the text of a JSON value. */
static void add_call(struct responses_reader *r, struct str id, struct str name,
		     struct str arguments)
{
	json_t *m = turn_of(r), *calls = json_object_get(m, "tool_calls");
	json_t *call = json_object(), *fn = json_object();
	/* Beside calls null is how a chat spells "no text": see responses_format.c. */
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
	json_paths_add(&r->to->paths, call, r->item);
	json_paths_add(&r->to->paths, fn, r->item);
	json_array_append_new(calls, call);
}

static void add_result(struct responses_reader *r, struct str id, json_t *m)
{
	dialect_set_str(m, "tool_call_id", id);
	add_message(r, m);
}

static enum status read_call(const struct json_node *item, struct responses_reader *r,
			     struct fail *fail)
{
	struct json_node at = json_read_get(item, "namespace");
	struct str id, name, arguments, space = STR("");
	struct buf whole = {0};
	enum status st = json_read_need_text(item, "call_id", &id, fail);
	if (st == OK)
		st = json_read_need_text(item, "name", &name, fail);
	if (st == OK)
		st = json_read_need_text(item, "arguments", &arguments, fail);
	if (st == OK)
		st = json_read_str(&at, &space, fail);
	if (st != OK)
		return st;
	responses_join_name(space, name, &whole);
	add_call(r, id, buf_str(&whole), arguments);
	buf_deinit(&whole);
	return OK;
}

static enum status read_call_output(const struct json_node *item,
				    struct responses_reader *r, struct fail *fail)
{
	struct json_node output = json_read_get(item, "output");
	struct dialect_content c = {0};
	struct str id;
	enum status st = json_read_need_text(item, "call_id", &id, fail);
	if (st == OK)
		st = json_read_need(&output, fail);
	if (st == OK)
		st = dialect_read_content(&output, r->to, &c, fail);
	if (st == OK)
		add_result(r, id, dialect_message_of("tool", &c));
	dialect_content_deinit(&c);
	return st;
}

/* --- calls of other tools ----------------------------------------------------------- */

static const struct other_call {
	const char *type;
	const char *name; /* the tool's; NULL: the item has `name` */
	const char *asked, *result; /* fields of the item. result NULL: another item has it */
} other_calls[] = {
	{"custom_tool_call", NULL, "input", NULL},
	{"local_shell_call", "local_shell", "action", NULL},
	{"shell_call", "shell", "action", NULL},
	{"apply_patch_call", "apply_patch", "operation", NULL},
	{"computer_call", "computer", "action", NULL},
	{"tool_search_call", "tool_search", "arguments", NULL},
	{"program", "program", "code", NULL},
	{"web_search_call", "web_search", "action", "status"},
	{"file_search_call", "file_search", "queries", "results"},
	{"code_interpreter_call", "code_interpreter", "code", "outputs"},
	{"image_generation_call", "image_generation", "revised_prompt", "status"},
	{"mcp_call", NULL, "arguments", "output"},
	{"mcp_approval_request", NULL, "arguments", NULL},
};

static const struct other_output {
	const char *type, *field, *id;
} other_outputs[] = {
	{"local_shell_call_output", "output", "id"},
	{"shell_call_output", "output", "call_id"},
	{"apply_patch_call_output", "output", "call_id"},
	{"tool_search_output", "tools", "call_id"},
	{"program_output", "result", "call_id"},
	{"mcp_approval_response", "approve", "approval_request_id"},
};

/* A value as text: a string as it stands, anything else as JSON. */
static void add_text_of(const json_t *v, struct buf *out)
{
	if (json_is_string(v))
		buf_add_str(out, json_read_view(v));
	else if (v)
		json_digits_write(v, true, out);
}

/* Writes what a call was asked as an object: arguments of a function are one. */
static void add_asked(const struct other_call *k, const json_t *v, struct buf *out)
{
	json_t *parsed = NULL;
	if (json_is_string(v) && strcmp(k->asked, "arguments") == 0)
		parsed = json_fast_load(json_read_view(v));
	if (json_is_object(parsed) || json_is_object(v)) {
		add_text_of(v, out);
	} else {
		json_t *wrapped = json_object();
		json_object_set(wrapped, k->asked, v ? (json_t *)v : json_null());
		add_text_of(wrapped, out);
		json_decref(wrapped);
	}
	json_decref(parsed);
}

static enum status read_other_call(const struct json_node *item, const struct other_call *k,
				   struct responses_reader *r, struct fail *fail)
{
	struct json_node call_id = json_read_get(item, "call_id");
	struct json_node own_id = json_read_get(item, "id");
	struct json_node name_at = json_read_get(item, "name");
	struct json_node asked = json_read_get(item, k->asked);
	struct str id = STR(""), name = str_of(k->name ? k->name : "");
	enum status st = json_read_str(call_id.v ? &call_id : &own_id, &id, fail);
	if (st == OK && !k->name)
		st = json_read_need_str(&name_at, &name, fail);
	if (st != OK)
		return st;
	struct buf text = {0};
	add_asked(k, asked.v, &text);
	add_call(r, id, name, buf_str(&text));
	if (k->result) {
		struct json_node result = json_read_get(item, k->result);
		struct json_node error = json_read_get(item, "error");
		buf_clear(&text);
		add_text_of(result.v ? result.v : error.v, &text);
		add_result(r, id, dialect_message("tool", buf_str(&text)));
	}
	buf_deinit(&text);
	return OK;
}

static enum status read_other_output(const struct json_node *item,
				     const struct other_output *k, struct responses_reader *r,
				     struct fail *fail)
{
	struct json_node id_at = json_read_get(item, k->id);
	struct json_node output = json_read_get(item, k->field);
	struct str id = STR("");
	struct buf text = {0};
	enum status st = json_read_str(&id_at, &id, fail);
	if (st != OK)
		return st;
	add_text_of(output.v, &text);
	add_result(r, id, dialect_message("tool", buf_str(&text)));
	buf_deinit(&text);
	return OK;
}

/* --- all items -------------------------------------------------------------------------- */

/* Reads reasoning that is sent as text, or as encrypted_content of this server. That of other
 * servers is only for them; then its summary is taken. */
static enum status read_reasoning(const struct json_node *item, struct responses_reader *r,
				  struct fail *fail)
{
	struct json_node content = json_read_get(item, "content");
	struct json_node summary = json_read_get(item, "summary");
	struct json_node sealed = json_read_get(item, "encrypted_content");
	struct buf text = {0};
	struct str seal = STR("");
	enum status st = dialect_read_texts(&content, &text, fail);
	if (st == OK)
		st = json_read_str(&sealed, &seal, fail);
	if (st == OK && text.n == 0 && str_starts(seal, STR(RESPONSES_SEAL))) {
		size_t n = strlen(RESPONSES_SEAL);
		buf_add(&text, seal.p + n, seal.n - n);
	}
	if (st == OK && text.n == 0)
		st = dialect_read_texts(&summary, &text, fail);
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
	if (str_is(kind, "function_call_output") || str_is(kind, "custom_tool_call_output") ||
	    str_is(kind, "computer_call_output"))
		return read_call_output(item, r, fail);
	if (str_is(kind, "reasoning"))
		return read_reasoning(item, r, fail);
	for (size_t i = 0; i < ARRAY_LEN(other_calls); i++)
		if (str_is(kind, other_calls[i].type))
			return read_other_call(item, &other_calls[i], r, fail);
	for (size_t i = 0; i < ARRAY_LEN(other_outputs); i++)
		if (str_is(kind, other_outputs[i].type))
			return read_other_output(item, &other_outputs[i], r, fail);
	kind = json_read_clip(kind, 40);
	return json_read_fail(&type, fail,
			      "is \"%.*s\", which this server cannot read: send the messages, "
			      "reasoning, calls and outputs themselves",
			      (int)kind.n, kind.p);
}

enum status responses_read_items(const struct json_node *at, json_t *messages,
				 struct dialect_body *to, struct fail *fail)
{
	struct responses_reader r = {.messages = messages, .to = to, .item = at};
	size_t n;
	if (json_is_string(at->v)) {
		add_message(&r, dialect_message("user", json_read_view(at->v)));
		return OK;
	}
	enum status st = json_read_need(at, fail);
	if (st == OK)
		st = json_read_list(at, MAX_ITEMS, &n, fail);
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node item = json_read_item(at, i);
		st = read_item(&item, &r, fail);
	}
	if (st == OK && json_array_size(messages) == 0)
		st = json_read_fail(at, fail, "must have at least one item");
	return st;
}

/* --- references ------------------------------------------------------------------------- */

/* An item's id holds that of its response: see responses_item_id. */
static bool response_of(struct str item_id, struct buf *out)
{
	ptrdiff_t begin = str_find(item_id, STR("_"), 0);
	ptrdiff_t end = begin < 0 ? -1 : str_find(item_id, STR("_"), (size_t)begin + 1);
	buf_clear(out);
	if (end < 0)
		return false;
	buf_add_z(out, "resp_");
	buf_add(out, item_id.p + begin + 1, (size_t)(end - begin - 1));
	return true;
}

static json_t *find_item(json_t *list, struct str id)
{
	json_t *item;
	size_t i;
	json_array_foreach(list, i, item)
		if (str_eq(json_read_view(json_object_get(item, "id")), id))
			return json_incref(item);
	return NULL;
}

/* The response in which an item was looked for last. A history refers to few, many times. */
struct kept_response {
	struct buf id;
	json_t *output, *input; /* lists of items; NULL: the store has none */
};

/* Reads one part of a stored response; NULL: the store has none. */
static json_t *stored_part(const struct api_call *c, struct str id, enum response_part part)
{
	struct buf text = {0};
	json_t *kept = NULL;
	if (response_store_get(c->api->responses, c->owner, id, part, &text))
		kept = json_fast_load(buf_str(&text));
	buf_deinit(&text);
	return kept;
}

static void drop_response(struct kept_response *k)
{
	json_decref(k->output);
	json_decref(k->input);
	buf_deinit(&k->id);
	*k = (struct kept_response){0};
}

/* A new reference to the item of this id; NULL: the store has none. */
static json_t *stored_item(const struct api_call *c, struct str id, struct kept_response *k)
{
	struct buf response = {0};
	if (!response_of(id, &response)) {
		buf_deinit(&response);
		return NULL;
	}
	if (!str_eq(buf_str(&response), buf_str(&k->id))) {
		drop_response(k);
		json_t *body = stored_part(c, buf_str(&response), RESPONSE_BODY);
		k->output = json_incref(json_object_get(body, "output"));
		k->input = body ? stored_part(c, buf_str(&response), RESPONSE_INPUT) : NULL;
		k->id = response;
		response = (struct buf){0};
		json_decref(body);
	}
	buf_deinit(&response);
	json_t *item = find_item(k->output, id);
	return item ? item : find_item(k->input, id);
}

/* Is the item a reference? Clients may leave its type out. */
static bool is_reference(const struct json_node *item)
{
	struct json_node type = json_read_get(item, "type");
	if (json_is_string(type.v))
		return str_is(json_read_view(type.v), "item_reference");
	return !type.v && json_is_object(item->v) && json_object_size(item->v) <= 2 &&
	       json_is_string(json_object_get(item->v, "id"));
}

enum status responses_resolve(const struct json_node *at, const struct api_call *c,
			      json_t **out, struct fail *fail)
{
	struct kept_response of = {0};
	size_t n = 0;
	enum status st = json_is_array(at->v) ? json_read_list(at, MAX_ITEMS, &n, fail) : OK;
	*out = NULL;
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node item = json_read_item(at, i);
		struct json_node id_at = json_read_get(&item, "id");
		struct str id;
		if (!is_reference(&item))
			continue;
		st = json_read_need_str(&id_at, &id, fail);
		json_t *kept = st == OK ? stored_item(c, id, &of) : NULL;
		if (st == OK && !kept) {
			id = json_read_clip(id, 60);
			st = json_read_fail(&id_at, fail, "is \"%.*s\", which is not known (any "
					    "more): send the item itself", (int)id.n, id.p);
		}
		if (st != OK)
			break;
		if (!*out)
			*out = json_copy((json_t *)at->v);
		json_array_set_new(*out, i, kept);
	}
	drop_response(&of);
	if (st != OK) {
		json_decref(*out);
		*out = NULL;
	}
	return st;
}
