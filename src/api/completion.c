/* SPDX-License-Identifier: Apache-2.0
 *
 * A raw prompt has no template but the caller's: control tokens spelled in it are control
 * tokens, and nothing of the answer is split off as reasoning.
 */
#include "api/completion.h"

#include "api/api_dialect.h"
#include "api/params.h"
#include "chat/prompt.h"
#include "base/alloc.h"

/* Above any context. The body's size bounds a prompt as well. */
#define MAX_PROMPT_TOKENS 16777216

static enum status read_text(const struct json_node *at, struct api_call *c,
			     int i, struct fail *fail)
{
	struct marked text = {0};
	marked_add(&text, json_read_view(at->v), TRUST_TEMPLATE);
	enum status st = prompt_encode(&c->api->chat, c->request, i, &text, true,
				       fail);
	marked_deinit(&text);
	return st;
}

/* Reads one prompt: a string or a list of token ids. */
static enum status read_prompt(const struct json_node *at, struct api_call *c,
			       int i, struct fail *fail)
{
	struct request *r = c->request;
	enum status st;
	if (json_is_string(at->v)) {
		st = read_text(at, c, i, fail);
	} else if (json_is_array(at->v)) {
		struct ids *ids = &r->prompts[i];
		st = params_read_ids(at, MAX_PROMPT_TOKENS, c->api->n_vocab,
				     &r->arena, &ids->p, &ids->n, fail);
		ids->cap = ids->n;
	} else {
		return json_read_fail(at, fail,
				      "must be a string or a list of token ids");
	}
	if (st == OK && r->prompts[i].n == 0)
		return json_read_fail(at, fail, "must not be empty");
	return st;
}

static enum status read_prompts(const struct json_node *body,
				struct api_call *c, struct fail *fail)
{
	struct request *r = c->request;
	struct json_node at = json_read_get(body, "prompt");
	enum status st = json_read_need(&at, fail);
	if (st != OK)
		return st;
	/* A list of numbers is one prompt, a list of anything else is many. */
	bool is_many = json_is_array(at.v) && json_array_size(at.v) > 0 &&
		       !json_is_number(json_array_get(at.v, 0));
	if (!is_many) {
		prompt_alloc(r, 1);
		return read_prompt(&at, c, 0, fail);
	}
	size_t n;
	st = json_read_list(&at, (size_t)(API_MAX_CHOICES / r->n), &n, fail);
	if (st != OK)
		return st;
	prompt_alloc(r, (int)n);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(&at, i);
		st = read_prompt(&item, c, (int)i, fail);
	}
	return st;
}

/* Here `logprobs` is a count; chat has a switch and a count. */
static enum status read_logprobs(const struct json_node *body,
				 struct sampler_params *s, struct fail *fail)
{
	struct json_node at = json_read_get(body, "logprobs");
	int64_t n = -1;
	enum status st = json_read_int(&at, 0, SAMPLER_TOP_MAX, &n, fail);
	s->n_top_logprobs = (int)n;
	return st;
}

/* Reads `echo`: the prompt's text goes before the answer, with log-probabilities if asked
 * for. max_tokens 0 leaves nothing to send, unless the prompt is echoed or scored. */
static enum status read_echo(const struct json_node *body, struct api_call *c,
			     struct fail *fail)
{
	struct request *r = c->request;
	struct json_node at = json_read_get(body, "echo");
	bool echo = false;
	enum status st = json_read_bool(&at, &echo, fail);
	if (st == OK && r->no_output && !echo && r->prompt_logprobs < 0 &&
	    !c->dialect->may_write_nothing) {
		at = params_max_tokens(body);
		return json_read_fail(&at, fail, "must be at least 1, unless the prompt is "
						 "echoed");
	}
	if (st != OK || !echo)
		return st;
	c->echoes_logprobs = r->sampling.n_top_logprobs >= 0;
	if (c->echoes_logprobs)
		r->prompt_logprobs =
			MAX(r->prompt_logprobs, r->sampling.n_top_logprobs);
	struct str *texts =
		arena_alloc(&c->arena, (size_t)r->n_prompts * sizeof *texts);
	struct buf text = {0};
	for (int i = 0; i < r->n_prompts; i++) {
		buf_clear(&text);
		tokenizer_decode(c->api->chat.model->tokenizer, r->prompts[i].p,
				 r->prompts[i].n, false, &text);
		texts[i] = arena_str(&c->arena, buf_str(&text));
	}
	buf_deinit(&text);
	c->echo = texts;
	return OK;
}

enum status completion_read(const struct json_node *body, struct api_call *c,
			    struct fail *fail)
{
	enum status st = read_prompts(body, c, fail);
	if (st == OK)
		st = read_logprobs(body, &c->request->sampling, fail);
	if (st == OK)
		st = read_echo(body, c, fail);
	return st;
}
