/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/responses, the answer: a response object of output items, stream and not.
 *
 *   response.created, response.in_progress      the object without output
 *     response.output_item.added                reasoning, where there is any
 *     response.content_part.added
 *     response.reasoning_text.delta …, .done
 *     response.content_part.done
 *     response.output_item.done
 *     … the same for the message, with response.output_text.delta …, .done
 *   response.completed, or .incomplete when max_output_tokens ended it, or .failed
 *
 * Every event is numbered. There is no [DONE]: the last event says the end.
 */
#include "api/responses.h"

#include <stdlib.h>

#include "base/alloc.h"

/* --- items ------------------------------------------------------------------------ */

static bool is_reasoning(const struct part *p)
{
	return p->channel == OUT_REASONING;
}

/* Ids of items: the response's, with the item's kind and place. */
static void add_item_id(const struct api_call *c, int i, struct buf *out)
{
	const struct responses *r = c->state;
	buf_addf(out, "\"%s_%s_%d\"", is_reasoning(&c->parts.p[i]) ? "rs" : "msg",
		 r->id + 5, i);
}

static void add_content(const struct part *p, struct str text, struct buf *out)
{
	buf_addf(out, "{\"type\":\"%s\",\"text\":",
		 is_reasoning(p) ? "reasoning_text" : "output_text");
	buf_add_json(out, text);
	buf_add_z(out, is_reasoning(p) ? "}" : ",\"annotations\":[],\"logprobs\":[]}");
}

/* Without its content while it is in progress. */
static void add_item(const struct api_call *c, int i, const char *status,
		     bool is_whole, struct buf *out)
{
	const struct part *p = &c->parts.p[i];
	buf_add_z(out, "{\"id\":");
	add_item_id(c, i, out);
	buf_addf(out, ",\"type\":\"%s\",\"status\":\"%s\",",
		 is_reasoning(p) ? "reasoning" : "message", status);
	buf_add_z(out, is_reasoning(p) ? "\"summary\":[],"
				       : "\"role\":\"assistant\",");
	buf_add_z(out, "\"content\":[");
	if (is_whole)
		add_content(p, buf_str(&p->text), out);
	buf_add_z(out, "]}");
}

/* --- the response object ------------------------------------------------------------ */

static void add_usage(const struct request_stats *s, struct buf *out)
{
	buf_addf(out,
		 "{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d},"
		 "\"output_tokens\":%d,"
		 "\"output_tokens_details\":{\"reasoning_tokens\":%d},"
		 "\"total_tokens\":%d}",
		 s->n_prompt, s->n_cached, s->n_output, s->n_reasoning,
		 s->n_prompt + s->n_output);
}

/* What ended it; "in_progress" before that. */
static const char *status_of_call(const struct api_call *c)
{
	if (!c->is_done)
		return "in_progress";
	if (c->last_finish == FINISH_ERROR)
		return "failed";
	return c->last_finish == FINISH_LENGTH ? "incomplete" : "completed";
}

static void add_response(const struct api_call *c, const struct fail *fail,
			 struct buf *out)
{
	const struct responses *r = c->state;
	const char *status = status_of_call(c);
	bool is_cut = strcmp(status, "incomplete") == 0;
	buf_addf(out,
		 "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,"
		 "\"status\":\"%s\",\"error\":",
		 r->id, (long long)r->created, status);
	if (fail) {
		const char *code = status_code(fail->code);
		buf_addf(out, "{\"code\":\"%s\",\"message\":",
			 *code ? code : "server_error");
		buf_add_json(out, str_of(fail->text));
		buf_add_c(out, '}');
	} else {
		buf_add_z(out, "null");
	}
	buf_addf(out, ",\"incomplete_details\":%s,\"model\":",
		 is_cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
	buf_add_json(out, str_of(c->api->model_name));
	buf_add_str(out, buf_str(&r->echo));
	buf_add_z(out, ",\"output\":[");
	for (int i = 0; c->is_done && i < c->parts.n; i++) {
		if (i > 0)
			buf_add_c(out, ',');
		add_item(c, i, is_cut && i == c->parts.n - 1 ? status : "completed",
			 true, out);
	}
	buf_add_z(out, "],\"usage\":");
	if (c->is_done)
		add_usage(&c->stats, out);
	else
		buf_add_z(out, "null");
	buf_add_c(out, '}');
}

/* --- stream ------------------------------------------------------------------------- */

static void add_event(struct api_call *c, const char *name, struct buf *out)
{
	struct responses *r = c->state;
	buf_addf(out, "event: response.%s\ndata: {\"type\":\"response.%s\","
		 "\"sequence_number\":%lld",
		 name, name, (long long)r->n_events++);
}

static void end_event(struct buf *out) { buf_add_z(out, "}\n\n"); }

static void add_response_event(struct api_call *c, const char *name,
			       const struct fail *fail, struct buf *out)
{
	add_event(c, name, out);
	buf_add_z(out, ",\"response\":");
	add_response(c, fail, out);
	end_event(out);
}

static void start_response(struct api_call *c, struct buf *out)
{
	if (c->has_started)
		return;
	c->has_started = true;
	add_response_event(c, "created", NULL, out);
	add_response_event(c, "in_progress", NULL, out);
}

static void add_item_event(struct api_call *c, const char *name, int i,
			   const char *status, bool is_whole, struct buf *out)
{
	add_event(c, name, out);
	buf_addf(out, ",\"output_index\":%d,\"item\":", i);
	add_item(c, i, status, is_whole, out);
	end_event(out);
}

/* The members of all events about the content of item i. */
static void add_place(struct api_call *c, const char *name, int i,
		      struct buf *out)
{
	add_event(c, name, out);
	buf_add_z(out, ",\"item_id\":");
	add_item_id(c, i, out);
	buf_addf(out, ",\"output_index\":%d,\"content_index\":0", i);
}

static void add_part_event(struct api_call *c, const char *name, int i,
			   struct str text, struct buf *out)
{
	add_place(c, name, i, out);
	buf_add_z(out, ",\"part\":");
	add_content(&c->parts.p[i], text, out);
	end_event(out);
}

/* A piece of item i's text, or at its end all of it. */
static void add_text_event(struct api_call *c, bool is_done, int i,
			   struct str text, struct buf *out)
{
	bool thinks = is_reasoning(&c->parts.p[i]);
	char name[40];
	snprintf(name, sizeof name, "%s.%s", thinks ? "reasoning_text" : "output_text",
		 is_done ? "done" : "delta");
	add_place(c, name, i, out);
	buf_addf(out, ",\"%s\":", is_done ? "text" : "delta");
	buf_add_json(out, text);
	if (!thinks)
		buf_add_z(out, ",\"logprobs\":[]");
	end_event(out);
}

static void end_item(struct api_call *c, int i, const char *status,
		     struct buf *out)
{
	if (i < 0)
		return;
	struct str text = buf_str(&c->parts.p[i].text);
	add_text_event(c, true, i, text, out);
	add_part_event(c, "content_part.done", i, text, out);
	add_item_event(c, "output_item.done", i, status, true, out);
}

static void add_span(struct api_call *c, const struct event_span *span,
		     struct buf *out)
{
	int last = c->parts.n - 1;
	if (span->text.n == 0)
		return;
	bool is_new = parts_add(&c->parts, span->channel, span->text);
	if (!c->is_stream)
		return;
	int i = c->parts.n - 1;
	if (is_new) {
		end_item(c, last, "completed", out);
		add_item_event(c, "output_item.added", i, "in_progress", false, out);
		add_part_event(c, "content_part.added", i, STR(""), out);
	}
	add_text_event(c, false, i, span->text, out);
}

/* --- the end -------------------------------------------------------------------------- */

/* The conversation with this answer, for whoever goes on with it. */
static void store(struct api_call *c)
{
	struct responses *r = c->state;
	struct buf *h = &r->history, text = {0}, thoughts = {0};
	if (!r->stores)
		return;
	for (int i = 0; i < c->parts.n; i++)
		buf_add_str(is_reasoning(&c->parts.p[i]) ? &thoughts : &text,
			    buf_str(&c->parts.p[i].text));
	h->n--; /* the bracket; an input has at least one message before it */
	buf_add_z(h, ",{\"role\":\"assistant\",\"content\":");
	buf_add_json(h, buf_str(&text));
	if (thoughts.n) {
		buf_add_z(h, ",\"reasoning_content\":");
		buf_add_json(h, buf_str(&thoughts));
	}
	buf_add_z(h, "}]");
	response_store_put(c->api->responses, str_of(r->id), buf_str(h));
	buf_deinit(&text);
	buf_deinit(&thoughts);
}

static void on_done(struct api_call *c, struct buf *out)
{
	const char *status = status_of_call(c);
	store(c);
	if (!c->is_stream) {
		add_response(c, NULL, out);
		return;
	}
	end_item(c, c->parts.n - 1, status, out);
	add_response_event(c, status, NULL, out);
}

static void on_event(struct api_call *c, const struct event *e, struct buf *out)
{
	if (c->is_stream && !c->is_done)
		start_response(c, out);
	switch (e->kind) {
	case EVENT_STARTED:
	case EVENT_PROGRESS:
	case EVENT_CHOICE_DONE: break;
	case EVENT_DELTA:
		for (int i = 0; i < e->n_spans; i++)
			add_span(c, &e->spans[i], out);
		break;
	case EVENT_DONE: on_done(c, out); break;
	case EVENT_FAILED:
		if (c->is_stream)
			add_response_event(c, "failed", &e->fail, out);
		else
			api_error_format(&e->fail, out);
		break;
	}
}

static void deinit(struct api_call *c)
{
	struct responses *r = c->state;
	if (!r)
		return;
	buf_deinit(&r->echo);
	buf_deinit(&r->history);
	free(r);
}

const struct dialect dialect_responses = {
	.messages = "input", .to_chat = responses_to_chat, .on_event = on_event,
	.deinit = deinit};
