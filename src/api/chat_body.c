/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a chat request: src/chat makes the prompt of its body, and the fields here say how the
 * model answers.
 */
#include "api/chat_body.h"

#include "base/alloc.h"
#include "chat/chat.h"
#include "chat/prompt.h"
#include "chat/toolgrammar.h"

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

/* --- the thinking budget -------------------------------------------------- */

/* *out: reasoning tokens at most. -1, or no such field: no bound. */
static enum status read_budget(const struct json_node *body, int64_t *out,
			       struct fail *fail)
{
	struct json_node kwargs = json_read_get(body, "chat_template_kwargs");
	struct json_node at = json_read_get(&kwargs, "thinking_budget");
	*out = -1;
	enum status st = json_read_int(&at, -1, INT32_MAX, out, fail);
	static const char *const names[] = {"thinking_budget", "max_reasoning_tokens",
					    "thinking_token_budget",
					    "thinking_budget_tokens"};
	for (size_t i = 0; i < ARRAY_LEN(names) && st == OK; i++) {
		at = json_read_get(body, names[i]);
		st = json_read_int(&at, -1, INT32_MAX, out, fail);
	}
	return st;
}

/* Takes from *budget the reasoning of the assistant since the last message of the user. A turn
 * with tools is many requests, and its budget is one. */
static enum status take_spent(const struct json_node *body, const struct tokenizer *t,
			      int64_t *budget, struct fail *fail)
{
	struct json_node messages = json_read_get(body, "messages");
	struct ids ids = {0};
	enum status st = OK;
	for (size_t i = json_array_size(messages.v); i-- > 0 && st == OK;) {
		struct json_node message = json_read_item(&messages, i);
		struct json_node role = json_read_get(&message, "role");
		if (str_is(json_read_view(role.v), "user"))
			break;
		struct json_node older = json_read_get(&message, "reasoning");
		struct json_node at = json_read_get(&message, "reasoning_content");
		struct str thought = json_read_view(at.v ? at.v : older.v);
		if (thought.n)
			st = tokenizer_encode(t, thought, TRUST_MODEL, &ids, fail);
	}
	*budget = MAX(0, *budget - (int64_t)ids.n);
	ids_deinit(&ids);
	return st;
}

/* What closes the reasoning, as the model would have written it. */
static void add_close(const struct outparse_opts *o, struct marked *out)
{
	struct buf text = {0};
	if (o->tools.format && o->tools.format->end_reasoning)
		buf_add_z(&text, o->tools.format->end_reasoning);
	else if (str_is(o->think_close, CHAT_CHANNEL_END))
		buf_add_z(&text, CHAT_CHANNEL_END);
	else
		buf_addf(&text, "\n%.*s\n\n", (int)o->think_close.n, o->think_close.p);
	marked_add(out, buf_str(&text), TRUST_TEMPLATE);
	buf_deinit(&text);
}

/* Finds the token ids that are forced where the budget ends: the client's words for the model,
 * unless it may not think at all, and the close. */
static enum status set_budget(const struct json_node *body, struct api_call *c,
			      struct fail *fail)
{
	struct request *r = c->request;
	const struct outparse_opts *o = &r->parse;
	const struct tokenizer *t = c->api->chat.model->tokenizer;
	struct json_node at = json_read_get(body, "reasoning_budget_message");
	struct str words = {0};
	int64_t budget;
	enum status st = read_budget(body, &budget, fail);
	if (st == OK)
		st = json_read_str(&at, &words, fail);
	bool has_channels = o->tools.format && o->tools.format->end_reasoning;
	if (st != OK || budget < 0 || !(o->split_reasoning || has_channels))
		return st;
	struct marked text = {0};
	struct ids ids = {0};
	st = take_spent(body, t, &budget, fail);
	if (st == OK) {
		if (budget > 0 && words.n)
			marked_add(&text, words, TRUST_USER);
		add_close(o, &text);
		st = tokenizer_encode_marked(t, &text, &ids, fail);
	}
	if (st == OK) {
		int32_t *copy = arena_alloc(&r->arena, ids.n * sizeof *copy);
		memcpy(copy, ids.p, ids.n * sizeof *copy);
		r->max_reasoning = (int32_t)budget;
		r->close_ids = copy;
		r->n_close_ids = (int)ids.n;
	}
	ids_deinit(&ids);
	marked_deinit(&text);
	return st;
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
	/* The parser would not see that the model wrote a token without text. */
	bool is_seen = !r->skip_special || !tokenizer_is_special(t, id);
	if (r->grammar && r->parse.split_reasoning && !r->parse.starts_in_reasoning &&
	    !is_off && id > 0 && is_seen)
		r->reasoning_id = id;
}

enum status chat_body_render(const struct api *a, const struct json_node *body,
			     struct arena *scratch, struct marked *out,
			     struct images *images, const _Atomic bool *is_gone, struct fail *fail)
{
	struct outparse_opts parse = {0};
	struct chat chat = {.m = &a->chat, .parse = &parse, .arena = scratch,
			    .in.arena = scratch, .images = images, .is_gone = is_gone};
	return chat_render(body, &chat, out, fail);
}

enum status chat_body_count(const struct api *a, const struct dialect_body *chat,
			    const struct text_input *in, size_t *out, struct fail *fail)
{
	struct json_node body = dialect_body_root(chat);
	struct marked prompt = {0};
	struct ids ids = {0};
	struct images images = {0};
	const struct images_use use = {.is_gone = in->is_gone};
	enum status st = chat_body_render(a, &body, in->scratch, &prompt, &images, in->is_gone,
					  fail);
	if (st == OK)
		st = tokenizer_encode_marked(a->chat.model->tokenizer, &prompt, &ids, fail);
	if (st == OK)
		prompt_begin_chat(a->chat.model, &ids);
	if (st == OK)
		st = images_expand(&images, &use, &ids, fail);
	*out = ids.n;
	images_close(&images);
	ids_deinit(&ids);
	marked_deinit(&prompt);
	return st;
}

/* An answer that must be a tool call has no content, so a response format has nothing to
 * hold. The format applies in the turn in which the model answers, as with OpenAI. */
static enum status set_grammar(const struct json_node *body, struct request *r,
			       const struct chat *chat, struct fail *fail)
{
	const struct chat_model *m = chat->m;
	const struct tools *t = &chat->tools;
	struct json_node tools = json_read_get(body, "tools");
	r->grammar_waits = r->grammar && m->tool_format && m->tool_format->end_reasoning;
	if (t->is_forced) {
		grammar_unref(r->grammar);
		r->grammar = NULL;
		r->grammar_waits = false;
		return toolgrammar_forced(m, &tools, t, r->parse.tools.begun, &r->arena,
					  &r->grammar, &r->grammar_begun, fail);
	}
	if (!t->are_shown || !m->tool_format)
		return OK;
	return toolgrammar_call(m, &tools, t, r->grammar != NULL, &r->call_grammar, fail);
}

/* True if a special token ends reasoning: the parser must see it. */
static bool marks_thinking(const struct tokenizer *t, const struct request *r)
{
	int32_t id = tokenizer_find(t, r->parse.think_close);
	bool is_special = id >= 0 && tokenizer_is_special(t, id);
	return r->parse.split_reasoning &&
	       (is_special || str_is(r->parse.think_close, CHAT_CHANNEL_END));
}

/* Computes the images of the prompts. Those of a form with pieces differ by their piece alone. */
static enum status see_all(struct api_call *c, struct images *images,
			   const struct images_use *use, struct fail *fail)
{
	struct request *r = c->request;
	enum status st = c->n_pieces ? OK : prompt_see(r, 0, images, use, fail);
	if (!c->n_pieces)
		c->audio_us = images_audio_us(images);
	prompt_repeat(r);
	for (int i = 0; i < c->n_pieces && st == OK; i++) {
		struct images own;
		images_repeat(images, &own);
		own.form.from = i ? c->piece_ends[i - 1] : 0;
		own.form.n = c->piece_ends[i] - own.form.from;
		st = prompt_see(r, i, &own, use, fail);
		c->audio_us += images_audio_us(&own);
	}
	return st;
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
	if (chat->tools.has_special_tags || marks_thinking(c->api->chat.model->tokenizer, r))
		r->skip_special = false;
	if (!chat->tools.is_forced)
		set_reasoning(body, r, c->api->chat.model->tokenizer, prompt);
	const struct images_use use = {.owner = c->api->shares_prefixes ? 0 : c->owner,
				       .request = r, .is_gone = c->is_gone,
				       .max_tokens = c->api->n_ctx};
	prompt_alloc(r, MAX(1, c->n_pieces));
	st = prompt_encode(&c->api->chat, r, 0, prompt, false, fail);
	if (st == OK)
		st = see_all(c, chat->images, &use, fail);
	struct json_node messages = json_read_get(body, "messages");
	if (st == E_LIMIT && fail && !fail->param[0])
		json_read_locate(&messages, fail);
	return st == OK ? set_budget(body, c, fail) : st;
}

enum status chat_body_read(const struct json_node *body, struct api_call *c,
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
	struct images images = {0};
	struct chat chat = {.m = &c->api->chat, .parse = &c->request->parse, .images = &images,
			    .form = c->form, .is_gone = c->is_gone,
			    .arena = &c->request->arena,
			    .in.arena = &scratch};
	st = chat_render(body, &chat, &prompt, fail);
	arena_deinit(&scratch);
	if (st == OK && c->opening.n)
		marked_add(&prompt, c->opening, TRUST_TEMPLATE);
	if (st == OK)
		st = set_request(body, c, &chat, &prompt, fail);
	images_close(&images);
	marked_deinit(&prompt);
	return st;
}
