/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/messages, the answer: a message of content blocks, stream and not.
 *
 *   message_start                       usage of the prompt
 *     content_block_start   index 0     thinking, where there is any
 *     content_block_delta   …           a last one of thinking has its signature
 *     content_block_stop
 *     content_block_start   index 1     text, then tool_use
 *     …
 *   message_delta                       stop_reason, usage of all
 *   message_stop
 *
 * input_tokens counts the prompt's tokens that were not found in the cache. A failure in
 * the middle of a stream is an `error` event, and no event follows.
 */
#include "api/api_dialect.h"

#include "api/chat_body.h"
#include "base/alloc.h"

/* Clients send thoughts back only if they are signed. This server reads them unsigned. */
#define SIGNATURE "halod"

/* --- pieces ----------------------------------------------------------------------- */

static void add_event(struct buf *out, const char *name)
{
	buf_addf(out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void end_event(struct buf *out) { buf_add_z(out, "}\n\n"); }

static void add_usage(const struct request_stats *s, struct buf *out)
{
	buf_addf(out,
		 "\"usage\":{\"input_tokens\":%d,\"cache_creation_input_tokens\":0,"
		 "\"cache_read_input_tokens\":%d,\"output_tokens\":%d}",
		 s->n_prompt - s->n_cached, s->n_cached, s->n_output);
}

static void add_stop(const struct api_call *c, struct buf *out)
{
	const char *reason = "end_turn";
	if (c->last_finish == FINISH_TOOL_CALLS)
		reason = "tool_use";
	else if (c->last_finish == FINISH_LENGTH)
		reason = "max_tokens";
	else if (c->stop_string)
		reason = "stop_sequence";
	buf_addf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
	if (c->stop_string)
		buf_add_json(out, str_of(c->stop_string));
	else
		buf_add_z(out, "null");
}

/* Writes c->head: the members with which the whole message begins, and the first event of a
 * stream. */
static void anthropic_format_init(struct api_call *c, const char *request_id)
{
	struct buf id = {0}, *head = &c->head;
	buf_addf(&id, "msg_%s", request_id);
	buf_add_z(head, "{\"id\":");
	buf_add_json(head, buf_str(&id));
	buf_add_z(head, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
	buf_add_json(head, str_of(c->model_name));
	buf_add_z(head, ",\"content\":[");
	buf_deinit(&id);
}

static void add_tool_use(const struct call *call, struct str input,
			 struct buf *out)
{
	buf_addf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", call->id);
	buf_add_json(out, buf_str(&call->name));
	buf_add_z(out, ",\"input\":");
	dialect_add_arguments(call, input, out);
	buf_add_c(out, '}');
}

static void add_block(const struct api_call *c, const struct answer_part *p,
		      struct str text, struct buf *out)
{
	const struct call *call = dialect_call(c, p);
	if (call) {
		add_tool_use(call, text, out);
		return;
	}
	bool is_thinking = p->channel == OUT_REASONING;
	const char *kind = is_thinking ? "thinking" : "text";
	buf_addf(out, "{\"type\":\"%s\",\"%s\":", kind, kind);
	buf_add_json(out, text);
	/* A stream's block begins without a text, and without the signature. */
	if (is_thinking)
		buf_addf(out, ",\"signature\":\"%s\"", text.n ? SIGNATURE : "");
	buf_add_c(out, '}');
}

/* --- stream ----------------------------------------------------------------------- */

static void start_message(struct api_call *c, const struct request_stats *s,
			  struct buf *out)
{
	add_event(out, "message_start");
	buf_add_z(out, ",\"message\":");
	buf_add_str(out, buf_str(&c->head));
	buf_add_z(out, "],\"stop_reason\":null,\"stop_sequence\":null,");
	add_usage(s, out);
	buf_add_c(out, '}');
	end_event(out);
}

static void stop_block(const struct api_call *c, int i, struct buf *out)
{
	if (i < 0)
		return;
	if (c->parts.p[i].channel == OUT_REASONING) {
		add_event(out, "content_block_delta");
		buf_addf(out, ",\"index\":%d,\"delta\":{\"type\":\"signature_delta\","
			 "\"signature\":\"" SIGNATURE "\"}", i);
		end_event(out);
	}
	add_event(out, "content_block_stop");
	buf_addf(out, ",\"index\":%d", i);
	end_event(out);
}

/* The type of a delta, and the key of its text. */
static const struct delta_name {
	const char *type, *key;
} delta_names[] = {
	[OUT_CONTENT] = {"text_delta", "text"},
	[OUT_REASONING] = {"thinking_delta", "thinking"},
	[OUT_CALL_ARGS] = {"input_json_delta", "partial_json"},
};

static void on_part(struct api_call *c, int choice, const struct event_span *span,
		    bool is_new, struct buf *out)
{
	int i = c->parts.n - 1;
	if (is_new) {
		stop_block(c, i - 1, out);
		add_event(out, "content_block_start");
		buf_addf(out, ",\"index\":%d,\"content_block\":", i);
		add_block(c, &c->parts.p[i], STR(""), out);
		end_event(out);
	}
	if (span->channel == OUT_CALL_NAME)
		return;
	const struct delta_name *name = &delta_names[span->channel];
	add_event(out, "content_block_delta");
	buf_addf(out, ",\"index\":%d,\"delta\":{\"type\":\"%s\",\"%s\":", i,
		 name->type, name->key);
	buf_add_json(out, span->text);
	buf_add_c(out, '}');
	end_event(out);
}

static void end_message(struct api_call *c, struct buf *out)
{
	stop_block(c, c->parts.n - 1, out);
	add_event(out, "message_delta");
	buf_add_z(out, ",\"delta\":{");
	add_stop(c, out);
	buf_add_z(out, "},");
	add_usage(&c->stats, out);
	end_event(out);
	add_event(out, "message_stop");
	end_event(out);
}

/* --- not a stream ------------------------------------------------------------------- */

static void add_whole(const struct api_call *c, struct buf *out)
{
	int n = 0;
	buf_add_str(out, buf_str(&c->head));
	for (int i = 0; i < c->parts.n; i++) {
		const struct answer_part *p = &c->parts.p[i];
		if (dialect_is_broken(c, p))
			continue;
		if (n++ > 0)
			buf_add_c(out, ',');
		add_block(c, p, dialect_text(c, p), out);
	}
	buf_add_z(out, "],");
	add_stop(c, out);
	buf_add_c(out, ',');
	add_usage(&c->stats, out);
	buf_add_c(out, '}');
}

static void on_event(struct api_call *c, const struct event *e, struct buf *out)
{
	switch (e->kind) {
	case EVENT_STARTED:
		if (c->is_stream)
			start_message(c, &e->stats, out);
		break;
	case EVENT_PROGRESS:
	case EVENT_SCORES:
	case EVENT_DELTA:
	case EVENT_CHOICE_DONE: break;
	case EVENT_DONE:
		if (c->is_stream)
			end_message(c, out);
		else
			add_whole(c, out);
		break;
	case EVENT_FAILED:
		if (c->is_stream)
			buf_add_z(out, "event: error\ndata: ");
		api_error_format_anthropic(&e->fail, out);
		if (c->is_stream)
			buf_add_z(out, "\n\n");
		break;
	}
}

static enum status to_chat(const struct json_node *body, struct api_call *c,
			   struct dialect_body *to, struct fail *fail)
{
	/* This API demands max_tokens, and clients send a number that suits the largest
	 * models. */
	c->cuts_max_tokens = true;
	return anthropic_to_chat(body, true, to, fail);
}

const struct dialect dialect_anthropic = {
	.fields = DIALECT_MESSAGES, .is_chat = true, .has_parts = true,
	.rewrite = to_chat, .read = chat_body_read, .init = anthropic_format_init,
	.on_part = on_part, .on_event = on_event};

/* --- errors ------------------------------------------------------------------------- */

static const char *type_of(enum status s)
{
	switch (status_http(s)) {
	case 401: return "authentication_error";
	case 403: return "permission_error";
	case 404: return "not_found_error";
	case 413: return "request_too_large";
	case 429: return "rate_limit_error";
	case 503: return "overloaded_error";
	default: return status_http(s) < 500 ? "invalid_request_error" : "api_error";
	}
}

void api_error_format_anthropic(const struct fail *f, struct buf *out)
{
	enum status st = f->code == OK ? E_INTERNAL : f->code;
	struct buf text = {0};
	/* Anthropic's own words. Agents look for them to know when to compact a history. */
	if (st == E_CTX_LEN)
		buf_addf(&text, "prompt is too long: %lld tokens > %lld maximum",
			 (long long)f->got, (long long)f->limit);
	else
		buf_add_z(&text, f->text[0] ? f->text : status_text(st));
	buf_addf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
		 type_of(st));
	buf_add_json(out, buf_str(&text));
	buf_add_z(out, "}}");
	buf_deinit(&text);
}
