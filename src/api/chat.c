/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a chat request. The model's template turns messages, tools and variables into
 * marked text, which the tokenizer turns into tokens. A client's text never becomes a
 * control token. messages.c says how far each text is trusted.
 */
#include "api/chat.h"


#include "api/chat_plain.h"
#include "api/chat_vars.h"
#include "api/messages.h"
#include "api/prompt.h"
#include "api/toolgrammar.h"
#include "api/value.h"
#include "base/alloc.h"
#include "base/random.h"
#include "json/json_digits.h"

/* top_logprobs without `logprobs` is refused: the client would otherwise not notice its
 * mistake. */
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

/* Gemma 4 writes its reasoning in a channel of this name. The channel's tags are special
 * tokens. */
#define CHANNEL "<|channel>"
#define CHANNEL_END "<channel|>"

/* Answers are split into reasoning and content only where the model knows the tags. Another
 * model writes such words as text. */
static void set_outparse(const struct api *a, const struct marked *prompt,
			 struct outparse_opts *o)
{
	struct str template = str_of(a->template_text);
	bool has_channel = str_find(template, str_of(CHANNEL), 0) >= 0;
	o->think_open = has_channel ? STR(CHANNEL "thought") : STR("<think>");
	o->think_close = has_channel ? STR(CHANNEL_END) : STR("</think>");
	if (o->tools.format && o->tools.format->end_reasoning)
		return;
	o->split_reasoning =
		tokenizer_find(a->model->tokenizer, o->think_open) >= 0 ||
		str_find(template, o->think_close, 0) >= 0;
	o->starts_in_reasoning =
		o->split_reasoning &&
		chat_template_opens(prompt, o->think_open, o->think_close);
}

/* --- the thinking budget -------------------------------------------------- */

/* *out: reasoning tokens at most. -1, or no such field: no bound. */
static enum status read_budget(const struct json_node *body, int64_t *out,
			       struct fail *fail)
{
	struct json_node kwargs = json_read_get(body, "chat_template_kwargs");
	struct json_node at = json_read_get(&kwargs, "thinking_budget");
	*out = -1;
	enum status st = json_read_int(&at, -1, INT32_MAX, out, fail);
	static const char *const names[] = {"thinking_budget", "max_reasoning_tokens"};
	for (size_t i = 0; i < ARRAY_LEN(names) && st == OK; i++) {
		at = json_read_get(body, names[i]);
		st = json_read_int(&at, -1, INT32_MAX, out, fail);
	}
	return st;
}

/* Finds the token ids that close the reasoning, as the model would have written them. */
static enum status set_budget(const struct json_node *body, struct api_call *c,
			      struct fail *fail)
{
	struct request *r = c->request;
	const struct outparse_opts *o = &r->parse;
	int64_t budget;
	enum status st = read_budget(body, &budget, fail);
	bool has_channels = o->tools.format && o->tools.format->end_reasoning;
	if (st != OK || budget < 0 || !(o->split_reasoning || has_channels))
		return st;
	struct buf text = {0};
	struct ids ids = {0};
	if (has_channels)
		buf_add_z(&text, o->tools.format->end_reasoning);
	else if (str_is(o->think_close, CHANNEL_END))
		buf_add_z(&text, CHANNEL_END);
	else
		buf_addf(&text, "\n%.*s\n\n", (int)o->think_close.n, o->think_close.p);
	st = tokenizer_encode(c->api->model->tokenizer, buf_str(&text), TRUST_TEMPLATE,
			      &ids, fail);
	if (st == OK) {
		int32_t *copy = arena_alloc(&r->arena, ids.n * sizeof *copy);
		memcpy(copy, ids.p, ids.n * sizeof *copy);
		r->max_reasoning = (int32_t)budget;
		r->close_ids = copy;
		r->n_close_ids = (int)ids.n;
	}
	ids_deinit(&ids);
	buf_deinit(&text);
	return st;
}

/* --- the last message goes on --------------------------------------------- */

/* Draws a random mark, which no client can have written. It is put behind the last
 * message's text to find that text's end in the prompt. */
static struct str draw_mark(struct arena *a)
{
	char mark[33];
	random_hex(16, mark);
	return arena_str(a, str_of(mark));
}

/* DeepSeek and Mistral mark the message itself that is to go on. */
static enum status read_prefix(const struct json_node *body, bool *io_goes_on,
			       struct fail *fail)
{
	struct json_node list = json_read_get(body, "messages");
	size_t n = json_is_array(list.v) ? json_array_size(list.v) : 0;
	for (size_t i = 0; i < n; i++) {
		struct json_node item = json_read_item(&list, i);
		struct json_node at = json_read_get(&item, "prefix");
		bool is_prefix = false;
		enum status st = json_read_bool(&at, &is_prefix, fail);
		if (st == OK && is_prefix && i < n - 1)
			st = json_read_fail(&at, fail, "goes with the last message only");
		if (st != OK)
			return st;
		*io_goes_on |= is_prefix;
	}
	return OK;
}

static enum status read_continue(const struct json_node *body, struct arena *a,
				 struct str *out_mark, bool *out_whole,
				 struct fail *fail)
{
	struct json_node at = json_read_get(body, "continue_final_message");
	struct json_node opens = json_read_get(body, "add_generation_prompt");
	bool goes_on = false, is_opened = true;
	enum status st = json_read_bool(&at, &goes_on, fail);
	if (st == OK)
		st = read_prefix(body, &goes_on, fail);
	if (st == OK)
		st = json_read_bool(&opens, &is_opened, fail);
	if (st != OK)
		return st;
	if (goes_on && opens.v && is_opened)
		return json_read_fail(&at, fail, "and `add_generation_prompt` cannot "
						 "both be true");
	*out_whole = goes_on || !is_opened;
	if (!goes_on)
		return OK;
	*out_mark = draw_mark(a);
	return OK;
}

/* Ends the prompt where the mark stands. */
static enum status cut_at(const struct json_node *body, struct marked *m, struct str mark,
			  struct fail *fail)
{
	ptrdiff_t at = str_find(buf_str(&m->text), mark, 0);
	struct json_node own = json_read_get(body, "continue_final_message");
	struct json_node messages = json_read_get(body, "messages");
	if (at < 0)
		return json_read_fail(own.v ? &own : &messages, fail,
				      "cannot go on: this model's template does not show "
				      "the last message's text");
	m->text.n = (size_t)at;
	while (m->n_marks > 1 && m->marks[m->n_marks - 2].end >= m->text.n)
		m->n_marks--;
	m->marks[m->n_marks - 1].end = m->text.n;
	return OK;
}

/* An answer with a grammar may begin with reasoning if the model opens it of its own habit.
 * Three things forbid it: a prompt that has opened it, a prompt that has closed it, a
 * client that turned it off. */
static void set_reasoning(const struct json_node *body, struct request *r,
			  const struct tokenizer *t, const struct marked *prompt)
{
	struct json_node kwargs = json_read_get(body, "chat_template_kwargs");
	struct json_node own = json_read_get(body, "enable_thinking");
	struct json_node passed = json_read_get(&kwargs, "enable_thinking");
	int32_t id = tokenizer_find(t, r->parse.think_open);
	bool is_off = json_is_false(own.v) || (!own.v && json_is_false(passed.v)) ||
		      chat_template_closes(prompt, r->parse.think_open,
					   r->parse.think_close);
	/* A special token has no text, so the parser would not see that the model wrote it. */
	if (r->grammar && r->parse.split_reasoning && !r->parse.starts_in_reasoning &&
	    !is_off && id > 0 && !tokenizer_is_special(t, id))
		r->reasoning_id = id;
}

/* --- the whole ------------------------------------------------------------ */

/* One chat while it is rendered: the template's input, and how the model's output is parsed. */
struct chat {
	const struct api *api;
	struct outparse_opts *parse; /* complete but for the stop strings */
	struct arena *arena;         /* holds what `parse` points to */
	struct chat_template_input in;
	struct chat_replay replay;
	struct images *images;
	struct tools tools;
	struct str mark; /* ends the last message's text; p NULL: a new turn begins */
	/* The template failed once: what a message or a tool may leave out is filled in. */
	bool fills;
};

static void fill_description(json_t *object)
{
	if (json_is_object(object) && !json_is_string(json_object_get(object, "description")))
		json_object_set_new(object, "description", json_string(""));
}

/* A new copy of the tools: each tool and each of its parameters gets a description, ""
 * where it has none. */
static json_t *fill_tools(const json_t *tools)
{
	json_t *all = json_digits_copy(tools), *tool, *property;
	const char *name;
	size_t i;
	json_array_foreach(all, i, tool) {
		json_t *fn = json_object_get(tool, "function");
		json_t *takes = json_object_get(fn, "parameters");
		fill_description(fn);
		json_object_foreach(json_object_get(takes, "properties"), name, property)
			fill_description(property);
		if (fn && !json_is_object(takes))
			json_object_set_new(fn, "parameters",
					    json_pack("{sss{}}", "type", "object",
						      "properties"));
	}
	return all;
}

/* Reads the messages anew where the template shows no tools or no calls: as text. */
static enum status read_plain(const struct json_node *messages, const struct json_node *body,
			      struct chat *chat, const struct messages_opts *o,
			      struct fail *fail)
{
	struct chat_plain plain = chat_plain_of(chat->api);
	struct json_node tools = json_read_get(body, "tools");
	if (!plain.calls && !(plain.tools && chat->tools.are_shown))
		return OK;
	struct json_node at = *messages;
	json_t *made = chat_plain_messages(chat->api, messages->v,
					   chat->tools.are_shown ? tools.v : NULL);
	at.v = made;
	images_init(chat->images, chat->api, chat->arena);
	enum status st = messages_read(&at, o, &chat->in.messages, fail);
	json_decref(made);
	return st;
}

/* store: knows the model's own words of earlier calls; NULL: calls are shown as the client
 * sent them. */
static enum status read_chat(const struct json_node *body, struct chat *chat,
			     struct callstore *store, struct fail *fail)
{
	const struct api *a = chat->api;
	struct chat_template_input *in = &chat->in;
	struct json_node at = json_read_get(body, "messages");
	enum status st = read_continue(body, in->arena, &chat->mark, &in->is_whole, fail);
	images_init(chat->images, a, chat->arena);
	chat->replay = (struct chat_replay){.arena = in->arena, .store = store,
				       .format = a->tool_format,
				       .takes_objects =
					       chat_template_takes_objects(a->chat)};
	const struct messages_opts o = {
		.chat = a->chat, .arena = in->arena, .replay = &chat->replay,
		.final_mark = chat->mark, .images = chat->images,
		.fills_content = chat->fills || chat_template_prints_none(a->chat)};
	if (st == OK)
		st = messages_read(&at, &o, &in->messages, fail);
	if (st == OK)
		st = tools_read(body, a, chat->arena, &chat->tools, fail);
	if (st == OK)
		st = read_plain(&at, body, chat, &o, fail);
	struct json_node own = json_read_get(body, "continue_final_message");
	if (st == OK && chat->tools.is_forced && chat->mark.p)
		st = json_read_fail(own.v ? &own : &at, fail,
				    "that goes on does not go with a `tool_choice` that "
				    "demands a call");
	if (st == OK)
		st = chat_vars_read(body, a, in->arena, chat->tools.is_forced,
				    &in->globals, fail);
	at = json_read_get(body, "tools");
	if (st == OK && chat->tools.are_shown) {
		json_t *filled = chat->fills ? fill_tools(at.v) : NULL;
		in->tools = value_of_json(in->arena, filled ?: at.v);
		json_decref(filled);
	}
	return st;
}

/* The API allows messages without text and tools without a description. Many templates fail
 * on them, so a failed rendering is tried again with "" in their place. If it fails too,
 * the first failure is reported. */
static enum status try_render(const struct json_node *body, struct chat *chat,
			      struct callstore *store, struct marked *out,
			      struct fail *fail)
{
	const struct chat_template *t = chat->api->chat;
	enum status st = read_chat(body, chat, store, fail);
	if (st == OK)
		st = chat_template_render(t, &chat->in, out, fail);
	if (st != E_TEMPLATE || chat->fills)
		return st;
	chat->fills = true;
	marked_deinit(out);
	*out = (struct marked){0};
	if (read_chat(body, chat, store, NULL) == OK &&
	    chat_template_render(t, &chat->in, out, NULL) == OK)
		st = OK;
	return st;
}

/* Appends the prompt to *out. Sets how the answer behind it is split. */
static enum status render(const struct json_node *body, struct chat *chat,
			  struct marked *out, struct fail *fail)
{
	const struct api *a = chat->api;
	struct json_node messages = json_read_get(body, "messages");
	if (!a->chat) {
		fail_set(fail, E_INVAL,
			 "this model has no chat template: use /v1/completions, or give one "
			 "in a file chat_template.jinja of the model's folder, or by the "
			 "setting `chat_template`");
		json_read_locate(&messages, fail);
		return E_INVAL;
	}
	enum status st = try_render(body, chat, a->calls, out, fail);
	if (st == OK && !replay_apply(&chat->replay, out)) {
		marked_deinit(out);
		*out = (struct marked){0};
		st = try_render(body, chat, NULL, out, fail);
	}
	if (st == OK && chat->mark.p)
		st = cut_at(body, out, chat->mark, fail);
	if (st == OK) {
		images_spell(chat->images, out);
		chat->parse->tools = chat->tools.parse;
		set_outparse(a, out, chat->parse);
		if (chat->tools.is_forced)
			tools_add_opening(&chat->tools, a->tool_format, chat->arena,
					  chat->parse, out);
	}
	if ((st == E_TEMPLATE || st == E_LIMIT) && fail && !fail->param[0])
		json_read_locate(&messages, fail);
	return st;
}

enum status chat_render(const struct api *a, const struct json_node *body,
			struct arena *scratch, struct marked *out, struct images *images,
			struct fail *fail)
{
	struct outparse_opts parse = {0};
	struct chat chat = {.api = a, .parse = &parse, .arena = scratch,
			    .in.arena = scratch, .images = images};
	return render(body, &chat, out, fail);
}

enum status chat_count(const struct api *a, const struct dialect_body *chat,
		       const struct text_input *in, size_t *out, struct fail *fail)
{
	struct json_node body = dialect_body_root(chat);
	struct marked prompt = {0};
	struct ids ids = {0};
	struct images images;
	const struct images_use use = {.is_gone = in->is_gone};
	enum status st = chat_render(a, &body, in->scratch, &prompt, &images, fail);
	if (st == OK)
		st = tokenizer_encode_marked(a->model->tokenizer, &prompt, &ids, fail);
	if (st == OK)
		prompt_begin_chat(a->model, &ids);
	if (st == OK)
		st = images_expand(&images, &use, &ids, fail);
	*out = ids.n;
	ids_deinit(&ids);
	marked_deinit(&prompt);
	return st;
}

/* An answer that must be a tool call has no content, so a response format has nothing to
 * hold. The format applies in the turn in which the model answers, as with OpenAI. */
static enum status set_grammar(const struct json_node *body, struct request *r,
			       const struct chat *chat, struct fail *fail)
{
	const struct api *a = chat->api;
	const struct tools *t = &chat->tools;
	struct json_node tools = json_read_get(body, "tools");
	r->grammar_waits = r->grammar && a->tool_format && a->tool_format->end_reasoning;
	if (t->is_forced) {
		grammar_unref(r->grammar);
		r->grammar = NULL;
		r->grammar_waits = false;
		return toolgrammar_forced(a, &tools, t, r->parse.tools.begun, &r->arena,
					  &r->grammar, &r->grammar_begun, fail);
	}
	if (!t->are_shown || !a->tool_format)
		return OK;
	return toolgrammar_call(a, &tools, t, r->grammar != NULL, &r->call_grammar, fail);
}

/* Sets the request's fields other than its prompt. */
static enum status set_request(const struct json_node *body, struct api_call *c,
			       const struct chat *chat, const struct marked *prompt,
			       struct fail *fail)
{
	struct request *r = c->request;
	enum status st = set_grammar(body, r, chat, fail);
	if (st != OK)
		return st;
	r->is_text = !chat->mark.p && !chat->tools.is_forced;
	if (chat->tools.has_special_tags || str_is(r->parse.think_close, CHANNEL_END))
		r->skip_special = false;
	if (!chat->tools.is_forced)
		set_reasoning(body, r, c->api->model->tokenizer, prompt);
	prompt_alloc(r, 1);
	st = prompt_encode(c, 0, prompt, false, fail);
	if (st == OK)
		st = prompt_see(c, chat->images, fail);
	struct json_node messages = json_read_get(body, "messages");
	if (st == E_LIMIT && fail && !fail->param[0])
		json_read_locate(&messages, fail);
	return st == OK ? set_budget(body, c, fail) : st;
}

enum status chat_read(const struct json_node *body, struct api_call *c,
		      struct fail *fail)
{
	enum status st = read_logprobs(body, &c->request->sampling, fail);
	if (st != OK)
		return st;
	/* Holds the template's values: many times the body's size, and freed after the
	 * rendering. */
	struct arena scratch;
	struct marked prompt = {0};
	arena_init(&scratch);
	struct images images;
	struct chat chat = {.api = c->api, .parse = &c->request->parse, .images = &images,
			    .arena = &c->request->arena, .in.arena = &scratch};
	st = render(body, &chat, &prompt, fail);
	arena_deinit(&scratch);
	if (st == OK)
		st = set_request(body, c, &chat, &prompt, fail);
	marked_deinit(&prompt);
	return st;
}
