/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /stats and /slots: what the server does now, and did in the last ten minutes.
 *
 * Both use what the io thread knows: the events of requests that it passes on, and counters
 * that the engine thread has set. So neither waits for the engine. With API keys, a key
 * sees only its own requests, but all totals.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "base/sysmem.h"
#include "http/conn.h"
#include "http/recent.h"

#define JSON "application/json"
#define MAX_ROWS 20

static void add_ms(struct buf *b, const char *name, double ms)
{
	buf_addf(b, ",\"%s\":", name);
	buf_add_json_num(b, round(ms * 1000) / 1000);
}

struct memory {
	int64_t total, used; /* bytes of this machine, an APU's share included; 0: not known */
};

static struct memory read_memory(void)
{
	struct sysmem m;
	sysmem_read("/", &m);
	if (m.total == INT64_MAX)
		return (struct memory){0};
	return (struct memory){m.total, m.total - m.available};
}

static void sample(struct http *h, int64_t memory_bytes)
{
	struct sched_counts n;
	if (!h->is_ready)
		return;
	server_counts(h, &n);
	recent_sample(h->recent, server_now(h), (int64_t)metric_get(METRIC_GENERATION_TOKENS),
		      &(struct recent_gauges){n.n_running, n.n_waiting,
					      metric_get(METRIC_KV_CACHE_USAGE),
					      memory_bytes});
}

void server_sample(struct http *h)
{
	sample(h, 0);
}

void server_sample_memory(struct http *h)
{
	sample(h, read_memory().used);
}

static bool is_open(const struct conn *c)
{
	return c->is_submitted && !c->is_over;
}

/* --- /slots --------------------------------------------------------------------------- */

struct slots {
	struct api_slot *p;
	int n;
};

static void add_slots(struct slots *s, const struct conn *c, bool is_own)
{
	int n = api_call_n_choices(c->call);
	s->p = xrealloc(s->p, (size_t)(s->n + n) * sizeof *s->p);
	for (int i = n - 1; i >= 0; i--) {
		struct api_slot *slot = &s->p[s->n];
		api_call_progress(c->call, i, &slot->progress);
		slot->id = is_own ? c->id : NULL;
		s->n += slot->progress.is_started && !slot->progress.is_done;
	}
}

void page_slots(struct conn *c)
{
	struct slots s = {0};
	struct buf b = {0};
	const struct conn *other;
	const struct model_row *r = row_asked(c, &c->fail);
	if (!r) {
		answer_fail(c, &c->fail);
		return;
	}
	LIST_FOREACH(other, &c->http->conns, link)
		if (is_open(other) && other->row == r)
			add_slots(&s, other, other->owner == c->owner);
	for (int i = 0; i < s.n / 2; i++) { /* reverse: the list has the newest request first */
		struct api_slot last = s.p[s.n - 1 - i];
		s.p[s.n - 1 - i] = s.p[i];
		s.p[i] = last;
	}
	api_slots_format(r->api, s.p, s.n, &b);
	free(s.p);
	answer_set(c, 200, JSON, &b);
}

/* --- /stats: now ---------------------------------------------------------------------- */

static void add_now(const struct http *h, struct buf *b)
{
	struct sched_counts n;
	server_counts(h, &n);
	buf_addf(b, "{\"now\":%lld,\"model\":", (long long)clock_wall_s());
	buf_add_json(b, str_of(h->opts.model_name));
	buf_add_z(b, ",\"version\":");
	buf_add_json(b, str_of(h->opts.version));
	buf_add_z(b, ",\"backend\":");
	buf_add_json(b, str_of(h->opts.backend));
	buf_addf(b, ",\"running\":%d,\"waiting\":%d,\"waiting_tokens\":%lld", n.n_running,
		 n.n_waiting, (long long)n.n_waiting_tok);
	buf_addf(b, ",\"kv_pages\":%.0f,\"kv_pages_used\":%.0f,\"kv_usage\":",
		 metric_get(METRIC_KV_PAGES), metric_get(METRIC_KV_PAGES_USED));
	buf_add_json_num(b, metric_get(METRIC_KV_CACHE_USAGE));
}

/* Bytes of this process that are in memory; 0: Linux does not tell. */
static int64_t process_bytes(void)
{
	long long n_pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%*s %lld", &n_pages) != 1)
		n_pages = 0;
	if (f)
		fclose(f);
	return n_pages * sysconf(_SC_PAGESIZE);
}

static void add_memory(struct buf *b)
{
	struct memory m = read_memory();
	buf_addf(b, ",\"memory\":{\"total\":%lld,\"used\":%lld,\"process\":%lld}",
		 (long long)m.total, (long long)m.used, (long long)process_bytes());
}

static void add_active(const struct conn *c, struct buf *b)
{
	struct api_progress all;
	api_call_progress_all(c->call, &all);
	buf_add_z(b, "{\"id\":");
	buf_add_json(b, str_of(c->id));
	buf_addf(b, ",\"path\":\"%s\",\"state\":\"%s\"", c->route->path,
		 api_progress_state(&all));
	add_ms(b, "age_ms", (double)(server_now(c->http) - c->arrival_us) / 1000);
	add_ms(b, "queue_ms", all.is_started
				      ? (double)(all.scheduled_us - all.arrival_us) / 1000
				      : NAN);
	buf_addf(b, ",\"prompt_tokens\":%d,\"cached_tokens\":%d,\"prefilled_tokens\":%d,"
		 "\"output_tokens\":%d}", all.n_prompt, all.n_cached, all.n_prefilled,
		 all.n_output);
}

static void add_all_active(const struct conn *c, struct buf *b)
{
	const struct conn *other;
	const char *comma = "";
	buf_add_z(b, ",\"active\":[");
	LIST_FOREACH(other, &c->http->conns, link) {
		if (!is_open(other) || other->owner != c->owner)
			continue;
		buf_add_z(b, comma);
		add_active(other, b);
		comma = ",";
	}
	buf_add_c(b, ']');
}

/* --- /stats: the last minutes ----------------------------------------------------------- */

static void add_quantiles(struct buf *b, const char *name, struct recent_quantiles q)
{
	buf_addf(b, ",\"%s\":{\"n\":%lld", name, (long long)q.n);
	add_ms(b, "median", q.median);
	add_ms(b, "p95", q.p95);
	buf_add_c(b, '}');
}

static void add_bucket(const struct http *h, int back, struct buf *b)
{
	struct recent_bucket_stats s;
	recent_bucket(h->recent, server_now(h), back, &s);
	buf_addf(b, "{\"requests\":%lld,\"output_tokens\":%lld,\"running\":%d,"
		 "\"failed\":%lld,\"waiting\":%d,\"memory_used\":%lld,\"kv_usage\":",
		 (long long)s.n_requests, (long long)s.n_output, s.most.n_running,
		 (long long)s.n_failed, s.most.n_waiting, (long long)s.most.memory_bytes);
	buf_add_json_num(b, s.most.kv_usage);
	buf_add_z(b, ",\"tokens_per_second\":");
	buf_add_json_num(b, round(s.tok_per_s * 100) / 100);
	add_quantiles(b, "ttft_ms", s.kinds[RECENT_TTFT]);
	add_quantiles(b, "tpot_ms", s.kinds[RECENT_TPOT]);
	buf_add_c(b, '}');
}

static void add_minutes(const struct http *h, struct buf *b)
{
	int64_t now = server_now(h);
	add_quantiles(b, "ttft_ms", recent_quantiles(h->recent, now, RECENT_TTFT));
	add_quantiles(b, "tpot_ms", recent_quantiles(h->recent, now, RECENT_TPOT));
	buf_addf(b, ",\"bucket_seconds\":%d,\"buckets\":[", RECENT_BUCKET_S);
	for (int back = RECENT_BUCKETS - 1; back >= 0; back--) {
		add_bucket(h, back, b);
		if (back)
			buf_add_c(b, ',');
	}
	buf_add_c(b, ']');
}

static void add_row(const struct recent_row *row, struct buf *b)
{
	const struct request_stats *s = &row->stats;
	buf_add_z(b, "{\"id\":");
	buf_add_json(b, str_of(row->id));
	buf_addf(b, ",\"path\":\"%s\",\"ended\":%lld,\"status\":%d,\"finish\":\"%s\","
		 "\"stream\":%s,\"choices\":%d", row->path, (long long)row->ended_s,
		 row->status, finish_name(row->finish), row->is_stream ? "true" : "false",
		 row->n_choices);
	add_ms(b, "queue_ms", recent_queue_ms(s));
	add_ms(b, "prefill_ms", recent_prefill_ms(s));
	add_ms(b, "decode_ms", recent_decode_ms(s));
	add_ms(b, "ttft_ms", s->first_token_us ? request_ttft_ms(s) : NAN);
	add_ms(b, "tpot_ms", s->first_token_us ? request_tpot_ms(s, row->n_choices) : NAN);
	buf_addf(b, ",\"prompt_tokens\":%d,\"cached_tokens\":%d,\"disk_tokens\":%d,"
		 "\"output_tokens\":%d,\"reasoning_tokens\":%d,\"preempted\":%d,"
		 "\"draft_tokens\":%d,\"accepted_tokens\":%d", s->n_prompt, s->n_cached,
		 s->n_disk, s->n_output, s->n_reasoning, s->n_preempted, s->n_drafted,
		 s->n_accepted);
	add_ms(b, "cache_saved_ms", row->cache_saved_ms);
	add_ms(b, "speculation_saved_ms", row->spec_saved_ms);
	buf_add_c(b, '}');
}

void page_stats(struct conn *c)
{
	const struct http *h = c->http;
	const struct recent_row *row;
	struct buf b = {0};
	server_sample_memory(c->http);
	add_now(h, &b);
	add_memory(&b);
	add_all_active(c, &b);
	add_minutes(h, &b);
	buf_add_z(&b, ",\"requests\":[");
	for (int i = 0; i < MAX_ROWS && (row = recent_row(h->recent, c->owner, i)); i++) {
		if (i)
			buf_add_c(&b, ',');
		add_row(row, &b);
	}
	buf_add_z(&b, "]}");
	answer_set(c, 200, JSON, &b);
}
