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
 *     … and for calls, with response.function_call_arguments.delta …, .done and
 *       without content parts
 *   response.completed, or .incomplete when max_output_tokens ended it, or .failed
 *
 * Every event is numbered. There is no [DONE]: the last event marks the end.
 */
#include "api/responses.h"

#include <stdlib.h>

#include "api/chat_body.h"
#include "base/alloc.h"
#include "json/json_digits.h"
#include "json/json_fast.h"

/* --- items ------------------------------------------------------------------------ */

static bool is_reasoning(const struct answer_part *p)
{
	return p->channel == OUT_REASONING;
}

/* The id of an item is made of the response's id, the item's kind and its index. */
static void add_item_id(const struct api_call *c, int i, struct buf *out)
{
	const struct responses *r = c->state;
	const struct answer_part *p = &c->parts.p[i];
	const char *kind = is_reasoning(p)      ? "rs"
			   : dialect_call(c, p) ? "fc"
						: "msg";
	buf_addf(out, "\"%s_%s_%d\"", kind, r->id + 5, i);
}

static void add_content(const struct answer_part *p, struct str text, struct buf *out)
{
	buf_addf(out, "{\"type\":\"%s\",\"text\":",
		 is_reasoning(p) ? "reasoning_text" : "output_text");
	buf_add_json(out, text);
	buf_add_z(out, is_reasoning(p) ? "}" : ",\"annotations\":[],\"logprobs\":[]}");
}

/* The name of the call's tool as the client knows it. *out_space: its namespace, "" where it
 * has none. */
static struct str name_of(const struct api_call *c, const struct call *call,
			  struct str *out_space)
{
	const struct responses *r = c->state;
	struct str offered = buf_str(&call->name);
	const json_t *names = json_object_getn(r->names, offered.p, offered.n);
	*out_space = json_read_view(json_array_get(names, 0));
	return names ? json_read_view(json_array_get(names, 1)) : offered;
}

static void add_call_members(const struct api_call *c, const struct answer_part *p,
			     bool is_whole, struct buf *out)
{
	const struct call *call = dialect_call(c, p);
	struct str space, name = name_of(c, call, &space);
	buf_addf(out, "\"call_id\":\"%s\",\"name\":", call->id);
	buf_add_json(out, name);
	if (space.n) {
		buf_add_z(out, ",\"namespace\":");
		buf_add_json(out, space);
	}
	buf_add_z(out, ",\"arguments\":");
	buf_add_json(out, is_whole ? buf_str(&call->args) : STR(""));
	buf_add_c(out, '}');
}

/* Writes an item; without its content while it is in progress (is_whole false). */
static void add_item(const struct api_call *c, int i, const char *status,
		     bool is_whole, struct buf *out)
{
	const struct answer_part *p = &c->parts.p[i];
	const struct call *call = dialect_call(c, p);
	if (call && call->is_cut)
		status = "incomplete";
	buf_add_z(out, "{\"id\":");
	add_item_id(c, i, out);
	const char *kind = is_reasoning(p) ? "reasoning" : call ? "function_call" : "message";
	buf_addf(out, ",\"type\":\"%s\",\"status\":\"%s\",", kind, status);
	if (call) {
		add_call_members(c, p, is_whole, out);
		return;
	}
	buf_add_z(out, is_reasoning(p) ? "\"summary\":[],"
				       : "\"role\":\"assistant\",");
	buf_add_z(out, "\"content\":[");
	if (is_whole)
		add_content(p, buf_str(&p->text), out);
	buf_add_c(out, ']');
	if (is_whole && is_reasoning(p) && ((const struct responses *)c->state)->seals) {
		struct buf sealed = {0};
		buf_add_z(&sealed, RESPONSES_SEAL);
		buf_add_str(&sealed, buf_str(&p->text));
		buf_add_z(out, ",\"encrypted_content\":");
		buf_add_json(out, buf_str(&sealed));
		buf_deinit(&sealed);
	}
	buf_add_c(out, '}');
}

/* --- the response object ------------------------------------------------------------ */

static void add_usage(const struct request_stats *s, struct buf *out)
{
	buf_addf(out,
		 "{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d,"
		 "\"cache_write_tokens\":0},"
		 "\"output_tokens\":%d,"
		 "\"output_tokens_details\":{\"reasoning_tokens\":%d},"
		 "\"total_tokens\":%d}",
		 s->n_prompt, s->n_cached, s->n_output, s->n_reasoning,
		 s->n_prompt + s->n_output);
}

/* The response's status: "in_progress", then by what ended the answer. */
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
	buf_add_json(out, str_of(c->model_name));
	buf_add_str(out, buf_str(&r->echo));
	buf_add_z(out, ",\"output\":[");
	int n = 0;
	for (int i = 0; c->is_done && i < c->parts.n; i++) {
		if (dialect_is_broken(c, &c->parts.p[i]))
			continue;
		if (n++ > 0)
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

/* Writes the members that all events about the content of item i have. */
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

/* Writes the event of a piece of item i's text; with is_done, of the whole text. */
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

/* Writes the event of a piece of a call's arguments; with is_done, of all of them. */
static void add_arguments_event(struct api_call *c, bool is_done, int i,
				struct str text, struct buf *out)
{
	add_event(c, is_done ? "function_call_arguments.done"
			     : "function_call_arguments.delta", out);
	buf_add_z(out, ",\"item_id\":");
	add_item_id(c, i, out);
	buf_addf(out, ",\"output_index\":%d,\"%s\":", i,
		 is_done ? "arguments" : "delta");
	buf_add_json(out, text);
	if (is_done) {
		buf_add_z(out, ",\"name\":");
		struct str space;
		buf_add_json(out, name_of(c, dialect_call(c, &c->parts.p[i]), &space));
	}
	end_event(out);
}

/* Ends an item. A broken call gets no .done events: clients act on what is done. */
static void end_item(struct api_call *c, int i, const char *status,
		     struct buf *out)
{
	if (i < 0 || dialect_is_broken(c, &c->parts.p[i]))
		return;
	struct str text = dialect_text(c, &c->parts.p[i]);
	if (dialect_call(c, &c->parts.p[i])) {
		add_arguments_event(c, true, i, text, out);
		add_item_event(c, "output_item.done", i, status, true, out);
		return;
	}
	add_text_event(c, true, i, text, out);
	add_part_event(c, "content_part.done", i, text, out);
	add_item_event(c, "output_item.done", i, status, true, out);
}

static void on_part(struct api_call *c, int choice, const struct event_span *span,
		    bool is_new, struct buf *out)
{
	int i = c->parts.n - 1;
	bool is_call = dialect_call(c, &c->parts.p[i]);
	if (is_new) {
		end_item(c, i - 1, "completed", out);
		add_item_event(c, "output_item.added", i, "in_progress", false, out);
	}
	if (is_new && !is_call)
		add_part_event(c, "content_part.added", i, STR(""), out);
	if (!is_call)
		add_text_event(c, false, i, span->text, out);
	else if (span->channel == OUT_CALL_ARGS)
		add_arguments_event(c, false, i, span->text, out);
}

/* --- the end -------------------------------------------------------------------------- */

/* Writes the answer's calls as a chat has them. */
static void add_stored_calls(const struct api_call *c, struct buf *out)
{
	int n = 0;
	for (int i = 0; i < c->parts.n; i++) {
		const struct answer_part *p = &c->parts.p[i];
		const struct call *call = dialect_call(c, p);
		if (!call || dialect_is_broken(c, p))
			continue;
		buf_addf(out, "%s{\"id\":\"%s\",\"type\":\"function\","
			 "\"function\":{\"name\":",
			 n++ ? "," : ",\"tool_calls\":[", call->id);
		buf_add_json(out, buf_str(&call->name));
		buf_add_z(out, ",\"arguments\":");
		buf_add_json(out, buf_str(&call->args));
		buf_add_z(out, "}}");
	}
	if (n > 0)
		buf_add_c(out, ']');
}

/* Stores the conversation with this answer, for a request that continues it. */
static void responses_format_store(struct api_call *c)
{
	struct responses *r = c->state;
	struct buf *h = &r->history, text = {0}, thoughts = {0}, body = {0};
	if (!r->stores || request_is_background(c->request)) /* nobody goes on with a batch's */
		return;
	for (int i = 0; i < c->parts.n; i++) {
		const struct answer_part *p = &c->parts.p[i];
		if (!dialect_call(c, p))
			buf_add_str(is_reasoning(p) ? &thoughts : &text,
				    buf_str(&p->text));
	}
	h->n--; /* drops "]"; the list has at least one message */
	buf_add_z(h, ",{\"role\":\"assistant\",\"content\":");
	/* Beside calls null is how a chat spells "no text". */
	if (text.n == 0 && c->choices[0].n_whole > 0)
		buf_add_z(h, "null");
	else
		buf_add_json(h, buf_str(&text));
	if (thoughts.n) {
		buf_add_z(h, ",\"reasoning_content\":");
		buf_add_json(h, buf_str(&thoughts));
	}
	add_stored_calls(c, h);
	buf_add_z(h, "}]");
	add_response(c, NULL, &body);
	const struct str kept[RESPONSE_PARTS] = {
		[RESPONSE_MESSAGES] = buf_str(h),
		[RESPONSE_BODY] = buf_str(&body),
		[RESPONSE_INPUT] = buf_str(&r->input),
	};
	response_store_put(c->api->responses, c->owner, str_of(r->id), kept);
	buf_deinit(&body);
	buf_deinit(&text);
	buf_deinit(&thoughts);
}

static void on_done(struct api_call *c, struct buf *out)
{
	const char *status = status_of_call(c);
	responses_format_store(c);
	if (!c->is_stream) {
		add_response(c, NULL, out);
		return;
	}
	end_item(c, c->parts.n - 1, status, out);
	add_response_event(c, status, NULL, out);
}

static void on_event(struct api_call *c, const struct event *e, struct buf *out)
{
	switch (e->kind) {
	case EVENT_STARTED:
		if (c->is_stream)
			start_response(c, out);
		break;
	case EVENT_PROGRESS:
	case EVENT_SCORES:
	case EVENT_DELTA:
	case EVENT_CHOICE_DONE: break;
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
	buf_deinit(&r->input);
	json_decref(r->names);
	free(r);
}

const struct dialect dialect_responses = {
	.fields = DIALECT_RESPONSES, .is_chat = true, .has_parts = true,
	.rewrite = responses_to_chat, .read = chat_body_read, .on_part = on_part,
	.on_event = on_event, .deinit = deinit};

/* --- stored responses ------------------------------------------------------------------ */

static enum status get_response(const struct api_memory *m, struct api_kept kept,
				enum response_part part, struct buf *out, struct fail *fail)
{
	if (response_store_get(m->responses, kept.owner, kept.id, part, out))
		return OK;
	struct str id = json_read_clip(kept.id, 60);
	return fail_set(fail, E_NOT_FOUND, "there is no response of the id `%.*s` (any more)",
			(int)id.n, id.p);
}

enum status api_response_format(const struct api_memory *m, struct api_kept kept,
				struct buf *out, struct fail *fail)
{
	return get_response(m, kept, RESPONSE_BODY, out, fail);
}

static const char *id_of(const json_t *list, size_t i)
{
	return json_string_value(json_object_get(json_array_get(list, i), "id"));
}

enum status api_response_items_format(const struct api_memory *m, struct api_kept kept,
				      bool is_rising, struct buf *out, struct fail *fail)
{
	struct buf text = {0};
	enum status st = get_response(m, kept, RESPONSE_INPUT, &text, fail);
	if (st != OK)
		return st;
	json_t *list = json_fast_load(buf_str(&text)), *data = json_array();
	size_t n = json_array_size(list);
	for (size_t i = 0; i < n; i++)
		json_array_append(data, json_array_get(list, is_rising ? i : n - 1 - i));
	json_t *page = json_pack("{ss, sO, ss?, ss?, sb}", "object", "list", "data", data,
				 "first_id", id_of(data, 0), "last_id",
				 n ? id_of(data, n - 1) : NULL, "has_more", 0);
	json_digits_write(page, false, out);
	json_decref(page);
	json_decref(data);
	json_decref(list);
	buf_deinit(&text);
	return OK;
}

enum status api_response_delete(const struct api_memory *m, struct api_kept kept,
				struct buf *out, struct fail *fail)
{
	if (!response_store_delete(m->responses, kept.owner, kept.id))
		/* sets fail to the words for a missing id */
		return get_response(m, kept, RESPONSE_BODY, out, fail);
	buf_add_z(out, "{\"id\":");
	buf_add_json(out, kept.id);
	buf_add_z(out, ",\"object\":\"response\",\"deleted\":true}");
	return OK;
}

enum status api_response_cancel(const struct api_memory *m, struct api_kept kept,
				struct fail *fail)
{
	struct buf body = {0};
	enum status st = get_response(m, kept, RESPONSE_BODY, &body, fail);
	buf_deinit(&body);
	return st != OK ? st
			: fail_set(fail, E_INVAL,
				   "this response is complete: only one that runs in the "
				   "background could be cancelled. Close the connection to "
				   "end a running one");
}
