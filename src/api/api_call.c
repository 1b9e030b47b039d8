/* SPDX-License-Identifier: Apache-2.0
 *
 * One call from body to last byte: made on a worker, then turned from event to bytes on the
 * io thread. This file knows the order of the steps. Each endpoint's wire shape is in its
 * dialect, api_dialect.h.
 */
#include <assert.h>
#include <stdlib.h>

#include "api/api_dialect.h"
#include "api/fields.h"
#include "api/params.h"
#include "api/peek.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/work.h"

/* The work that a body may cause: see base/work.h. A longer body may cause more, up to what
 * takes a worker about two seconds. */
#define WORK_BASE 15000000
#define WORK_MAX 150000000
/* For images alone: a scanned page of 600 dots an inch may have few bytes. */
#define WORK_OWN_IMAGE 60000000

/* --- in ------------------------------------------------------------------ */

/* An absent name (or "", as editors send it) is accepted: there is one model. Another
 * model's name is refused: its user would believe to talk to that model. An adapter's name stands
 * for the model with this adapter. */
static enum status read_model(const struct json_node *body, struct api_call *c, struct fail *fail)
{
	const struct api *a = c->api;
	struct json_node at = json_read_get(body, "model");
	struct str name = {0};
	c->model_name = a->model_name;
	enum status st = json_read_str(&at, &name, fail);
	bool is_any = c->dialect->read_form && str_is(name, PEEK_ANY_HEARER);
	if (st == OK && name.n && !is_any && !api_has_name(a, name))
		return api_fail_name(a, name, fail);
	int i = st == OK && name.n ? api_lora_named(a, name) : -1;
	if (i >= 0) {
		c->model_name = a->loras[i].name;
		c->request->lora = i + 1;
		c->request->lora_scale = 1;
	}
	return st;
}

/* The context is checked last: the check needs the prompts and max_tokens. It still comes
 * before the request is submitted, so no stream begins only to fail. */
static enum status read_body(struct api_call *c, const json_t *json,
			     struct fail *fail)
{
	struct json_node body = json_read_root(json);
	struct dialect_body to;
	dialect_body_init(&to);
	to.model = &c->api->chat;
	enum status st = read_model(&body, c, fail);
	if (st == OK && c->dialect->fields != DIALECT_OWN)
		st = fields_check(&body, c->dialect->fields, &to.ignored, fail);
	if (st == OK && c->dialect->rewrite) {
		st = c->dialect->rewrite(&body, c, &to, fail);
		body = dialect_body_root(&to);
	}
	if (st == OK)
		st = params_read(&body, c, fail);
	if (st == OK)
		st = c->dialect->read(&body, c, fail);
	if (st == OK)
		st = params_fit(&body, c, fail);
	c->ignored = arena_str(&c->arena, buf_str(&to.ignored)).p;
	dialect_body_deinit(&to);
	return st;
}

enum status api_call_create(const struct api *a, const struct api_input *in,
			    struct api_call **out, struct fail *fail)
{
	json_t *json;
	struct str file = {0};
	enum status st = in->dialect->read_form ? in->dialect->read_form(in, &json, &file, fail)
						: json_read_parse(in->body, &json, fail);
	if (st != OK)
		return st;
	char made[33];
	const char *id = in->request_id;
	if (!id || !id[0]) {
		random_hex(16, made);
		id = made;
	}
	struct api_call *c = xcalloc(1, sizeof *c);
	c->api = a;
	c->dialect = in->dialect;
	c->owner = in->owner;
	c->is_gone = in->is_gone;
	c->form.file = file;
	arena_init(&c->arena);
	c->request = request_create(id);
	c->stats.arrival_us = c->request->arrival_us =
		in->arrival_us ? in->arrival_us : clock_now_us(a->clock);
	c->request->received_us = in->received_us ? in->received_us : c->stats.arrival_us;
	st = read_body(c, json, fail);
	json_decref(json);
	if (st != OK) {
		/* the scheduler's reference: the request is never submitted */
		request_unref(c->request);
		api_call_destroy(c);
		return st;
	}
	c->request->parsed_us = clock_now_us(a->clock);
	c->n_choices = c->n_open = c->request->n_prompts * c->request->n;
	c->choices = xcalloc((size_t)c->n_choices, sizeof *c->choices);
	if (c->dialect->init)
		c->dialect->init(c, id);
	*out = c;
	return OK;
}

enum status api_make(const struct api *a, const struct api_input *in, api_text_fn text,
		     struct api_call **out_call, struct buf *out, struct fail *fail)
{
	struct work_budget work;
	work_begin(&work, MIN(WORK_BASE + WORK_BYTE * in->body.n, WORK_MAX));
	work.own[WORK_IMAGE] = WORK_OWN_IMAGE;
	enum status st = text ? text(a, in, out, fail) : api_call_create(a, in, out_call, fail);
	work_end();
	bool is_made = st == OK && !text;
	if ((st == E_LIMIT || work.has_no_memory) && work_fail(&work, fail))
		st = fail->code;
	if (is_made && st != OK) { /* it is not whole */
		request_unref((*out_call)->request);
		api_call_destroy(*out_call);
		*out_call = NULL;
	}
	log_debug("%s: work: schema %zu, regex %zu, grammar %zu, template %zu, text %zu, "
		  "image %zu, audio %zu", in->request_id, work.spent[WORK_SCHEMA],
		  work.spent[WORK_REGEX], work.spent[WORK_GRAMMAR], work.spent[WORK_TEMPLATE],
		  work.spent[WORK_TEXT], work.spent[WORK_IMAGE], work.spent[WORK_AUDIO]);
	return st;
}

void api_call_destroy(struct api_call *c)
{
	if (!c)
		return;
	for (int i = 0; c->choices && i < c->n_choices; i++) {
		buf_deinit(&c->choices[i].text);
		buf_deinit(&c->choices[i].reasoning);
		buf_deinit(&c->choices[i].prompt_logprobs);
		for (int k = 0; k < LOGPROB_LISTS; k++)
			buf_deinit(&c->choices[i].logprobs[k]);
		for (int k = 0; k < c->choices[i].n_calls; k++) {
			buf_deinit(&c->choices[i].calls[k].name);
			buf_deinit(&c->choices[i].calls[k].args);
		}
		free(c->choices[i].calls);
	}
	free(c->choices);
	if (c->dialect->deinit)
		c->dialect->deinit(c);
	parts_deinit(&c->parts);
	buf_deinit(&c->head);
	arena_deinit(&c->arena);
	request_unref(c->request);
	free(c);
}

struct request *api_call_request(struct api_call *c) { return c->request; }
bool api_call_is_stream(const struct api_call *c) { return c->is_stream; }

const char *api_call_type(const struct api_call *c)
{
	return c->dialect->type ? c->dialect->type(c) : "application/json";
}

const char *api_call_stream_type(const struct api_call *c)
{
	const char *type = c->dialect->stream_type;
	return type ? type : SSE_TYPE;
}

bool api_breaks_silence(const struct dialect *d)
{
	return d && !d->keep_alive;
}

void api_call_keep_alive(struct api_call *c, struct buf *out)
{
	if (c->dialect->keep_alive)
		c->dialect->keep_alive(c, out);
	else
		buf_add_z(out, SSE_COMMENT);
}

const char *api_call_ignored(const struct api_call *c) { return c->ignored; }
bool api_call_is_done(const struct api_call *c) { return c->is_done; }
enum status api_call_status(const struct api_call *c) { return c->status; }

void api_call_log(const struct api_call *c, struct api_log *out)
{
	*out = (struct api_log){
		.stats = c->stats,
		.n_choices = c->n_choices,
		.finish = c->last_finish,
		.is_stream = c->is_stream,
		.user = c->user,
		.audio_us = c->audio_us,
	};
}

/* The stats have one count of cached tokens for all prompts. So a call with several prompts
 * reports none for a choice. */
void api_call_progress(const struct api_call *c, int i, struct api_progress *out)
{
	const struct choice *ch = &c->choices[i];
	const struct request *r = c->request;
	*out = (struct api_progress){
		.is_started = c->is_started,
		.is_done = ch->is_done || c->is_done,
		.arrival_us = c->stats.arrival_us,
		.scheduled_us = c->stats.scheduled_us,
		.n_prompt = (int32_t)r->prompts[i / r->n].n,
		.n_cached = r->n_prompts == 1 ? c->stats.n_cached : 0,
		.n_prefilled = ch->n_prefilled,
		.n_output = ch->n_tokens,
	};
	if (ch->n_tokens > 0) /* prefill is reported for a prompt's first choice only */
		out->n_prefilled = out->n_prompt;
	else
		out->n_prefilled = MAX(out->n_prefilled, out->n_cached);
}

void api_call_progress_all(const struct api_call *c, struct api_progress *out)
{
	struct api_progress all = {0};
	for (int i = 0; i < c->n_choices; i++) {
		api_call_progress(c, i, out);
		bool is_lead = i % c->request->n == 0;
		all.n_prompt += is_lead ? out->n_prompt : 0;
		all.n_prefilled += is_lead ? out->n_prefilled : 0;
		all.n_output += out->n_output;
	}
	out->n_prompt = all.n_prompt;
	out->n_prefilled = all.n_prefilled;
	out->n_output = all.n_output;
	out->n_cached = c->stats.n_cached;
	out->is_done = c->is_done;
}

int api_call_n_choices(const struct api_call *c) { return c->n_choices; }

/* --- out ----------------------------------------------------------------- */

static void begin_call(struct choice *ch, struct str name)
{
	/* Grows by one call at a time: a call is dozens of tokens long, so calls are rare. */
	ch->calls = xrealloc(ch->calls, (size_t)(ch->n_calls + 1) * sizeof *ch->calls);
	struct call *call = &ch->calls[ch->n_calls++];
	*call = (struct call){.id = "call_"};
	random_hex(12, call->id + strlen(call->id));
	buf_add_str(&call->name, name);
	ch->is_calling = true;
}

static void end_call(struct api_call *c, struct choice *ch, struct str text)
{
	const struct call *call = &ch->calls[ch->n_calls - 1];
	metric_add_by(METRIC_TOOL_CALLS, "complete", 1);
	callstore_put(c->api->chat.calls, str_of(call->id),
		      &(struct callstore_call){buf_str(&call->name),
					       buf_str(&call->args), text});
	ch->n_whole++;
	ch->is_calling = false;
}

/* Ends a call that the answer's limit cut off: it stays a call, with its arguments so far.
 * Where not even its name was whole, nothing is left of it. */
static void cut_call(struct choice *ch)
{
	metric_add_by(METRIC_TOOL_CALLS, "cut", 1);
	if (ch->is_calling) {
		ch->calls[ch->n_calls - 1].is_cut = true;
		ch->n_whole++;
	}
	ch->is_calling = false;
}

static void break_call(struct choice *ch)
{
	metric_add_by(METRIC_TOOL_CALLS, "broken", 1);
	if (ch->is_calling)
		ch->calls[ch->n_calls - 1].is_broken = true;
	ch->is_calling = false;
}

/* Keeps the span for the end of the answer. False: the span holds nothing to send. */
static bool gather_span(struct api_call *c, struct choice *ch, struct event_span *span)
{
	struct buf *text = &ch->text;
	switch (span->channel) {
	case OUT_CALL_NAME: begin_call(ch, span->text); return true;
	case OUT_CALL_ARGS:
		buf_add_str(&ch->calls[ch->n_calls - 1].args, span->text);
		return true;
	case OUT_CALL_END: end_call(c, ch, span->text); return false;
	case OUT_CALL_CUT: cut_call(ch); return false;
	case OUT_CALL_BROKEN:
		break_call(ch);
		span->channel = OUT_CONTENT;
		break;
	case OUT_REASONING: text = &ch->reasoning; break;
	case OUT_CONTENT: break;
	}
	if (!c->is_stream && !c->dialect->has_parts)
		buf_add_str(text, span->text);
	return true;
}

static void on_delta(struct api_call *c, const struct event *e, struct buf *out)
{
	const struct dialect *d = c->dialect;
	struct choice *ch = &c->choices[e->choice];
	ch->n_tokens += e->n_tokens;
	if (d->on_delta)
		d->on_delta(c, e, out);
	for (int i = 0; i < e->n_spans; i++) {
		struct event_span span = e->spans[i];
		if (span.text.n == 0 || !gather_span(c, ch, &span))
			continue;
		bool is_new = d->has_parts && parts_add(&c->parts, span.channel,
							span.text, ch->n_calls - 1);
		if (c->is_stream)
			d->on_part(c, e->choice, &span, is_new, out);
	}
}

static enum finish finish_of(const struct choice *ch, const struct event *e)
{
	bool is_cut = ch->n_calls > 0 && ch->calls[ch->n_calls - 1].is_cut;
	return e->finish == FINISH_STOP && ch->n_whole > 0 && !is_cut ? FINISH_TOOL_CALLS
								      : e->finish;
}

static void on_choice_done(struct api_call *c, const struct event *e)
{
	struct choice *ch = &c->choices[e->choice];
	ch->finish = c->last_finish = finish_of(ch, e);
	ch->is_done = true;
	c->n_open--;
	if (e->stop_string)
		c->stop_string = arena_strdup(&c->arena, e->stop_string);
}

static void on_end(struct api_call *c, const struct event *e)
{
	c->stats = e->stats;
	c->is_done = true;
	if (e->kind == EVENT_FAILED) {
		c->status = e->fail.code == OK ? E_INTERNAL : e->fail.code;
		c->last_finish = FINISH_ERROR;
	}
}

bool api_call_has_rest(const struct api_call *c)
{
	return c->dialect->has_rest && c->dialect->has_rest(c);
}

enum status api_call_rest(struct api_call *c, struct fail *fail)
{
	struct work_budget work;
	work_begin(&work, WORK_MAX);
	enum status st = c->dialect->rest(c, fail);
	work_end();
	if ((st == E_LIMIT || work.has_no_memory) && work_fail(&work, fail))
		st = fail->code;
	return st;
}

void api_call_on_event(struct api_call *c, const struct event *e,
		       struct buf *out)
{
	/* The scheduler's promises: no event after the last, and a choice that exists. */
	assert(!c->is_done);
	assert(e->choice >= 0 && e->choice < c->n_choices);
	switch (e->kind) {
	case EVENT_STARTED:
		c->is_started = true;
		c->stats = e->stats;
		break;
	case EVENT_PROGRESS: c->choices[e->choice].n_prefilled = e->n_prefilled; break;
	case EVENT_SCORES: break;
	case EVENT_DELTA: on_delta(c, e, out); break;
	case EVENT_CHOICE_DONE: on_choice_done(c, e); break;
	case EVENT_DONE:
	case EVENT_FAILED: on_end(c, e); break;
	}
	c->dialect->on_event(c, e, out);
}
