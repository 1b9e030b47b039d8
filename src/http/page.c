/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that need no engine.
 *
 * /livez: should the process be restarted? 503: the engine thread has failed, or has shown no
 * sign of life for too long. 200: otherwise, also during loading and draining. /readyz and
 * /health, as llama-server has it: is this server in service? 200: the model is loaded, the
 * engine is alive, and no SIGTERM came. A full queue still gives 200: if a balancer took out
 * every busy server, none would be left to answer 429. All have the same body, with all of
 * this state.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "http/conn.h"

#define JSON "application/json"

/* The whole of conf/openapi.json. */
static const unsigned char openapi[] = {
#include "http/openapi.inc"
};

static const char *health_word(enum health_state s, bool is_stalled)
{
	if (s != HEALTH_FAILED && is_stalled)
		return "stalled";
	return s == HEALTH_READY ? "ok" : health_state_name(s);
}

/* None of the models could be loaded. */
static bool rows_have_failed(const struct http *h)
{
	for (int i = 0; i < h->opts.n_rows; i++)
		if (h->opts.rows[i].state != ROW_FAILED)
			return false;
	return h->opts.n_rows > 0;
}

static void add_check(struct buf *b, const struct health *h)
{
	buf_addf(b, ",\"self_check\":{\"result\":\"%s\",\"mean_delta\":",
		 health_check_name((enum health_check)atomic_load(&h->self_check)));
	buf_add_json_num(b, atomic_load(&h->check_mean));
	buf_add_z(b, ",\"max_delta\":");
	buf_add_json_num(b, atomic_load(&h->check_max));
	buf_add_z(b, ",\"seconds\":");
	buf_add_json_num(b, atomic_load(&h->check_s));
	buf_add_c(b, '}');
}

/* Answers with the state of the server; 503 where it is not alive, or, with asks_ready, not
 * ready. */
static void answer_health(struct conn *c, bool asks_ready)
{
	struct http *h = c->http;
	const struct health *health = h->opts.health;
	struct sched_counts n = {0};
	struct buf b = {0};
	int64_t now = server_now(h);
	http_beat(h);
	int64_t beat =
		atomic_load_explicit(&health->heartbeat_us, memory_order_relaxed);
	enum health_state state = server_health(h);
	bool is_stalled =
		health_is_stalled(health, now, h->opts.heartbeat_stall_us);
	bool is_alive = state != HEALTH_FAILED && !is_stalled;
	server_counts(h, &n);
	bool has_failed = h->is_ready && rows_have_failed(h);
	bool is_ready = is_alive && state == HEALTH_READY && h->is_ready && !has_failed;
	buf_addf(&b, "{\"status\":\"%s\",\"ready\":%s,\"load\":",
		 has_failed ? health_state_name(HEALTH_FAILED) : health_word(state, is_stalled),
		 is_ready ? "true" : "false");
	buf_add_json_num(&b, state == HEALTH_LOADING
				     ? atomic_load(&health->load_permille) / 1000.0
				     : 1.0);
	buf_addf(&b, ",\"load_stage\":\"%s\",\"load_bytes\":%lld,\"load_total_bytes\":%lld",
		 health_load_name((enum health_load)atomic_load(&health->load_stage)),
		 (long long)atomic_load(&health->load_done),
		 (long long)atomic_load(&health->load_total));
	buf_add_z(&b, ",\"heartbeat_age_s\":");
	buf_add_json_num(&b, beat && now > beat ? (double)((now - beat) / 1000) / 1e3
						: 0);
	buf_addf(&b, ",\"running\":%d,\"waiting\":%d,\"waiting_tokens\":%lld",
		 n.n_running, n.n_waiting, (long long)n.n_waiting_tok);
	add_check(&b, health);
	buf_add_z(&b, ",\"backend\":");
	buf_add_json(&b, str_of(h->opts.backend));
	buf_add_z(&b, ",\"backend_reason\":");
	buf_add_json(&b, str_of(h->opts.backend_reason));
	buf_add_c(&b, '}');
	answer_set(c, (asks_ready ? is_ready : is_alive) ? 200 : 503, JSON, &b);
}

void page_health(struct conn *c)
{
	answer_health(c, true);
}

void page_livez(struct conn *c)
{
	answer_health(c, false);
}

void page_metrics(struct conn *c)
{
	const struct http_opts *o = &c->http->opts;
	struct metrics_model *models = xcalloc((size_t)o->n_rows + 1, sizeof *models);
	struct buf b = {0};
	for (int i = 0; i < o->n_rows; i++)
		models[i] = (struct metrics_model){.name = o->rows[i].name,
						   .is_loaded = o->rows[i].state == ROW_LOADED,
						   .n_requests = o->rows[i].n_requests,
						   .n_prompt = o->rows[i].n_prompt,
						   .n_output = o->rows[i].n_output,
						   .audio_s = o->rows[i].audio_s,
						   .audio_time_s = o->rows[i].audio_time_s};
	http_beat(c->http);
	metrics_format(&(struct metrics_info){.model_name = o->model_name,
					      .version = o->version,
					      .backend = o->backend,
					      .backend_reason = o->backend_reason,
					      .health = o->health,
					      .clock = o->clock,
					      .models = models,
					      .n_models = o->n_rows},
		       &b);
	free(models);
	if (c->http->keys)
		keys_format(c->http->keys, &b);
	answer_set(c, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

static void answer_list(struct conn *c,
			void (*format)(const struct api_row *rows, int n, struct buf *out))
{
	struct buf b = {0};
	int n;
	struct api_row *rows = row_list(c->http, &n);
	format(rows, n, &b);
	free(rows);
	answer_set(c, 200, JSON, &b);
}

void page_version(struct conn *c)
{
	struct buf b = {0};
	api_version_format(c->http->opts.version, &b);
	answer_set(c, 200, JSON, &b);
}

void page_ollama_tags(struct conn *c)
{
	answer_list(c, api_ollama_tags_format);
}

void page_ollama_ps(struct conn *c)
{
	answer_list(c, api_ollama_ps_format);
}

void page_ollama_version(struct conn *c)
{
	struct buf b = {0};
	api_ollama_version_format(c->http->opts.version, &b);
	answer_set(c, 200, JSON, &b);
}

void page_models(struct conn *c)
{
	answer_list(c, api_models_format);
}

void page_model(struct conn *c)
{
	struct buf b = {0};
	int n;
	struct api_row *rows = row_list(c->http, &n);
	answer_item(c, api_model_format(rows, n, c->tail, &b, &c->fail), &b);
	free(rows);
}

struct api_kept page_kept(const struct conn *c)
{
	return (struct api_kept){.owner = c->owner, .id = c->tail};
}

void page_response(struct conn *c)
{
	struct buf b = {0};
	answer_item(c, api_response_format(c->http->opts.memory, page_kept(c), &b, &c->fail), &b);
}

void page_response_items(struct conn *c)
{
	struct buf b = {0};
	struct str order;
	bool is_rising = route_argument(c->sock->head.target, "order", &order) &&
			 str_is(order, "asc");
	answer_item(c, api_response_items_format(c->http->opts.memory, page_kept(c), is_rising,
						 &b, &c->fail), &b);
}

void page_response_delete(struct conn *c)
{
	struct buf b = {0};
	answer_item(c, api_response_delete(c->http->opts.memory, page_kept(c), &b, &c->fail), &b);
}

void page_response_cancel(struct conn *c)
{
	struct buf b = {0};
	answer_item(c, api_response_cancel(c->http->opts.memory, page_kept(c), &c->fail), &b);
}

void page_response_compact(struct conn *c)
{
	struct buf b = {0};
	answer_item(c, fail_set(&c->fail, E_UNSUPPORTED, "histories are not compacted here: ask "
				"the model for a summary, and begin a new conversation with it"),
		    &b);
}

void page_props(struct conn *c)
{
	struct buf b = {0};
	int n;
	const struct model_row *r = row_asked(c, &c->fail);
	struct api_row *rows = row_list(c->http, &n);
	if (r)
		api_props_format(r->api, rows, n, &b);
	answer_item(c, r ? OK : c->fail.code, &b);
	free(rows);
}

void page_loras(struct conn *c)
{
	struct buf b = {0};
	const struct model_row *r = row_asked(c, &c->fail);
	if (r)
		api_loras_format(r->api, &b);
	answer_item(c, r ? OK : c->fail.code, &b);
}

void page_loras_set(struct conn *c)
{
	fail_set(&c->fail, E_UNSUPPORTED, "no adapter is on for all: each request names its own, "
		 "by `model` or with a scale in `lora`");
	answer_fail(c, &c->fail);
}

void page_openapi(struct conn *c)
{
	struct buf b = {0};
	buf_add(&b, openapi, sizeof openapi);
	answer_set(c, 200, JSON, &b);
}
