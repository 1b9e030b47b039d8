/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client says is quoted in the prompt and marked with how far it is
 * trusted: text of users, systems and tools, names and the arguments of calls are
 * TRUST_USER; what the assistant is said to have written is TRUST_MODEL, so that
 * its "<think>" is the token again, but never an end of turn.
 *
 * Content comes as a string or a list of parts; templates get one string, the
 * text parts joined by newlines (as llama.cpp and vLLM do). Leading system and
 * developer messages become one system message; where the template can only have
 * one, all of them do.
 */
#include "api/messages.h"

#include "api/value.h"
#include "base/alloc.h"
#include "model/jsonfile.h"

#define MAX_MESSAGES 10000
#define MAX_PARTS 10000
#define MAX_TOOL_CALLS 1024
#define MAX_QUOTED 40 /* bytes of a wrong value in a message */

/* --- content ------------------------------------------------------------- */

/* One part. Images and the like are refused by name: a model that answers without
 * having seen them would mislead. */
static enum status read_part(const struct json_node *at, struct buf *out,
			     struct fail *fail)
{
	enum status st = json_read_need_object(at, fail);
	struct json_node type = json_read_get(at, "type");
	struct str kind = STR("text"), text = STR("");
	if (st == OK)
		st = json_read_str(&type, &kind, fail);
	if (st != OK)
		return st;
	/* What an assistant declined to say, and text as the Responses API names it,
	 * come back in the history of clients that speak both. */
	bool refusal = str_is(kind, "refusal");
	if (!refusal && !str_is(kind, "text") && !str_is(kind, "input_text") &&
	    !str_is(kind, "output_text")) {
		kind = json_read_clip(kind, MAX_QUOTED);
		return json_read_fail(&type, fail,
				      "is \"%.*s\": this model reads text only",
				      (int)kind.n, kind.p);
	}
	struct json_node words = json_read_get(at, refusal ? "refusal" : "text");
	st = json_read_need_str(&words, &text, fail);
	buf_add_str(out, text);
	return st;
}

/* Text of a message's content, in out. */
static enum status read_content(const struct json_node *at, struct buf *out,
				struct fail *fail)
{
	if (json_is_string(at->v)) {
		buf_add_str(out, json_read_view(at->v));
		return OK;
	}
	if (at->v && !json_is_array(at->v))
		return json_read_fail(at, fail,
				      "must be a string or a list of parts, not %s",
				      jsonfile_type(at->v));
	size_t n;
	enum status st = json_read_list(at, MAX_PARTS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node part = json_read_item(at, i);
		if (i > 0)
			buf_add_c(out, '\n');
		st = read_part(&part, out, fail);
	}
	return st;
}

/* --- messages ------------------------------------------------------------ */

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };

static const struct role_name {
	const char *name;
	enum role role;
	const char *in_template;
} role_names[] = {
	{"system", ROLE_SYSTEM, "system"},
	{"developer", ROLE_SYSTEM, "system"},
	{"user", ROLE_USER, "user"},
	{"assistant", ROLE_ASSISTANT, "assistant"},
	{"tool", ROLE_TOOL, "tool"},
};

struct conversation {
	struct arena *arena;
	bool one_system;    /* every system message goes into the first */
	bool has_system;
	struct buf system;  /* the first system message */
	struct buf content; /* of the message being read */
	struct jinja_value **rest; /* the messages behind it */
	size_t n_rest;
};

static enum status read_role(const struct json_node *message,
			     const struct role_name **out, struct fail *fail)
{
	struct json_node at = json_read_get(message, "role");
	struct str name = STR("");
	enum status st = json_read_need_str(&at, &name, fail);
	if (st != OK)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(role_names); i++) {
		if (str_is(name, role_names[i].name)) {
			*out = &role_names[i];
			return OK;
		}
	}
	name = json_read_clip(name, MAX_QUOTED);
	return json_read_fail(&at, fail,
			      "must be one of system, developer, user, assistant, "
			      "tool, got \"%.*s\"",
			      (int)name.n, name.p);
}

/* Arguments are a string in the API and an object in some clients' history; both go
 * to the template as they are. */
static enum status read_tool_calls(const struct json_node *message,
				   struct arena *a, struct jinja_value *dict,
				   bool *out_has, struct fail *fail)
{
	struct json_node at = json_read_get(message, "tool_calls");
	size_t n;
	enum status st = json_read_list(&at, MAX_TOOL_CALLS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node call = json_read_item(&at, i);
		st = messages_check_function(&call, fail);
		if (st != OK)
			return st;
		struct json_node fn = json_read_get(&call, "function");
		struct json_node args = json_read_get(&fn, "arguments");
		if (!json_is_string(args.v))
			st = json_read_object(&args, fail);
	}
	*out_has = n > 0;
	if (st == OK && n > 0)
		value_set(a, dict, "tool_calls", value_of_json(a, at.v));
	return st;
}

/* What a thinking model wrote before its answer, under either of its names. */
static enum status read_reasoning(const struct json_node *message,
				  struct arena *a, struct jinja_value *dict,
				  struct fail *fail)
{
	static const char *const names[] = {"reasoning", "reasoning_content"};
	struct str text = {0};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct json_node at = json_read_get(message, names[i]);
		enum status st = json_read_str(&at, &text, fail);
		if (st != OK)
			return st;
	}
	for (size_t i = 0; text.n && i < ARRAY_LEN(names); i++)
		value_set_str(a, dict, names[i], text, TRUST_MODEL);
	return OK;
}

static enum status read_assistant(const struct json_node *message,
				  struct conversation *c,
				  struct jinja_value *dict, struct fail *fail)
{
	struct arena *a = c->arena;
	struct json_node content = json_read_get(message, "content");
	bool has_calls = false;
	enum status st = read_content(&content, &c->content, fail);
	if (st == OK)
		st = read_reasoning(message, a, dict, fail);
	if (st == OK)
		st = read_tool_calls(message, a, dict, &has_calls, fail);
	/* Beside calls null is how the API spells "no text", and templates look for
	 * it; an answer that came out empty is sent back as null as well. */
	if (!content.v && has_calls)
		value_set(a, dict, "content", jinja_none(a));
	else
		value_set_str(a, dict, "content", buf_str(&c->content), TRUST_MODEL);
	return st;
}

static enum status read_optional(const struct json_node *message,
				 const char *key, struct arena *a,
				 struct jinja_value *dict, struct fail *fail)
{
	struct json_node at = json_read_get(message, key);
	struct str s = {0};
	enum status st = json_read_str(&at, &s, fail);
	if (st == OK && s.p)
		value_set_str(a, dict, key, s, TRUST_USER);
	return st;
}

/* A blank line between them, as between paragraphs. */
static void add_system(struct conversation *c)
{
	if (c->has_system)
		buf_add_z(&c->system, "\n\n");
	buf_add_str(&c->system, buf_str(&c->content));
	c->has_system = true;
}

/* To the end of c, or into its system message. */
static enum status read_message(const struct json_node *at,
				struct conversation *c, struct fail *fail)
{
	const struct role_name *role = NULL;
	enum status st = json_read_need_object(at, fail);
	if (st == OK)
		st = read_role(at, &role, fail);
	if (st != OK)
		return st;
	struct arena *a = c->arena;
	struct jinja_value *dict = jinja_dict(a);
	value_set_str(a, dict, "role", str_of(role->in_template), TRUST_TEMPLATE);
	buf_clear(&c->content);
	if (role->role == ROLE_ASSISTANT) {
		st = read_assistant(at, c, dict, fail);
	} else {
		struct json_node content = json_read_get(at, "content");
		st = json_read_need(&content, fail);
		if (st == OK)
			st = read_content(&content, &c->content, fail);
		value_set_str(a, dict, "content", buf_str(&c->content), TRUST_USER);
	}
	if (st == OK)
		st = read_optional(at, "name", a, dict, fail);
	if (st == OK)
		st = read_optional(at, "tool_call_id", a, dict, fail);
	if (st != OK)
		return st;
	if (role->role == ROLE_SYSTEM && (c->n_rest == 0 || c->one_system)) {
		add_system(c);
		return OK;
	}
	c->rest[c->n_rest++] = dict;
	return OK;
}

static struct jinja_value *to_list(struct conversation *c)
{
	struct arena *a = c->arena;
	struct jinja_value *list = jinja_list(a);
	if (c->has_system) {
		struct jinja_value *dict = jinja_dict(a);
		value_set_str(a, dict, "role", STR("system"), TRUST_TEMPLATE);
		value_set_str(a, dict, "content", buf_str(&c->system), TRUST_USER);
		jinja_list_add(a, list, dict);
	}
	for (size_t i = 0; i < c->n_rest; i++)
		jinja_list_add(a, list, c->rest[i]);
	return list;
}

enum status messages_read(const struct json_node *at, bool one_system,
			  struct arena *a, struct jinja_value **out,
			  struct fail *fail)
{
	size_t n;
	enum status st = json_read_need(at, fail);
	if (st == OK)
		st = json_read_list(at, MAX_MESSAGES, &n, fail);
	if (st != OK)
		return st;
	if (n == 0)
		return json_read_fail(at, fail, "must have at least one message");
	/* The first system message may grow until the last message is read, so the
	 * list is made at the end. */
	struct conversation c = {.arena = a, .one_system = one_system};
	c.rest = arena_alloc(a, n * sizeof *c.rest);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(at, i);
		st = read_message(&item, &c, fail);
	}
	if (st == OK)
		*out = to_list(&c);
	buf_deinit(&c.system);
	buf_deinit(&c.content);
	return st;
}

enum status messages_check_function(const struct json_node *holder,
				    struct fail *fail)
{
	struct json_node fn = json_read_get(holder, "function");
	struct json_node name = json_read_get(&fn, "name");
	struct str s;
	enum status st = json_read_need_object(holder, fail);
	if (st == OK)
		st = json_read_need_object(&fn, fail);
	if (st == OK)
		st = json_read_need_str(&name, &s, fail);
	return st;
}
