/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /completion in llama.cpp's own shape, and what /infill shares with it: options and
 * answers. A prompt is a text, a list of token ids, or a list of both.
 *
 * A client may pick members of an answer with response_fields ("timings/prompt_n" picks a member
 * of a member). n_predict: 0 reads the prompt into the cache and writes nothing;
 * t_max_predict_ms bounds the time of writing. fields.def says which other fields change
 * nothing. A choice's first list has the log-probabilities, its second the ids of tokens.
 */
#include "api/native.h"

#include <stdlib.h>

#include "api/fields.h"
#include "api/format.h"
#include "base/alloc.h"
#include "json/json_digits.h"
#include "json/json_fast.h"

#define MAX_FIELDS 100
#define MAX_PIECES 1000000
#define MAX_BIASES 4096 /* as in params.c, where logit_bias is an object */

void native_begin(struct api_call *c)
{
	c->state = xcalloc(1, sizeof(struct native));
	c->cuts_max_tokens = true;
}

/* --- in ------------------------------------------------------------------ */

/* llama.cpp also takes a list of pairs: a token's id, and a bias or false, which forbids it. */
static enum status read_biases(const struct json_node *body, struct dialect_body *to,
			       struct fail *fail)
{
	struct json_node list = json_read_get(body, "logit_bias");
	size_t n;
	if (!json_is_array(list.v))
		return OK;
	enum status st = json_read_list(&list, MAX_BIASES, &n, fail);
	json_t *biases = json_object();
	for (size_t i = 0; st == OK && i < n; i++) {
		struct json_node pair = json_read_item(&list, i);
		const json_t *id = json_array_get(pair.v, 0), *v = json_array_get(pair.v, 1);
		char key[32];
		if (!json_is_integer(id) || !(json_is_number(v) || json_is_false(v))) {
			st = json_read_fail(&pair, fail, "must be a token's id and a number or "
							 "false");
			break;
		}
		snprintf(key, sizeof key, "%lld", (long long)json_integer_value(id));
		dialect_set(biases, key, json_is_false(v) ? json_integer(-100)
							  : json_incref((json_t *)v));
	}
	dialect_set(to->chat, "logit_bias", biases);
	json_paths_add(&to->paths, biases, &list);
	return st;
}

enum status native_read_options(const struct json_node *body, struct api_call *c,
				int64_t *n_predict, struct dialect_body *to, struct fail *fail)
{
	struct native *x = c->state;
	struct json_node at = json_read_get(body, "n_predict");
	struct json_node time = json_read_get(body, "t_max_predict_ms");
	struct json_node fields = json_read_get(body, "response_fields");
	struct json_node tokens = json_read_get(body, "return_tokens");
	struct json_node probs = json_read_get(body, "n_probs");
	int64_t n = -1, ms = 0, n_probs = 0;
	size_t n_fields;
	enum status st = json_read_int(&at, -1, INT32_MAX, &n, fail);
	if (st == OK)
		st = json_read_int(&time, -1, INT32_MAX, &ms, fail);
	if (st == OK)
		st = json_read_bool(&tokens, &x->wants_tokens, fail);
	if (st == OK)
		st = json_read_int(&probs, 0, SAMPLER_TOP_MAX, &n_probs, fail);
	if (st == OK)
		st = json_read_list(&fields, MAX_FIELDS, &n_fields, fail);
	for (size_t i = 0; st == OK && i < n_fields; i++) {
		struct json_node item = json_read_item(&fields, i);
		struct str s;
		st = json_read_need_str(&item, &s, fail);
	}
	if (st != OK)
		return st;
	if (n_fields > 0)
		x->fields = json_incref((json_t *)fields.v);
	fields_copy(body, DIALECT_INFILL, to);
	if (n >= 0)
		dialect_copy(to, to->chat, "max_tokens", body, "n_predict");
	if (n_probs > 0)
		dialect_copy(to, to->chat, "logprobs", body, "n_probs");
	dialect_copy(to, to->chat, "repetition_penalty", body, "repeat_penalty");
	st = read_biases(body, to, fail);
	c->request->max_decode_us = MAX(ms, 0) * 1000;
	*n_predict = n;
	return st;
}

/* Adds one piece of a prompt: a token's id, or a text. */
static enum status add_piece(const struct json_node *at, const struct api_call *c, struct ids *out,
			     struct fail *fail)
{
	int64_t id;
	if (json_is_string(at->v))
		return tokenizer_encode(c->api->chat.model->tokenizer, json_read_view(at->v),
					TRUST_TEMPLATE, out, fail);
	enum status st = json_read_need(at, fail);
	if (st == OK)
		st = json_read_int(at, 0, c->api->n_vocab - 1, &id, fail);
	if (st == OK)
		ids_add(out, (int32_t)id);
	return st;
}

/* A list of one text is that text. A list that begins with a text begins as a text does, with the
 * model's BOS. Several prompts are several requests. */
static enum status read_pieces(const struct json_node *prompt, const struct api_call *c,
			       struct dialect_body *to, struct fail *fail)
{
	size_t n, n_texts = 0;
	json_t *first = json_array_get(prompt->v, 0);
	enum status st = json_read_list(prompt, MAX_PIECES, &n, fail);
	for (size_t i = 0; st == OK && i < n; i++)
		n_texts += !json_is_integer(json_array_get(prompt->v, i));
	if (st == OK && n > 1 && n_texts == n)
		return json_read_fail(prompt, fail, "has %zu prompts: send a request for each, or "
						    "ask /v1/completions", n);
	bool is_text = n == 1 && json_is_string(first), is_mixed = n_texts && !is_text;
	struct ids ids = {0};
	if (st == OK && is_mixed && json_is_string(first))
		tokenizer_add_prefix(c->api->chat.model->tokenizer, &ids);
	for (size_t i = 0; st == OK && is_mixed && i < n; i++) {
		struct json_node item = json_read_item(prompt, i);
		st = add_piece(&item, c, &ids, fail);
	}
	if (st == OK && is_mixed) {
		json_t *list = json_array();
		for (size_t i = 0; i < ids.n; i++)
			json_array_append_new(list, json_integer(ids.p[i]));
		dialect_set(to->chat, "prompt", list);
	} else if (st == OK) {
		json_object_set(to->chat, "prompt", is_text ? first : (json_t *)prompt->v);
	}
	json_paths_add_field(&to->paths, to->chat, "prompt", prompt);
	ids_deinit(&ids);
	return st;
}

/* Names what a completion would have another text by, and is not served. */
static void tell_ignored(const struct json_node *body, struct dialect_body *to)
{
	static const char *const changes[] = {"typical_p", "tfs_z", "top_n_sigma", "mirostat",
					      "dynatemp_range", "n_indent"};
	static const char *const others[] = {"input_prefix", "input_suffix", "input_extra"};
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		struct json_node at = json_read_get(body, changes[i]);
		if (at.v && !fields_is_neutral(changes[i], at.v))
			fields_ignore(&to->ignored, &at, STR(""));
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		struct json_node at = json_read_get(body, others[i]);
		if (at.v)
			fields_ignore(&to->ignored, &at, STR(""));
	}
}

static enum status to_completion(const struct json_node *body, struct api_call *c,
				 struct dialect_body *to, struct fail *fail)
{
	struct json_node prompt = json_read_get(body, "prompt");
	int64_t n_predict;
	native_begin(c);
	tell_ignored(body, to);
	enum status st = json_read_need(&prompt, fail);
	if (st == OK)
		st = native_read_options(body, c, &n_predict, to, fail);
	if (st != OK)
		return st;
	if (json_is_array(prompt.v))
		return read_pieces(&prompt, c, to, fail);
	dialect_copy(to, to->chat, "prompt", body, "prompt");
	return OK;
}

/* --- out ----------------------------------------------------------------- */

static void add_prob(const struct tokenizer *t, int32_t id, float logprob, struct buf *out)
{
	buf_addf(out, "{\"id\":%d,", id);
	format_add_token(t, id, logprob, out);
}

void native_on_delta(struct api_call *c, const struct event *e, struct buf *out)
{
	const struct tokenizer *t = c->api->chat.model->tokenizer;
	struct buf *probs = &c->choices[0].logprobs[0], *ids = &c->choices[0].logprobs[1];
	for (int i = 0; i < e->n_tokens; i++) {
		const struct event_token *token = &e->tokens[i];
		format_add_comma(ids);
		buf_addf(ids, "%d", token->id);
		if (c->request->sampling.n_top_logprobs < 0)
			continue;
		format_add_comma(probs);
		add_prob(t, token->id, token->logprob, probs);
		buf_add_z(probs, ",\"top_logprobs\":[");
		for (int k = 0; k < token->n_top; k++) {
			buf_add_z(probs, k ? "," : "");
			add_prob(t, token->top[k].id, token->top[k].logprob, probs);
			buf_add_c(probs, '}');
		}
		buf_add_z(probs, "]}");
	}
}

/* Writes the members of what was gathered, each behind a comma. */
static void add_gathered(struct api_call *c, struct buf *out)
{
	const struct native *x = c->state;
	struct buf *probs = &c->choices[0].logprobs[0], *ids = &c->choices[0].logprobs[1];
	buf_add_z(out, ",\"tokens\":[");
	if (c->is_stream || x->wants_tokens)
		buf_add_str(out, buf_str(ids));
	buf_add_c(out, ']');
	if (probs->n) {
		buf_add_z(out, ",\"completion_probabilities\":[");
		buf_add_str(out, buf_str(probs));
		buf_add_c(out, ']');
	}
	buf_clear(probs);
	buf_clear(ids);
}

static const char *stop_type(const struct api_call *c)
{
	if (c->last_finish == FINISH_LENGTH)
		return "limit";
	return c->stop_string ? "word" : "eos";
}

static bool has_line(const struct api_call *c)
{
	for (int i = 0; i < c->parts.n; i++)
		if (str_find(buf_str(&c->parts.p[i].text), STR("\n"), 0) >= 0)
			return true;
	return false;
}

static void add_settings(const struct api_call *c, struct buf *out)
{
	const struct sampler_params *s = &c->request->sampling;
	int32_t n_max = c->request->max_tokens; /* 0: no limit */
	int32_t n_predict = c->request->no_output ? 0 : n_max ? n_max : -1;
	buf_addf(out, ",\"generation_settings\":{\"n_ctx\":%d,\"n_predict\":%d,\"seed\":%llu,"
		 "\"stream\":%s,\"temperature\":", c->api->n_ctx, n_predict,
		 (unsigned long long)s->seed, c->is_stream ? "true" : "false");
	buf_add_json_num(out, (double)s->temperature);
	buf_addf(out, ",\"top_k\":%d,\"top_p\":", s->top_k);
	buf_add_json_num(out, (double)s->top_p);
	buf_add_z(out, ",\"min_p\":");
	buf_add_json_num(out, (double)s->min_p);
	buf_add_c(out, '}');
}

/* Writes all members but the content. */
static void add_end(const struct api_call *c, struct buf *out)
{
	const struct request_stats *s = &c->stats;
	const struct native *x = c->state;
	buf_addf(out, "\"stop\":true,\"index\":0,\"id_slot\":0,\"stop_type\":\"%s\","
		 "\"stopping_word\":", stop_type(c));
	buf_add_json(out, str_of(c->stop_string ? c->stop_string : ""));
	buf_add_z(out, ",\"model\":");
	buf_add_json(out, str_of(c->model_name));
	buf_addf(out, ",\"has_new_line\":%s", has_line(c) ? "true" : "false");
	buf_addf(out, ",\"truncated\":%s,\"tokens_predicted\":%d,\"tokens_evaluated\":%d,"
		 "\"tokens_cached\":%d,", x->is_cut ? "true" : "false", s->n_output,
		 s->n_prompt, s->n_cached);
	format_add_timings(c, out);
	add_settings(c, out);
	buf_add_c(out, '}');
}

static void add_picked(const json_t *all, const json_t *fields, struct buf *out)
{
	json_t *picked = json_object();
	for (size_t i = 0; i < json_array_size(fields); i++) {
		const char *path = json_string_value(json_array_get(fields, i));
		const json_t *at = all;
		for (const char *p = path; at && p;) {
			size_t n = strcspn(p, "/");
			char *key = xstrndup(p, n);
			at = json_object_get(at, key);
			free(key);
			p = p[n] ? p + n + 1 : NULL;
		}
		if (at)
			json_object_set_nocheck(picked, path, (json_t *)at);
	}
	json_digits_write(picked, false, out);
	json_decref(picked);
}

static void add_answer(struct api_call *c, struct buf *out)
{
	const struct native *x = c->state;
	struct buf b = {0};
	buf_add_z(&b, "{\"content\":");
	buf_add_json(&b, c->parts.n ? buf_str(&c->parts.p[0].text) : STR(""));
	add_gathered(c, &b);
	buf_add_c(&b, ',');
	add_end(c, &b);
	json_t *all = x->fields ? json_fast_load(buf_str(&b)) : NULL;
	if (all)
		add_picked(all, x->fields, out);
	else
		buf_add_str(out, buf_str(&b));
	json_decref(all);
	buf_deinit(&b);
}

void native_on_part(struct api_call *c, int i, const struct event_span *span, bool is_new,
		    struct buf *out)
{
	(void)i;
	(void)is_new;
	buf_add_z(out, "data: {\"index\":0,\"content\":");
	buf_add_json(out, span->text);
	add_gathered(c, out);
	buf_addf(out, ",\"stop\":false,\"id_slot\":0,\"tokens_predicted\":%d,"
		 "\"tokens_evaluated\":%d}\n\n", c->choices[0].n_tokens, c->stats.n_prompt);
}

void native_on_event(struct api_call *c, const struct event *e, struct buf *out)
{
	if (e->kind == EVENT_DONE && c->is_stream) {
		buf_add_z(out, "data: {\"content\":\"\"");
		add_gathered(c, out);
		buf_add_c(out, ',');
		add_end(c, out);
		buf_add_z(out, "\n\n");
	} else if (e->kind == EVENT_DONE) {
		add_answer(c, out);
	} else if (e->kind == EVENT_FAILED) {
		if (c->is_stream)
			buf_add_z(out, "data: ");
		api_error_format(&e->fail, out);
		if (c->is_stream)
			buf_add_z(out, "\n\n");
	}
}

void native_deinit(struct api_call *c)
{
	struct native *x = c->state;
	if (x)
		json_decref(x->fields);
	free(x);
}

const struct dialect dialect_native = {NATIVE_SHAPE, .rewrite = to_completion};
