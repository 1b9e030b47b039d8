/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of a request. Its root span is the HTTP request. Below the root are spans for
 * the time in the queue, prefill and decode. Attributes are named by OpenTelemetry's
 * conventions for HTTP and for generative AI; names of our own begin with "halod.". No span
 * holds text of a prompt or an answer.
 */
#include <microhttpd.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "base/random.h"
#include "http/conn.h"
#include "trace/exporter.h"
#include "trace/span.h"

static enum MHD_Result spans_count(void *ctx, enum MHD_ValueKind kind, const char *key,
				   const char *value)
{
	int *n = ctx;
	(void)kind, (void)value;
	*n += strcasecmp(key, "traceparent") == 0;
	return MHD_YES;
}

void spans_begin(struct conn *c)
{
	int n = 0;
	const char *sent = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "traceparent");
	if (sent && MHD_get_connection_values(c->mhd, MHD_HEADER_KIND, spans_count, &n) < 1)
		return;
	bool is_given = n == 1 && traceparent_parse(sent, &c->trace);
	if (is_given || !c->http->opts.exporter)
		return;
	random_hex(16, c->trace.trace_id);
	c->trace.is_sampled = true;
}

/* The trace that is being written. */
struct spans {
	const struct conn *c;
	struct buf text;
	int n;
	char root[17];
	int64_t wall_us; /* added to a monotonic time, it gives the time since 1970 */
};

static int64_t wall_offset_us(const struct conn *c)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 - server_now(c->http);
}

static const char *operation_of(const struct route *r)
{
	static const struct {
		const char *end, *name;
	} rows[] = {{"/chat/completions", "chat"}, {"/responses", "chat"},
		    {"/messages", "chat"}, {"/completions", "text_completion"},
		    {"/infill", "text_completion"}, {"/embeddings", "embeddings"}};
	size_t n = strlen(r->path);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].end);
		if (n >= len && strcmp(r->path + n - len, rows[i].end) == 0)
			return rows[i].name;
	}
	return NULL;
}

static void add_usage(struct buf *b, const struct conn *c, const struct api_log *log)
{
	const struct request_stats *s = &log->stats;
	span_add_int(b, "gen_ai.usage.input_tokens", s->n_prompt);
	span_add_int(b, "gen_ai.usage.output_tokens", s->n_output);
	span_add_text(b, "halod.finish_reason",
		      finish_name(c->end != END_NONE ? FINISH_ABORT : log->finish));
	span_add_int(b, "halod.cached_tokens", s->n_cached);
	if (s->first_token_us)
		span_add_number(b, "halod.ttft_ms", request_ttft_ms(s));
	if (s->n_output > log->n_choices)
		span_add_number(b, "halod.tpot_ms", request_tpot_ms(s, log->n_choices));
}

static void begin_span(struct spans *w, const char *name, const char *id, const char *parent,
		       const int64_t us[2])
{
	if (w->n++)
		buf_add_c(&w->text, ',');
	span_begin(&w->text, &(struct span){
		.name = name, .trace_id = w->c->trace.trace_id, .id = id, .parent_id = parent,
		.kind = w->n == 1 ? SPAN_SERVER : SPAN_INTERNAL,
		.start_ns = 1000 * (us[0] + w->wall_us), .end_ns = 1000 * (us[1] + w->wall_us)});
}

static void add_root(struct spans *w, const struct api_log *log, int status)
{
	const struct conn *c = w->c;
	struct buf *b = &w->text;
	const char *op = operation_of(c->route), *model = c->http->opts.model_name;
	char name[200];
	snprintf(name, sizeof name, "%s %.150s", op ? op : c->method, op ? model : c->route->path);
	begin_span(w, name, w->root, c->trace.parent_id,
		   (int64_t[]){c->arrival_us, server_now(c->http)});
	span_add_text(b, "http.request.method", c->method);
	span_add_text(b, "http.route", c->route->path);
	span_add_int(b, "http.response.status_code", status);
	span_add_text(b, "halod.request_id", c->id);
	if (op) {
		span_add_text(b, "gen_ai.operation.name", op);
		span_add_text(b, "gen_ai.response.model", model);
	}
	if (log)
		add_usage(b, c, log);
	if (c->fail.code != OK)
		span_add_text(b, "error.type", status_name(c->fail.code));
	span_end(b, status >= 500);
}

/* Adds a phase below the root span. A phase that did not happen has no span. */
static void add_phase(struct spans *w, const char *name, int64_t from_us, int64_t to_us)
{
	char id[17];
	if (!from_us || to_us < from_us)
		return;
	random_hex(8, id);
	begin_span(w, name, id, w->root, (int64_t[]){from_us, to_us});
	span_end(&w->text, false);
}

void spans_write(const struct conn *c, int status)
{
	struct exporter *e = c->http->opts.exporter;
	struct spans w = {.c = c};
	struct api_log log;
	if (!e || !c->trace.is_sampled || !c->route || !(c->route->flags & ROUTE_WORK))
		return;
	bool has_log = c->is_over && c->call; /* a stream may end before there is a call */
	if (has_log)
		api_call_log(c->call, &log);
	random_hex(8, w.root);
	w.wall_us = wall_offset_us(c);
	add_root(&w, has_log ? &log : NULL, status);
	if (has_log) {
		const struct request_stats *s = &log.stats;
		add_phase(&w, "queue", s->arrival_us, s->scheduled_us);
		add_phase(&w, "prefill", s->scheduled_us, s->first_token_us);
		add_phase(&w, "decode", s->first_token_us, s->last_token_us);
	}
	exporter_add(e, &w.text, w.n);
}
