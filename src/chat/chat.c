/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's template turns messages, tools and variables into marked text. A client's text
 * never becomes a control token: messages.c says how far each text is trusted.
 */
#include "chat/chat.h"

#include "base/random.h"
#include "chat/chat_plain.h"
#include "chat/chat_vars.h"
#include "chat/messages.h"
#include "chat/value.h"
#include "chat/videos.h"
#include "json/json_digits.h"

/* Gemma 4 writes its reasoning in a channel of this name. The channel's tags are special
 * tokens. */
#define CHANNEL "<|channel>"

/* The tags around reasoning, and what a template that knows them has in it. The first row that
 * fits holds. HY 3's template puts its tags together. */
static const struct {
	const char *mark, *open, *close;
} thinking[] = {
	{CHANNEL, CHANNEL "thought", CHAT_CHANNEL_END},
	{"<think{}>", "<think:opensource>", "</think:opensource>"},
	{"[THINK]", "[THINK]", "[/THINK]"}, /* Mistral's */
	{"", "<think>", "</think>"},
};

/* Answers are split into reasoning and content only where the model knows the tags. Another
 * model writes such words as text. */
static void set_outparse(const struct chat_model *m, const struct marked *prompt,
			 struct outparse_opts *o)
{
	struct str template = str_of(m->template_text);
	size_t i = 0;
	while (str_find(template, str_of(thinking[i].mark), 0) < 0)
		i++;
	o->think_open = str_of(thinking[i].open);
	o->think_close = str_of(thinking[i].close);
	if (o->tools.format && o->tools.format->end_reasoning)
		return;
	o->split_reasoning =
		*thinking[i].mark || tokenizer_find(m->model->tokenizer, o->think_open) >= 0 ||
		str_find(template, o->think_close, 0) >= 0;
	o->starts_in_reasoning =
		o->split_reasoning &&
		chat_template_opens(prompt, o->think_open, o->think_close);
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
	if (at < 0 || m->n_marks == 0)
		return json_read_fail(own.v ? &own : &messages, fail,
				      "cannot go on: this model's template does not show "
				      "the last message's text");
	m->text.n = (size_t)at;
	while (m->n_marks > 1 && m->marks[m->n_marks - 2].end >= m->text.n)
		m->n_marks--;
	m->marks[m->n_marks - 1].end = m->text.n;
	return OK;
}

/* --- the whole ------------------------------------------------------------ */

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

static void begin_images(struct chat *chat)
{
	images_init(chat->images, chat->m, chat->arena);
	chat->images->form = chat->form;
}

/* Reads the messages anew where the template shows no tools or no calls: as text. */
static enum status read_plain(const struct json_node *messages, const struct json_node *body,
			      struct chat *chat, const struct messages_opts *o,
			      struct fail *fail)
{
	struct chat_plain plain = chat_plain_of(chat->m);
	struct json_node tools = json_read_get(body, "tools");
	if (!plain.calls && !(plain.tools && chat->tools.are_shown))
		return OK;
	struct json_node at = *messages;
	json_t *made = chat_plain_messages(chat->m, messages->v,
					   chat->tools.are_shown ? tools.v : NULL);
	at.v = made;
	begin_images(chat);
	enum status st = videos_read_kwargs(chat->images, body, fail);
	if (st == OK)
		st = messages_read(&at, o, &chat->in.messages, fail);
	json_decref(made);
	return st;
}

/* store: knows the model's own words of earlier calls; NULL: calls are shown as the client
 * sent them. */
static enum status read_chat(const struct json_node *body, struct chat *chat,
			     struct callstore *store, struct fail *fail)
{
	const struct chat_model *m = chat->m;
	struct chat_template_input *in = &chat->in;
	struct json_node at = json_read_get(body, "messages");
	enum status st = read_continue(body, in->arena, &chat->mark, &in->is_whole, fail);
	begin_images(chat);
	chat->replay = (struct chat_replay){.arena = in->arena, .store = store,
				       .format = m->tool_format,
				       .takes_objects =
					       chat_template_ways(m->template)->takes_objects};
	const struct messages_opts o = {
		.chat = m->template, .arena = in->arena, .replay = &chat->replay,
		.final_mark = chat->mark, .images = chat->images,
		.fills_content = chat->fills || chat_template_ways(m->template)->prints_none};
	if (st == OK)
		st = videos_read_kwargs(chat->images, body, fail);
	if (st == OK)
		st = messages_read(&at, &o, &in->messages, fail);
	if (st == OK)
		st = tools_read(body, m, chat->arena, &chat->tools, fail);
	if (st == OK)
		st = read_plain(&at, body, chat, &o, fail);
	struct json_node own = json_read_get(body, "continue_final_message");
	if (st == OK && chat->tools.is_forced && chat->mark.p)
		st = json_read_fail(own.v ? &own : &at, fail,
				    "that goes on does not go with a `tool_choice` that "
				    "demands a call");
	if (st == OK)
		st = chat_vars_read(body, m, in->arena, chat->tools.is_forced,
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
	const struct chat_template *t = chat->m->template;
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

enum status chat_render(const struct json_node *body, struct chat *chat,
			struct marked *out, struct fail *fail)
{
	const struct chat_model *m = chat->m;
	struct json_node messages = json_read_get(body, "messages");
	if (!m->template) {
		fail_set(fail, E_INVAL,
			 "this model has no chat template: use /v1/completions, or give one "
			 "in a file chat_template.jinja of the model's folder, or by the "
			 "setting `chat_template`");
		json_read_locate(&messages, fail);
		return E_INVAL;
	}
	enum status st = try_render(body, chat, m->calls, out, fail);
	if (st == OK && !replay_apply(&chat->replay, out)) {
		marked_deinit(out);
		*out = (struct marked){0};
		st = try_render(body, chat, NULL, out, fail);
	}
	if (st == OK && chat->mark.p)
		st = cut_at(body, out, chat->mark, fail);
	if (st == OK)
		st = images_open(chat->images, chat->is_gone, fail);
	if (st == OK) {
		images_spell(chat->images, out);
		chat->parse->tools = chat->tools.parse;
		set_outparse(m, out, chat->parse);
		if (chat->tools.is_forced)
			tools_add_opening(&chat->tools, m->tool_format, chat->arena,
					  chat->parse, out);
	}
	if ((st == E_TEMPLATE || st == E_LIMIT) && fail && !fail->param[0])
		json_read_locate(&messages, fail);
	return st;
}
