/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /api/chat and /api/generate, the bodies: Ollama's API as a chat.
 *
 *   messages: images, thinking,  parts of type image_url, reasoning_content, and calls with
 *   tool_calls, tool_name        ids: Ollama's calls have none, so a tool's result belongs to
 *                                the first call of its name that has no result
 *   prompt, system, images       a message of the user behind one of the system
 *   prompt, with raw             a completion: no template
 *   options, format, think       their chat names; the table below has those of options
 *   no message, no prompt        a prompt of one token and no answer: clients load a model so
 *
 * An answer is a stream unless `stream` is false. keep_alive, and options about memory and
 * threads, change nothing: the model stays as the server's settings have it.
 */
#include "api/ollama.h"

#include <stdlib.h>

#include "api/fields.h"
#include "base/alloc.h"
#include "base/work.h"
#include "chat/messages.h"

#define MAX_MESSAGES 10000
#define MAX_CALLS 1024
#define MAX_IMAGES 1000
#define LOOK_UNITS 40 /* of work: a look at one call that waits for its result */

/* --- fields ------------------------------------------------------------------------ */

enum use {
	OLLAMA_BOTH = 1,
	OLLAMA_CHAT,
	OLLAMA_GENERATE,
	OLLAMA_NOTHING, /* changes nothing here */
};

static const struct body_field {
	const char *name;
	enum use use;
} body_fields[] = {
	{"model", OLLAMA_BOTH}, {"stream", OLLAMA_BOTH}, {"options", OLLAMA_BOTH},
	{"format", OLLAMA_BOTH}, {"think", OLLAMA_BOTH}, {"keep_alive", OLLAMA_NOTHING},
	{"truncate", OLLAMA_NOTHING}, {"shift", OLLAMA_NOTHING}, {"messages", OLLAMA_CHAT},
	{"tools", OLLAMA_CHAT}, {"prompt", OLLAMA_GENERATE}, {"system", OLLAMA_GENERATE},
	{"images", OLLAMA_GENERATE}, {"raw", OLLAMA_GENERATE}, {"suffix", OLLAMA_GENERATE},
	{"template", OLLAMA_GENERATE}, {"context", OLLAMA_GENERATE},
	{"logprobs", OLLAMA_BOTH}, {"top_logprobs", OLLAMA_BOTH},
};

/* Options, and the chat's fields; NULL: it changes nothing here. */
static const struct option_field {
	const char *name, *chat;
} option_fields[] = {
	{"temperature", "temperature"}, {"top_p", "top_p"}, {"top_k", "top_k"},
	{"min_p", "min_p"}, {"seed", "seed"}, {"stop", "stop"},
	{"presence_penalty", "presence_penalty"}, {"frequency_penalty", "frequency_penalty"},
	{"repeat_penalty", "repetition_penalty"}, {"num_predict", "max_tokens"},
	{"num_ctx", NULL}, {"num_keep", NULL}, {"num_batch", NULL}, {"num_gpu", NULL},
	{"main_gpu", NULL}, {"num_thread", NULL}, {"use_mmap", NULL}, {"use_mlock", NULL},
	{"low_vram", NULL}, {"numa", NULL}, {"f16_kv", NULL}, {"vocab_only", NULL},
	{"logits_all", NULL}, {"embedding_only", NULL},
};

static void check_fields(const struct json_node *body, bool is_chat, struct dialect_body *to)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)body->v, key, v) {
		struct json_node at = json_read_get(body, key);
		bool is_known = !at.v;
		for (size_t i = 0; i < ARRAY_LEN(body_fields) && !is_known; i++)
			is_known = strcmp(key, body_fields[i].name) == 0 &&
				   body_fields[i].use != (is_chat ? OLLAMA_GENERATE : OLLAMA_CHAT);
		if (!is_known)
			fields_ignore(&to->ignored, &at, STR(""));
	}
}

/* Clients write null for what they leave out. */
static bool is_empty(const struct json_node *at)
{
	return !at->v || (json_is_string(at->v) && json_string_length(at->v) == 0) ||
	       (json_is_array(at->v) && json_array_size(at->v) == 0);
}

static enum status read_options(const struct json_node *body, struct dialect_body *to,
				struct fail *fail)
{
	struct json_node options = json_read_get(body, "options");
	enum status st = json_read_object(&options, fail);
	const char *key;
	json_t *v;
	if (st != OK || !options.v)
		return st;
	json_object_foreach((json_t *)options.v, key, v) {
		struct json_node at = json_read_get(&options, key);
		const struct option_field *f = NULL;
		for (size_t i = 0; i < ARRAY_LEN(option_fields) && !f; i++)
			if (strcmp(key, option_fields[i].name) == 0)
				f = &option_fields[i];
		/* num_predict: 0 and less are words for no limit */
		bool is_endless = f && f->chat && strcmp(f->chat, "max_tokens") == 0 &&
				  json_is_integer(at.v) && json_integer_value(at.v) <= 0;
		if (at.v && !f)
			fields_ignore(&to->ignored, &at, STR(""));
		else if (at.v && f->chat && !is_endless)
			dialect_copy(to, to->chat, f->chat, &options, key);
	}
	return OK;
}

static enum status read_format(const struct json_node *body, struct dialect_body *to,
			       struct fail *fail)
{
	struct json_node at = json_read_get(body, "format");
	json_t *schema = NULL;
	bool is_word = json_is_string(at.v) && str_is(json_read_view(at.v), "json");
	if (is_empty(&at))
		return OK;
	if (!is_word && !json_is_object(at.v))
		return json_read_fail(&at, fail, "must be \"json\" or a JSON schema");
	if (!is_word) {
		schema = json_object();
		dialect_set_str(schema, "name", STR("format"));
		dialect_set(schema, "strict", json_true());
		dialect_copy(to, schema, "schema", body, "format");
	}
	dialect_demand_format(to, is_word ? STR("json_object") : STR("json_schema"),
			      schema ? schema : json_object(), &at);
	return OK;
}

static enum status read_think(const struct json_node *body, struct dialect_body *to,
			      struct fail *fail)
{
	struct json_node at = json_read_get(body, "think");
	if (is_empty(&at))
		return OK;
	if (json_is_string(at.v))
		dialect_copy(to, to->chat, "reasoning_effort", body, "think");
	else if (json_is_boolean(at.v))
		dialect_copy(to, to->chat, "enable_thinking", body, "think");
	else
		return json_read_fail(&at, fail, "must be true, false, or a word such as "
						 "\"high\"");
	return OK;
}

/* Reads what both bodies have. */
static enum status read_common(const struct json_node *body, struct api_call *c,
			       struct dialect_body *to, struct fail *fail)
{
	const struct ollama_call *o = c->state;
	struct json_node model = json_read_get(body, "model");
	struct json_node stream = json_read_get(body, "stream");
	bool is_stream = true;
	check_fields(body, o->is_chat, to);
	enum status st = json_read_need(&model, fail);
	if (st == OK)
		st = json_read_bool(&stream, &is_stream, fail);
	dialect_set(to->chat, "stream", json_boolean(is_stream));
	dialect_copy(to, to->chat, "logprobs", body, "logprobs");
	dialect_copy(to, to->chat, "top_logprobs", body, "top_logprobs");
	if (st == OK)
		st = read_options(body, to, fail);
	if (st == OK)
		st = read_format(body, to, fail);
	return st == OK ? read_think(body, to, fail) : st;
}

/* Makes the call one of a prompt without a template. */
static void be_raw(struct api_call *c, json_t *prompt, const struct json_node *from,
		   struct dialect_body *to)
{
	c->dialect = &ollama_raw;
	dialect_set(to->chat, "prompt", prompt);
	json_paths_add_field(&to->paths, to->chat, "prompt", from);
	/* A completion counts what a chat switches on. */
	if (json_is_true(json_object_get(to->chat, "logprobs"))) {
		const json_t *n = json_object_get(to->chat, "top_logprobs");
		dialect_set(to->chat, "logprobs", n ? json_copy((json_t *)n) : json_integer(0));
	} else {
		json_object_del(to->chat, "logprobs");
	}
}

/* A body that asks for no answer. */
static void be_empty(struct api_call *c, const struct json_node *from, struct dialect_body *to)
{
	json_t *ids = json_array();
	int32_t bos = c->api->chat.model->config.bos_id;
	json_array_append_new(ids, json_integer(MAX(bos, 0)));
	be_raw(c, ids, from, to);
	dialect_set(to->chat, "max_tokens", json_integer(0));
}

/* --- messages ---------------------------------------------------------------------- */

struct ollama_history {
	struct dialect_body *to;
	json_t *messages; /* borrowed */
	json_t *waiting;  /* calls without a result: objects with id and name */
	int n_calls;
};

/* Adds the images of a message, or of a prompt, to its content. */
static enum status read_images(const struct json_node *list, struct dialect_body *to,
			       struct dialect_content *c, struct fail *fail)
{
	size_t n;
	enum status st = json_read_list(list, MAX_IMAGES, &n, fail);
	if (st == OK && n && !to->model->vision)
		return json_read_fail(list, fail, "has images: this model reads %s only",
				      messages_kinds(to->model));
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node at = json_read_item(list, i);
		struct buf url = {0};
		struct str data;
		st = json_read_need_str(&at, &data, fail);
		if (st != OK)
			break;
		if (!str_starts(data, STR("data:")))
			buf_add_z(&url, "data:image/png;base64,");
		buf_add_str(&url, data);
		dialect_add_image(to, c, json_stringn_nocheck(url.p, url.n), &at, &at);
		buf_deinit(&url);
	}
	return st;
}

/* The content of a message: its images, then its text. */
static enum status read_content(const struct json_node *at, const char *text_key,
				struct dialect_body *to, struct dialect_content *c,
				struct fail *fail)
{
	struct json_node images = json_read_get(at, "images");
	struct json_node text = json_read_get(at, text_key);
	struct str s = STR("");
	enum status st = json_read_str(&text, &s, fail);
	if (st == OK)
		st = read_images(&images, to, c, fail);
	if (st == OK && s.n)
		dialect_add_text(c, s);
	return st;
}

static enum status read_call(const struct json_node *call, struct ollama_history *h, json_t *calls,
			     struct fail *fail)
{
	struct json_node fn = json_read_get(call, "function");
	struct json_node id_at = json_read_get(call, "id");
	struct str name, id = {0};
	char made[32];
	enum status st = json_read_need_object(&fn, fail);
	if (st == OK)
		st = json_read_need_text(&fn, "name", &name, fail);
	if (st == OK)
		st = json_read_str(&id_at, &id, fail);
	if (st != OK)
		return st;
	snprintf(made, sizeof made, "call_%d", h->n_calls++);
	if (!id.n)
		id = str_of(made);
	json_t *out = json_object(), *function = json_object(), *waits = json_object();
	dialect_set_str(out, "id", id);
	dialect_set_str(out, "type", STR("function"));
	dialect_set_str(function, "name", name);
	dialect_set(function, "arguments", json_object());
	dialect_copy(h->to, function, "arguments", &fn, "arguments");
	json_paths_add(&h->to->paths, out, call);
	json_paths_add(&h->to->paths, function, &fn);
	dialect_set(out, "function", function);
	json_array_append_new(calls, out);
	dialect_set_str(waits, "id", id);
	dialect_set_str(waits, "name", name);
	json_array_append_new(h->waiting, waits);
	return OK;
}

static enum status read_calls(const struct json_node *message, struct ollama_history *h, json_t *m,
			      struct fail *fail)
{
	struct json_node at = json_read_get(message, "tool_calls");
	json_t *calls = json_array();
	size_t n;
	enum status st = json_read_list(&at, MAX_CALLS, &n, fail);
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node call = json_read_item(&at, i);
		st = read_call(&call, h, calls, fail);
	}
	if (json_array_size(calls)) {
		json_paths_add(&h->to->paths, calls, &at);
		json_object_set(m, "tool_calls", calls);
	}
	json_decref(calls);
	return st;
}

/* Names the call that the tool's result belongs to. */
static enum status read_result(const struct json_node *message, struct ollama_history *h, json_t *m,
			       struct fail *fail)
{
	struct json_node id_at = json_read_get(message, "tool_call_id");
	struct json_node newer = json_read_get(message, "tool_name");
	struct json_node older = json_read_get(message, "name");
	struct str name = {0}, id = {0};
	enum status st = json_read_str(&id_at, &id, fail);
	if (st == OK)
		st = json_read_str(newer.v ? &newer : &older, &name, fail);
	if (st != OK)
		return st;
	size_t n = json_array_size(h->waiting);
	for (size_t i = 0; i < n; i++) {
		/* A body has room for many calls and for many results that none of them is of. The
		 * last look may move all calls that are left. */
		if (!work_spend(WORK_TEXT, LOOK_UNITS + (i ? 0 : n / 16)))
			return fail_set(fail, E_LIMIT, "too many calls wait for their results");
		const json_t *w = json_array_get(h->waiting, i);
		struct str w_id = json_read_view(json_object_get(w, "id"));
		struct str w_name = json_read_view(json_object_get(w, "name"));
		if (id.n ? !str_eq(id, w_id) : name.n && !str_eq(name, w_name))
			continue;
		dialect_set_str(m, "tool_call_id", w_id);
		dialect_set_str(m, "name", w_name);
		json_array_remove(h->waiting, i);
		return OK;
	}
	if (id.n)
		dialect_set_str(m, "tool_call_id", id);
	if (name.n)
		dialect_set_str(m, "name", name);
	return OK;
}

static enum status read_message(const struct json_node *at, struct ollama_history *h,
				struct fail *fail)
{
	static const char *const roles[] = {"system", "user", "assistant", "tool"};
	struct json_node role_at = json_read_get(at, "role");
	struct dialect_content content = {0};
	const char *role = NULL;
	struct str s;
	enum status st = json_read_need_object(at, fail);
	if (st == OK)
		st = json_read_need_str(&role_at, &s, fail);
	for (size_t i = 0; st == OK && i < ARRAY_LEN(roles); i++)
		if (str_is(s, roles[i]))
			role = roles[i];
	if (st == OK && !role)
		st = json_read_fail(&role_at, fail, "must be system, user, assistant or tool");
	if (st == OK)
		st = read_content(at, "content", h->to, &content, fail);
	if (st == OK) {
		json_t *m = dialect_message_of(role, &content);
		json_paths_add(&h->to->paths, m, at);
		json_array_append_new(h->messages, m);
		dialect_copy(h->to, m, "reasoning_content", at, "thinking");
		if (strcmp(role, "assistant") == 0)
			st = read_calls(at, h, m, fail);
		else if (strcmp(role, "tool") == 0)
			st = read_result(at, h, m, fail);
	}
	dialect_content_deinit(&content);
	return st;
}

static enum status read_messages(const struct json_node *list, size_t n,
				 struct dialect_body *to, struct fail *fail)
{
	struct ollama_history h = {.to = to, .messages = json_array(), .waiting = json_array()};
	enum status st = OK;
	dialect_set(to->chat, "messages", h.messages);
	json_paths_add(&to->paths, h.messages, list);
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node at = json_read_item(list, i);
		st = read_message(&at, &h, fail);
	}
	json_decref(h.waiting);
	return st;
}

/* --- the two bodies ---------------------------------------------------------------- */

static void ollama_read_begin(struct api_call *c, bool is_chat)
{
	struct ollama_call *o = xcalloc(1, sizeof *o);
	o->is_chat = is_chat;
	c->state = o;
}

enum status ollama_chat_to_chat(const struct json_node *body, struct api_call *c,
				struct dialect_body *to, struct fail *fail)
{
	struct json_node list = json_read_get(body, "messages");
	size_t n;
	ollama_read_begin(c, true);
	enum status st = read_common(body, c, to, fail);
	if (st == OK)
		st = json_read_list(&list, MAX_MESSAGES, &n, fail);
	if (st != OK)
		return st;
	if (n == 0) {
		be_empty(c, &list, to);
		return OK;
	}
	struct json_node tools = json_read_get(body, "tools");
	if (!is_empty(&tools))
		dialect_copy(to, to->chat, "tools", body, "tools");
	return read_messages(&list, n, to, fail);
}

/* Refuses what a prompt cannot have here. */
static enum status check_generate(const struct json_node *body, struct fail *fail)
{
	static const struct {
		const char *name, *words;
	} refused[] = {
		{"suffix", "is not served here: ask /infill"},
		{"template", "is not served: the model's own template is used, or none with "
			     "`raw`: true"},
		{"context", "is not served: send the conversation to /api/chat"},
	};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct json_node at = json_read_get(body, refused[i].name);
		if (!is_empty(&at))
			return json_read_fail(&at, fail, "%s", refused[i].words);
	}
	return OK;
}

static enum status read_prompt(const struct json_node *body, struct dialect_body *to,
			       struct fail *fail)
{
	struct json_node system = json_read_get(body, "system");
	struct json_node at = json_read_get(body, "prompt");
	struct dialect_content content = {0};
	struct str s = {0};
	json_t *messages = json_array();
	dialect_set(to->chat, "messages", messages);
	json_paths_add(&to->paths, messages, &at);
	enum status st = json_read_str(&system, &s, fail);
	if (st == OK && s.n)
		json_array_append_new(messages, dialect_message("system", s));
	if (st == OK)
		st = read_content(body, "prompt", to, &content, fail);
	if (st == OK) {
		json_t *m = dialect_message_of("user", &content);
		json_paths_add(&to->paths, m, &at);
		json_array_append_new(messages, m);
	}
	dialect_content_deinit(&content);
	return st;
}

/* Names what only a template could have shown. */
static void ignore_templates_own(const struct json_node *body, struct dialect_body *to)
{
	static const char *const names[] = {"system", "think"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct json_node at = json_read_get(body, names[i]);
		if (!is_empty(&at))
			fields_ignore(&to->ignored, &at, STR(""));
	}
}

enum status ollama_generate_to_chat(const struct json_node *body, struct api_call *c,
				    struct dialect_body *to, struct fail *fail)
{
	struct json_node prompt = json_read_get(body, "prompt");
	struct json_node raw_at = json_read_get(body, "raw");
	struct json_node images = json_read_get(body, "images");
	bool is_raw = false;
	ollama_read_begin(c, false);
	enum status st = check_generate(body, fail);
	if (st == OK)
		st = read_common(body, c, to, fail);
	if (st == OK)
		st = json_read_bool(&raw_at, &is_raw, fail);
	if (st != OK)
		return st;
	if (is_empty(&prompt) && is_empty(&images)) {
		be_empty(c, &prompt, to);
	} else if (is_raw) {
		struct str s;
		if (!is_empty(&images))
			return json_read_fail(&images, fail, "does not go with `raw`: true");
		st = json_read_need_str(&prompt, &s, fail);
		ignore_templates_own(body, to);
		if (st == OK)
			be_raw(c, json_incref((json_t *)prompt.v), &prompt, to);
	} else {
		st = read_prompt(body, to, fail);
	}
	return st;
}
