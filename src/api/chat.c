/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages, tools and variables go through the model's template into marked text,
 * and that to tokens: what a client wrote never becomes a control token (see
 * messages.c for who is trusted how far).
 */
#include "api/chat.h"

#include "api/messages.h"
#include "api/prompt.h"
#include "api/value.h"
#include "base/alloc.h"

#define MAX_TOOLS 1024

/* Tools go to the template as they came. Calls are not parsed out of the answer
 * yet, so a client may offer tools or forbid them, but not demand one. */
static enum status read_tools(const struct json_node *body, struct arena *a,
			      struct jinja_value **out, struct fail *fail)
{
	struct json_node choice = json_read_get(body, "tool_choice");
	struct json_node at = json_read_get(body, "tools");
	struct str how = STR("auto");
	if (json_is_string(choice.v))
		how = json_read_view(choice.v);
	if ((choice.v && !json_is_string(choice.v)) ||
	    !(str_is(how, "auto") || str_is(how, "none")))
		return json_read_fail(&choice, fail,
				      "must be \"auto\" or \"none\": others are "
				      "not supported yet");
	size_t n;
	enum status st = json_read_list(&at, MAX_TOOLS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node tool = json_read_item(&at, i);
		st = messages_check_function(&tool, fail);
	}
	/* What may not be called is better not shown. */
	if (st == OK && n > 0 && str_is(how, "auto"))
		*out = value_of_json(a, at.v);
	return st;
}

/* Template variables: chat_template_kwargs, and enable_thinking, which many send at
 * the top. */
static enum status read_globals(const struct json_node *body, struct arena *a,
				struct jinja_value **out, struct fail *fail)
{
	static const char *const reserved[] = {
		"messages", "tools", "add_generation_prompt", "bos_token",
		"eos_token",
	};
	struct json_node at = json_read_get(body, "chat_template_kwargs");
	enum status st = json_read_object(&at, fail);
	if (st != OK)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
		struct json_node own = json_read_get(&at, reserved[i]);
		if (own.v)
			return json_read_fail(&own, fail, "cannot be set");
	}
	*out = at.v ? value_of_json(a, at.v) : jinja_dict(a);
	struct json_node thinking = json_read_get(body, "enable_thinking");
	bool think = true;
	st = json_read_bool(&thinking, &think, fail);
	if (st == OK && thinking.v)
		value_set(a, *out, "enable_thinking", jinja_bool(a, think));
	return st;
}

/* A count without the switch is a client's mistake that it would not notice. */
static enum status read_logprobs(const struct json_node *body,
				 struct sampler_params *s, struct fail *fail)
{
	struct json_node at = json_read_get(body, "logprobs");
	bool wanted = false;
	enum status st = json_read_bool(&at, &wanted, fail);
	if (st != OK)
		return st;
	int64_t n_top = 0;
	at = json_read_get(body, "top_logprobs");
	st = json_read_int(&at, 0, SAMPLER_TOP_MAX, &n_top, fail);
	if (st != OK)
		return st;
	if (n_top > 0 && !wanted)
		return json_read_fail(&at, fail, "needs `logprobs`: true");
	s->n_top_logprobs = wanted ? (int)n_top : -1;
	return OK;
}

/* Answers are split where the model knows the tags: a model without them writes
 * such words only as text. */
static void set_outparse(const struct api *a, const struct marked *prompt,
			 struct outparse_opts *o)
{
	o->think_open = STR("<think>");
	o->think_close = STR("</think>");
	o->split_reasoning =
		tokenizer_find(a->model->tokenizer, o->think_open) >= 0 ||
		str_find(str_of(a->model->chat_template), o->think_close, 0) >= 0;
	o->starts_in_reasoning =
		o->split_reasoning &&
		chat_template_opens(prompt, o->think_open, o->think_close);
}

/* An answer with a grammar may begin by reasoning, if the model's own habit is to
 * open it: the prompt has not, and the client has not turned it off. */
static void set_reasoning(const struct json_node *body, struct request *r,
			  const struct tokenizer *t)
{
	struct json_node kwargs = json_read_get(body, "chat_template_kwargs");
	struct json_node own = json_read_get(body, "enable_thinking");
	struct json_node passed = json_read_get(&kwargs, "enable_thinking");
	int32_t id = tokenizer_find(t, r->parse.think_open);
	bool is_off = json_is_false(own.v) || (!own.v && json_is_false(passed.v));
	/* A special token has no text, so nobody could tell that it was written. */
	if (r->grammar && r->parse.split_reasoning && !r->parse.starts_in_reasoning &&
	    !is_off && id > 0 && !tokenizer_is_special(t, id))
		r->reasoning_id = id;
}

enum status chat_render(const struct api *a, const struct json_node *body,
			struct arena *scratch, struct marked *out,
			struct fail *fail)
{
	const struct chat_template *t = a->chat;
	struct chat_template_input in = {.arena = scratch};
	struct json_node at = json_read_get(body, "messages");
	if (!t)
		return fail_at(fail, E_INVAL, "messages",
			       "this model has no chat template: use "
			       "/v1/completions");
	enum status st = messages_read(&at, chat_template_wants_one_system(t),
				       scratch, &in.messages, fail);
	if (st == OK)
		st = read_tools(body, scratch, &in.tools, fail);
	if (st == OK)
		st = read_globals(body, scratch, &in.globals, fail);
	if (st != OK)
		return st;
	st = chat_template_render(t, &in, out, fail);
	if ((st == E_TEMPLATE || st == E_LIMIT) && fail && !fail->param[0])
		snprintf(fail->param, sizeof fail->param, "messages");
	return st;
}

enum status chat_read(const struct json_node *body, struct api_call *c,
		      struct fail *fail)
{
	enum status st = read_logprobs(body, &c->request->sampling, fail);
	if (st != OK)
		return st;
	/* Values of the template: many times the body, and gone when it is rendered. */
	struct arena scratch;
	struct marked prompt = {0};
	arena_init(&scratch, 0);
	st = chat_render(c->api, body, &scratch, &prompt, fail);
	arena_deinit(&scratch);
	if (st == OK) {
		set_outparse(c->api, &prompt, &c->request->parse);
		set_reasoning(body, c->request, c->api->model->tokenizer);
		prompt_alloc(c->request, 1);
		st = prompt_encode(c, 0, &prompt, false, fail);
		if (st == E_LIMIT && fail && !fail->param[0])
			snprintf(fail->param, sizeof fail->param, "messages");
	}
	marked_deinit(&prompt);
	return st;
}
