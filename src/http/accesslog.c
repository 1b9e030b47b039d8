/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/log.h"
#include "base/metrics.h"
#include "http/conn.h"
#include "http/recent.h"

static const char *const end_names[] = {
	[END_CLIENT] = "client_gone",
	[END_STALLED] = "stalled",
	[END_TIMEOUT] = "timeout",
	[END_SERVER] = "server_stopped",
};

/* The status as the client saw it. 499 (the client left) and 408 (timeout) stand only in
 * the log. Where no whole head reached this server, libmicrohttpd may have answered: 400 is
 * logged, since it knows only kinds of bad request. */
static int status_of(const struct conn *c)
{
	if (c->end == END_TIMEOUT)
		return 408;
	if (!c->is_begun)
		return 400;
	if (c->end == END_CLIENT)
		return 499;
	return c->answer.status ? c->answer.status : 500;
}

static void add_ms(struct buf *b, const char *name, double ms)
{
	buf_addf(b, ",\"%s\":", name);
	buf_add_json_num(b, (double)(int64_t)(ms * 1000) / 1000);
}

static enum finish finish_of(const struct conn *c, const struct api_log *log)
{
	return c->end != END_NONE ? FINISH_ABORT : log->finish;
}

/* Was all audio of the request heard, and its answer finished? */
static bool is_heard(const struct conn *c, const struct api_log *log)
{
	enum finish f = finish_of(c, log);
	bool is_whole = f == FINISH_STOP || f == FINISH_LENGTH || f == FINISH_TOOL_CALLS;
	return is_whole && log->audio_us > 0 && api_log_took_us(log) > 0;
}

static void add_audio(struct buf *b, const struct api_log *log)
{
	buf_add_z(b, ",\"audio_s\":");
	buf_add_json_num(b, (double)(log->audio_us / 1000) / 1000);
	buf_add_z(b, ",\"audio_per_s\":");
	buf_add_json_num(b, (double)(log->audio_us * 100 / api_log_took_us(log)) / 100);
}

static void add_call(struct buf *b, const struct conn *c)
{
	struct api_log log;
	api_call_log(c->call, &log);
	const struct request_stats *s = &log.stats;
	buf_addf(b, ",\"stream\":%s,\"choices\":%d,\"prompt_tokens\":%d,"
		 "\"cached_tokens\":%d,\"disk_tokens\":%d,\"output_tokens\":%d",
		 log.is_stream ? "true" : "false", log.n_choices, s->n_prompt,
		 s->n_cached, s->n_disk, s->n_output);
	if (s->scheduled_us)
		buf_addf(b, ",\"cache_miss\":\"%s\",\"cache_miss_at\":%d",
			 miss_name(s->miss.reason), s->miss.at);
	if (s->n_drafted)
		buf_addf(b, ",\"draft_tokens\":%d,\"accepted_tokens\":%d", s->n_drafted,
			 s->n_accepted);
	if (s->scheduled_us)
		add_ms(b, "queue_ms",
		       (double)(s->scheduled_us - s->arrival_us) / 1000);
	if (s->first_token_us)
		add_ms(b, "ttft_ms", request_ttft_ms(s));
	if (s->n_output > log.n_choices)
		add_ms(b, "tpot_ms", request_tpot_ms(s, log.n_choices));
	if (is_heard(c, &log))
		add_audio(b, &log);
	buf_addf(b, ",\"finish\":\"%s\"",
		 finish_name(finish_of(c, &log)));
	if (log.user && *log.user) {
		buf_add_z(b, ",\"user\":");
		buf_add_json(b, str_of(log.user));
	}
}

/* Adds a row to the last requests that GET /stats shows, and counts for the key's name and the
 * model. */
static void remember_request(const struct conn *c, int status)
{
	struct api_log log;
	struct recent_row row = {.owner = c->owner, .path = c->route->path,
				 .status = status, .ended_s = clock_wall_s()};
	api_call_log(c->call, &log);
	if (is_heard(c, &log)) {
		c->row->audio_s += (double)log.audio_us * 1e-6;
		c->row->audio_time_s += (double)api_log_took_us(&log) * 1e-6;
	}
	if (c->key)
		keys_count_request(c->key, log.stats.n_prompt, log.stats.n_output);
	c->row->n_requests++;
	c->row->n_prompt += log.stats.n_prompt;
	c->row->n_output += log.stats.n_output;
	snprintf(row.id, sizeof row.id, "%s", c->id);
	row.finish = finish_of(c, &log);
	row.is_stream = log.is_stream;
	row.n_choices = log.n_choices;
	row.stats = log.stats;
	recent_add(c->http->recent, server_now(c->http), &row);
}

static void write_line(const struct conn *c, int status)
{
	struct buf b = {0};
	buf_add_z(&b, "{\"ts\":\"");
	log_add_time(&b);
	buf_add_z(&b, "\",\"event\":\"request\",\"id\":");
	buf_add_json(&b, str_of(c->id));
	if (*c->trace.trace_id)
		buf_addf(&b, ",\"trace_id\":\"%s\"", c->trace.trace_id);
	buf_addf(&b, ",\"client\":\"%s\",\"method\":", c->client);
	buf_add_json(&b, str_of(c->method));
	buf_add_z(&b, ",\"path\":");
	buf_add_json(&b, str_of(c->target));
	buf_addf(&b, ",\"status\":%d,\"bytes\":%llu", status,
		 (unsigned long long)c->stream.n_sent);
	add_ms(&b, "duration_ms",
	       (double)(server_now(c->http) - c->arrival_us) / 1000);
	if (c->key)
		buf_addf(&b, ",\"key\":\"%s\"", keys_name(c->key));
	if (c->end != END_NONE)
		buf_addf(&b, ",\"end\":\"%s\"", end_names[c->end]);
	if (c->route && (c->route->flags & ROUTE_WORK)) {
		buf_add_z(&b, ",\"model\":");
		buf_add_json(&b, str_of(c->row ? c->row->name : c->http->opts.model_name));
	}
	if (c->is_over && c->call)
		add_call(&b, c);
	if (c->fail.code != OK) {
		buf_add_z(&b, ",\"error\":");
		buf_add_json(&b, str_of(c->fail.text));
	}
	buf_add_c(&b, '}');
	log_json(buf_str(&b));
	buf_deinit(&b);
}

/* An answered health check, scrape, or poll of the page: each comes once a second or so and
 * would bury the lines of requests. Health checks also answer 503. */
static bool is_probe(const struct conn *c, int status)
{
	if (!c->route || c->end != END_NONE)
		return false;
	bool is_health = c->route->flags & ROUTE_PROBE;
	bool is_look = strcmp(c->route->path, "/metrics") == 0 ||
		       strcmp(c->route->path, "/stats") == 0;
	return (is_health && (status == 200 || status == 503)) || (is_look && status == 200);
}

void accesslog_write(const struct conn *c)
{
	char code[16];
	int status = status_of(c);
	snprintf(code, sizeof code, "%d", status);
	metric_add_by(METRIC_HTTP_RESPONSES, code, 1);
	if (c->end == END_CLIENT && c->is_begun)
		metric_add(METRIC_CLIENT_DISCONNECTS, 1);
	if (c->end == END_STALLED)
		metric_add(METRIC_SSE_CLIENTS_STALLED, 1);
	spans_write(c, status);
	if (c->is_over && c->call)
		remember_request(c, status);
	if (c->http->opts.access_log && !is_probe(c, status))
		write_line(c, status);
}
