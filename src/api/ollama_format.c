/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /api/chat and /api/generate, the answers: a line of JSON for each piece of a stream, or
 * one object. A chat's text stands in message.content, a prompt's in response. A tool call is
 * told when it is whole. Times are nanoseconds.
 */
#include "api/ollama.h"

#include <stdlib.h>
#include <time.h>

#include "api/chat_body.h"
#include "api/completion.h"
#include "api/format.h"
#include "base/alloc.h"

/* Appends the time now as Ollama has it: "2026-01-02T03:04:05.123456789Z". */
static void add_now(struct buf *out)
{
	struct timespec now;
	struct tm tm;
	char date[32];
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	buf_addf(out, "%s.%09ldZ", date, now.tv_nsec);
}

/* --- pieces ------------------------------------------------------------------------ */

static void begin_object(const struct api_call *c, struct buf *out)
{
	buf_add_z(out, "{\"model\":");
	buf_add_json(out, str_of(c->model_name));
	buf_add_z(out, ",\"created_at\":\"");
	add_now(out);
	buf_add_c(out, '"');
}

struct words {
	struct str text, thinking;
	int first_call, n_calls; /* of the only choice's calls */
};

static void add_calls(const struct api_call *c, const struct words *w, struct buf *out)
{
	int n = 0;
	buf_add_z(out, ",\"tool_calls\":[");
	for (int i = w->first_call; i < w->first_call + w->n_calls; i++) {
		const struct call *call = &c->choices[0].calls[i];
		if (call->is_broken)
			continue;
		buf_addf(out, "%s{\"id\":\"%s\",\"function\":{\"index\":%d,\"name\":",
			 n++ ? "," : "", call->id, i);
		buf_add_json(out, buf_str(&call->name));
		buf_add_z(out, ",\"arguments\":");
		dialect_add_arguments(call, buf_str(&call->args), out);
		buf_add_z(out, "}}");
	}
	buf_add_c(out, ']');
}

/* Writes what was said, as members of the object. */
static void add_words(const struct api_call *c, const struct words *w, struct buf *out)
{
	const struct ollama_call *o = c->state;
	buf_add_z(out, o->is_chat ? ",\"message\":{\"role\":\"assistant\",\"content\":"
				  : ",\"response\":");
	buf_add_json(out, w->text);
	if (w->thinking.n) {
		buf_add_z(out, ",\"thinking\":");
		buf_add_json(out, w->thinking);
	}
	if (o->is_chat && w->n_calls)
		add_calls(c, w, out);
	if (o->is_chat)
		buf_add_c(out, '}');
}

static void add_logprobs(struct api_call *c, struct buf *out)
{
	struct buf *list = &c->choices[0].logprobs[0];
	if (!list->n)
		return;
	buf_add_z(out, ",\"logprobs\":[");
	buf_add_str(out, buf_str(list));
	buf_add_c(out, ']');
	buf_clear(list);
}

static void add_line(struct api_call *c, const struct words *w, struct buf *out)
{
	begin_object(c, out);
	add_words(c, w, out);
	add_logprobs(c, out);
	buf_add_z(out, ",\"done\":false}\n");
}

static void add_time(struct buf *out, const char *name, int64_t from_us, int64_t to_us)
{
	buf_addf(out, ",\"%s\":%lld", name, (long long)MAX(to_us - from_us, 0) * 1000);
}

static void add_end(const struct api_call *c, struct buf *out)
{
	const struct request_stats *s = &c->stats;
	int64_t first = s->first_token_us ? s->first_token_us : s->scheduled_us;
	int64_t last = s->last_token_us ? s->last_token_us : first;
	const char *reason = c->request->no_output	    ? "load"
			     : c->last_finish == FINISH_LENGTH ? "length"
							       : "stop";
	buf_addf(out, ",\"done\":true,\"done_reason\":\"%s\"", reason);
	add_time(out, "total_duration", s->arrival_us, last);
	buf_addf(out, ",\"load_duration\":0,\"prompt_eval_count\":%d", s->n_prompt);
	add_time(out, "prompt_eval_duration", s->scheduled_us, first);
	buf_addf(out, ",\"eval_count\":%d", s->n_output);
	add_time(out, "eval_duration", first, last);
	buf_add_c(out, '}');
}

/* --- events ------------------------------------------------------------------------- */

/* Sends the tool calls that are complete and were not sent before. */
static void tell_calls(struct api_call *c, struct buf *out)
{
	struct ollama_call *o = c->state;
	const struct choice *ch = &c->choices[0];
	int n = ch->n_calls - (ch->is_calling ? 1 : 0), first = o->n_told, n_good = 0;
	for (int i = first; i < n; i++)
		n_good += !ch->calls[i].is_broken;
	o->n_told = MAX(n, first);
	if (n_good)
		add_line(c, &(struct words){.first_call = first, .n_calls = n - first}, out);
}

static void on_part(struct api_call *c, int choice, const struct event_span *span, bool is_new,
		    struct buf *out)
{
	if (is_new)
		tell_calls(c, out);
	if (span->channel == OUT_CONTENT)
		add_line(c, &(struct words){.text = span->text}, out);
	else if (span->channel == OUT_REASONING)
		add_line(c, &(struct words){.text = STR(""), .thinking = span->text}, out);
}

static void end_stream(struct api_call *c, struct buf *out)
{
	tell_calls(c, out);
	begin_object(c, out);
	add_words(c, &(struct words){.text = STR("")}, out);
	add_logprobs(c, out);
	add_end(c, out);
	buf_add_c(out, '\n');
}

static void add_whole(struct api_call *c, struct buf *out)
{
	struct buf text = {0}, thinking = {0};
	const struct choice *ch = &c->choices[0];
	for (int i = 0; i < c->parts.n; i++) {
		const struct answer_part *p = &c->parts.p[i];
		if (p->channel == OUT_CONTENT)
			buf_add_str(&text, buf_str(&p->text));
		else if (p->channel == OUT_REASONING)
			buf_add_str(&thinking, buf_str(&p->text));
	}
	struct words w = {.text = buf_str(&text), .thinking = buf_str(&thinking),
			  .n_calls = ch->n_whole ? ch->n_calls - (ch->is_calling ? 1 : 0) : 0};
	begin_object(c, out);
	add_words(c, &w, out);
	add_logprobs(c, out);
	add_end(c, out);
	buf_deinit(&text);
	buf_deinit(&thinking);
}

static void on_event(struct api_call *c, const struct event *e, struct buf *out)
{
	if (e->kind == EVENT_DONE && c->is_stream) {
		end_stream(c, out);
	} else if (e->kind == EVENT_DONE) {
		add_whole(c, out);
	} else if (e->kind == EVENT_FAILED) {
		api_error_format_ollama(&e->fail, out);
		if (c->is_stream)
			buf_add_c(out, '\n');
	}
}

/* A line with an empty text: a client that adds it to the answer changes nothing. */
static void keep_alive(struct api_call *c, struct buf *out)
{
	add_line(c, &(struct words){.text = STR("")}, out);
}

static void deinit(struct api_call *c)
{
	free(c->state);
}

#define OLLAMA_SHAPE                                                                     \
	.fields = DIALECT_OWN, .has_parts = true, .stream_type = "application/x-ndjson", \
	.on_delta = format_gather_logprobs, .on_part = on_part, .on_event = on_event,    \
	.keep_alive = keep_alive, .deinit = deinit

const struct dialect dialect_ollama_chat = {
	OLLAMA_SHAPE, .is_chat = true, .rewrite = ollama_chat_to_chat, .read = chat_body_read};

const struct dialect dialect_ollama_generate = {
	OLLAMA_SHAPE, .is_chat = true, .rewrite = ollama_generate_to_chat, .read = chat_body_read};

const struct dialect ollama_raw = {
	OLLAMA_SHAPE, .may_write_nothing = true, .read = completion_read};

/* --- errors ------------------------------------------------------------------------- */

void api_error_format_ollama(const struct fail *f, struct buf *out)
{
	enum status st = f->code == OK ? E_INTERNAL : f->code;
	buf_add_z(out, "{\"error\":");
	buf_add_json(out, str_of(f->text[0] ? f->text : status_text(st)));
	buf_add_c(out, '}');
}
