/* SPDX-License-Identifier: Apache-2.0
 *
 * Prompts are random token ids, all different, so that their length is exact and no
 * prefix cache helps. Each answer is exactly n_output tokens long (ignore_eos). Times
 * are taken when bytes arrive:
 *
 *   start      first chunk       chunk …    last chunk   end
 *     |-- TTFT --|------ ITL ------|-- ITL --|            |
 *     |------------------------- E2E --------------------|
 *   TPOT = (last chunk - first chunk) / (tokens - 1)
 *
 * A server may put several tokens into a chunk. So tokens are counted by `usage`, and by chunks
 * only if the server gives no usage.
 */
#include "ctl/load.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "ctl/input.h"
#include "ctl/post.h"
#include "ctl/progress.h"
#include "ctl/sse_call.h"

struct model_load {
	const struct load_opts *o;
	struct load_result *r;
	struct sse_calls streams;
	int n_started;
};

struct transfer {
	struct sse_call stream; /* the first member */
	struct model_load *load;
	int64_t first_us, last_us;
	int n_chunks, n_tokens; /* n_tokens: from usage, 0 until it comes */
};

static double ms(int64_t us)
{
	return (double)us * 1e-3;
}

/* --- one answer ----------------------------------------------------------- */

static void on_token(struct transfer *t)
{
	if (t->n_chunks++ == 0)
		t->first_us = t->stream.now_us;
	else
		samples_add(&t->load->r->itl_ms, ms(t->stream.now_us - t->last_us));
	t->last_us = t->stream.now_us;
}

static void on_chunk(struct sse_call *s, const json_t *chunk)
{
	struct transfer *t = (struct transfer *)s;
	const json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
	const json_t *usage = json_object_get(chunk, "usage");
	const char *text = json_string_value(json_object_get(choice, "text"));
	/* A chunk that only has the finish_reason is no token. */
	if (choice && ((text && *text) ||
		       json_is_null(json_object_get(choice, "finish_reason"))))
		on_token(t);
	if (json_is_object(usage))
		t->n_tokens = (int)json_integer_value(
			json_object_get(usage, "completion_tokens"));
}

static void make_body(const struct load_opts *o, int i, struct buf *out)
{
	struct ids ids = {0};
	ids.p = xmalloc((size_t)o->n_input * sizeof *ids.p);
	ids.n = ids.cap = (size_t)o->n_input;
	/* Multiplying by 2^64 over the golden ratio moves the seeds of runs far apart. Else run
	 * 1 would begin with the prompt of run 0's second request. */
	uint64_t seed = o->seed * 0x9E3779B97F4A7C15u + (uint64_t)i;
	input_random_ids(seed, o->n_vocab, ids.p, o->n_input);
	buf_add_z(out, "{\"model\":");
	buf_add_json(out, str_of(o->model));
	buf_add_z(out, ",\"prompt\":");
	input_add_ids(out, &ids);
	buf_addf(out, ",\"max_tokens\":%d,\"ignore_eos\":true,\"temperature\":0,"
		 "\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
		 o->n_output);
	ids_deinit(&ids);
}

/* --- the load ------------------------------------------------------------- */

static void on_end(struct sse_call *s)
{
	struct transfer *t = (struct transfer *)s;
	const struct load_opts *o = t->load->o;
	struct load_result *r = t->load->r;
	const char *error = s->error;
	if (!*error && t->n_chunks == 0 && t->n_tokens == 0)
		error = "the stream held no token";
	if (*error) {
		if (r->n_failed++ == 0)
			snprintf(r->error, sizeof r->error, "%s", error);
	} else {
		int n = t->n_tokens ? t->n_tokens : t->n_chunks;
		r->n_good++;
		r->n_output += n;
		r->n_short += n < o->n_output;
		r->n_mute += t->n_chunks == 0;
		if (t->n_chunks > 0)
			samples_add(&r->ttft_ms, ms(t->first_us - s->start_us));
		samples_add(&r->e2e_ms, ms(clock_now_us(&clock_monotonic) - s->start_us));
		if (n > 1 && t->n_chunks > 0)
			samples_add(&r->tpot_ms,
				    ms(t->last_us - t->first_us) / (n - 1));
	}
	sse_call_deinit(s);
	free(t);
}

static enum status start_one(struct model_load *l, struct fail *fail)
{
	struct transfer *t = xcalloc(1, sizeof *t);
	t->load = l;
	t->stream.on_chunk = on_chunk;
	t->stream.on_end = on_end;
	make_body(l->o, l->n_started, &t->stream.body);
	enum status st = sse_calls_start(&l->streams, &t->stream, fail);
	if (st == OK) {
		l->n_started++;
		return OK;
	}
	sse_call_deinit(&t->stream);
	free(t);
	return st;
}

static enum status drive_load(struct model_load *l, struct fail *fail)
{
	enum status st = OK;
	while (st == OK && (l->streams.n_active || l->n_started < l->o->n_requests)) {
		while (st == OK && l->n_started < l->o->n_requests &&
		       l->streams.n_active < l->o->concurrency)
			st = start_one(l, fail);
		if (st == OK)
			st = sse_calls_go_on(&l->streams, fail);
		progress_show("requests", l->n_started - l->streams.n_active, l->o->n_requests);
	}
	return st;
}

enum status load_run(const struct load_opts *o, struct load_result *out,
		     struct fail *fail)
{
	*out = (struct load_result){0};
	struct model_load l = {.o = o, .r = out};
	char *url = xasprintf("%s/v1/completions", o->url);
	enum status st = sse_calls_open(&l.streams, url, o->api_key, o->timeout_s, fail);
	int64_t begin = clock_now_us(&clock_monotonic);
	if (st == OK)
		st = drive_load(&l, fail);
	out->seconds = ms(clock_now_us(&clock_monotonic) - begin) * 1e-3;
	progress_end();
	sse_calls_close(&l.streams);
	free(url);
	if (st != OK)
		load_result_deinit(out);
	return st;
}

void load_result_deinit(struct load_result *r)
{
	samples_deinit(&r->ttft_ms);
	samples_deinit(&r->tpot_ms);
	samples_deinit(&r->itl_ms);
	samples_deinit(&r->e2e_ms);
}

void load_print_json(struct buf *b, const char *error)
{
	buf_add_z(b, ",\"error\":");
	if (error)
		buf_add_json(b, str_of(error));
	else
		buf_add_z(b, "null");
	buf_add_z(b, "}\n");
	fwrite(b->p, 1, b->n, stdout);
}

/* --- the server ------------------------------------------------------------ */

static size_t on_models(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *b = ctx;
	if (b->n + size * n > 1 << 20)
		return 0;
	buf_add(b, p, size * n);
	return size * n;
}

enum status load_server_models(const struct load_server *s, json_t **out, struct fail *fail)
{
	struct curl_slist *headers = post_headers(s->api_key);
	struct buf body = {0};
	long status = 0;
	char *full = xasprintf("%s/v1/models", s->url);
	CURL *easy = post_easy(full, headers, 30);
	enum status st = OK;
	if (!easy) {
		st = fail_set(fail, E_IO, "curl gives no handle");
		goto out;
	}
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_models);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
	CURLcode code = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK) {
		st = fail_set(fail, E_IO, "%s: %s", s->url, post_why((int)code));
		goto out;
	}
	json_t *v = json_loadb(body.p ? body.p : "", body.n, 0, NULL);
	json_t *data = json_object_get(v, "data");
	if (status == 200 && json_array_size(data) > 0)
		*out = json_incref(data);
	else
		st = fail_set(fail, E_IO, "%s: HTTP %ld, and no name of a model",
			      full, status);
	json_decref(v);
out:
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
	buf_deinit(&body);
	free(full);
	return st;
}

/* Sets the model to the first that the server lists. */
static enum status find_model(struct load_server *s, struct fail *fail)
{
	json_t *all;
	enum status st = load_server_models(s, &all, fail);
	if (st != OK)
		return st;
	const char *id = json_string_value(json_object_get(json_array_get(all, 0), "id"));
	if (id)
		s->model = xstrdup(id);
	else
		st = fail_set(fail, E_IO, "%s/v1/models: the first model has no name", s->url);
	json_decref(all);
	return st;
}

enum status load_server_open(const char *url, const char *model, const char *api_key,
			     struct load_server *out, struct fail *fail)
{
	*out = (struct load_server){file_without_slashes(url), NULL,
				    api_key ? api_key : getenv("OPENAI_API_KEY")};
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (!model)
		return find_model(out, fail);
	out->model = xstrdup(model);
	return OK;
}

void load_server_close(struct load_server *s)
{
	free(s->url);
	free(s->model);
	curl_global_cleanup();
}
