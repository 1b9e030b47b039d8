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
#include "ctl/sse_read.h"

#define MAX_ERROR_BYTES 4096

struct transfer {
	CURL *easy;
	struct buf body;     /* the request */
	struct buf other;    /* a response that is no stream */
	struct sse sse;
	struct load_result *result;
	int64_t start_us, first_us, last_us, now_us;
	int n_chunks, n_tokens; /* n_tokens: from usage, 0 until it comes */
	bool is_done;        /* [DONE] was seen */
	char error[200];
};

static double ms(int64_t us)
{
	return (double)us * 1e-3;
}

static void note_error(struct transfer *t, const char *text)
{
	if (!*t->error)
		snprintf(t->error, sizeof t->error, "%s", text);
}

/* --- one answer ----------------------------------------------------------- */

static void on_chunk(struct transfer *t)
{
	if (t->n_chunks++ == 0)
		t->first_us = t->now_us;
	else
		samples_add(&t->result->itl_ms, ms(t->now_us - t->last_us));
	t->last_us = t->now_us;
}

static void on_data(void *ctx, struct str data)
{
	struct transfer *t = ctx;
	if (str_is(data, "[DONE]")) {
		t->is_done = true;
		return;
	}
	json_t *v = json_loadb(data.p, data.n, 0, NULL);
	const json_t *error = json_object_get(v, "error");
	const json_t *choice = json_array_get(json_object_get(v, "choices"), 0);
	const json_t *usage = json_object_get(v, "usage");
	const char *text = json_string_value(json_object_get(choice, "text"));
	if (!v)
		note_error(t, "a chunk is not JSON");
	if (error) {
		const char *said = json_string_value(
			json_object_get(error, "message"));
		note_error(t, said ? said : "an error without a message");
	}
	/* A chunk that only has the finish_reason is no token. */
	if (choice && ((text && *text) ||
		       json_is_null(json_object_get(choice, "finish_reason"))))
		on_chunk(t);
	if (json_is_object(usage))
		t->n_tokens = (int)json_integer_value(
			json_object_get(usage, "completion_tokens"));
	json_decref(v);
}

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	long status = 0;
	n *= size;
	t->now_us = clock_now_us(&clock_monotonic);
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		if (t->other.n < MAX_ERROR_BYTES)
			buf_add(&t->other, p, MIN(n, MAX_ERROR_BYTES));
		return n;
	}
	if (sse_push(&t->sse, p, n, on_data, t) != OK) {
		note_error(t, "a line of the stream is too long");
		return 0;
	}
	return n;
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

static void transfer_end(struct transfer *t)
{
	curl_easy_cleanup(t->easy);
	buf_deinit(&t->body);
	buf_deinit(&t->other);
	sse_deinit(&t->sse);
	free(t);
}

/* A curl handle with the options of every request; NULL if curl has no memory. */
static CURL *make_easy(const char *url, long timeout_s)
{
	CURL *easy = curl_easy_init();
	if (!easy)
		return NULL;
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, timeout_s);
	/* Measure the server, not a proxy that the environment names. */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	return easy;
}

/* Appends the API key to the headers, if there is one. */
static struct curl_slist *add_key(struct curl_slist *headers, const char *api_key)
{
	if (!api_key)
		return headers;
	char *line = xasprintf("Authorization: Bearer %s", api_key);
	headers = curl_slist_append(headers, line);
	free(line);
	return headers;
}

/* --- the load ------------------------------------------------------------- */

struct model_load {
	const struct load_opts *o;
	struct load_result *r;
	CURLM *multi;
	struct curl_slist *headers;
	char *url;
	int n_started, n_active;
};

static enum status start_one(struct model_load *l, struct fail *fail)
{
	struct transfer *t = xcalloc(1, sizeof *t);
	t->result = l->r;
	t->easy = make_easy(l->url, l->o->timeout_s);
	make_body(l->o, l->n_started, &t->body);
	if (!t->easy) {
		transfer_end(t);
		return fail_set(fail, E_IO, "curl gives no handle");
	}
	curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE,
			 (curl_off_t)t->body.n);
	curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body.p);
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, l->headers);
	curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
	t->start_us = clock_now_us(&clock_monotonic);
	if (curl_multi_add_handle(l->multi, t->easy) != CURLM_OK) {
		transfer_end(t);
		return fail_set(fail, E_IO, "curl takes no request");
	}
	l->n_started++;
	l->n_active++;
	return OK;
}

/* Notes in the transfer why it is no good answer, if it is none. */
static void judge(struct transfer *t, CURLcode code)
{
	long status = 0;
	char text[200];
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK) {
		note_error(t, post_why((int)code));
	} else if (status != 200) {
		snprintf(text, sizeof text, "HTTP %ld: %.160s", status,
			 t->other.p ? t->other.p : "");
		note_error(t, text);
	} else if (!t->is_done) {
		note_error(t, "the stream ended without [DONE]");
	} else if (t->n_chunks == 0 && t->n_tokens == 0) {
		note_error(t, "the stream held no token");
	}
}

static void finish_one(struct model_load *l, struct transfer *t, CURLcode code)
{
	struct load_result *r = l->r;
	judge(t, code);
	curl_multi_remove_handle(l->multi, t->easy);
	l->n_active--;
	if (*t->error) {
		if (r->n_failed++ == 0)
			snprintf(r->error, sizeof r->error, "%s", t->error);
	} else {
		int n = t->n_tokens ? t->n_tokens : t->n_chunks;
		r->n_good++;
		r->n_output += n;
		r->n_short += n < l->o->n_output;
		r->n_mute += t->n_chunks == 0;
		if (t->n_chunks > 0)
			samples_add(&r->ttft_ms, ms(t->first_us - t->start_us));
		samples_add(&r->e2e_ms, ms(clock_now_us(&clock_monotonic) -
					   t->start_us));
		if (n > 1 && t->n_chunks > 0)
			samples_add(&r->tpot_ms,
				    ms(t->last_us - t->first_us) / (n - 1));
	}
	transfer_end(t);
}

static void finish_ready(struct model_load *l)
{
	int left;
	for (CURLMsg *m; (m = curl_multi_info_read(l->multi, &left));) {
		struct transfer *t = NULL;
		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
		finish_one(l, t, m->data.result);
	}
}

static enum status drive(struct model_load *l, struct fail *fail)
{
	while (l->n_active || l->n_started < l->o->n_requests) {
		while (l->n_started < l->o->n_requests &&
		       l->n_active < l->o->concurrency) {
			enum status st = start_one(l, fail);
			if (st != OK)
				return st;
		}
		int running;
		CURLMcode code = curl_multi_perform(l->multi, &running);
		/* If a transfer has ended, start the next one before waiting. */
		if (code == CURLM_OK && running == l->n_active)
			code = curl_multi_poll(l->multi, NULL, 0, 1000, NULL);
		if (code != CURLM_OK)
			return fail_set(fail, E_IO, "curl: %s",
					curl_multi_strerror(code));
		finish_ready(l);
		progress_show("requests", l->n_started - l->n_active, l->o->n_requests);
	}
	return OK;
}

enum status load_run(const struct load_opts *o, struct load_result *out,
		     struct fail *fail)
{
	*out = (struct load_result){0};
	struct model_load l = {.o = o, .r = out, .multi = curl_multi_init()};
	if (!l.multi)
		return fail_set(fail, E_IO, "curl gives no handle");
	l.url = xasprintf("%s/v1/completions", o->url);
	l.headers = curl_slist_append(NULL, "Content-Type: application/json");
	/* Do not wait for "100 Continue" with long prompts. */
	l.headers = curl_slist_append(l.headers, "Expect:");
	l.headers = add_key(l.headers, o->api_key);
	curl_multi_setopt(l.multi, CURLMOPT_MAXCONNECTS, (long)o->concurrency);
	int64_t begin = clock_now_us(&clock_monotonic);
	enum status st = drive(&l, fail);
	out->seconds = ms(clock_now_us(&clock_monotonic) - begin) * 1e-3;
	progress_end();
	curl_multi_cleanup(l.multi);
	curl_slist_free_all(l.headers);
	free(l.url);
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

/* --- the model's name ------------------------------------------------------ */

static size_t on_models(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *b = ctx;
	if (b->n + size * n > 1 << 20)
		return 0;
	buf_add(b, p, size * n);
	return size * n;
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

/* Name of the first model that the server lists, malloc'ed. */
static enum status find_model(const char *url, const char *api_key, char **out,
			      struct fail *fail)
{
	struct curl_slist *headers = add_key(NULL, api_key);
	struct buf body = {0};
	long status = 0;
	char *full = xasprintf("%s/v1/models", url);
	CURL *easy = make_easy(full, 30);
	enum status st = OK;
	if (!easy) {
		st = fail_set(fail, E_IO, "curl gives no handle");
		goto out;
	}
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_models);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
	CURLcode code = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK) {
		st = fail_set(fail, E_IO, "%s: %s", url, post_why((int)code));
		goto out;
	}
	json_t *v = json_loadb(body.p ? body.p : "", body.n, 0, NULL);
	const char *id = json_string_value(json_object_get(
		json_array_get(json_object_get(v, "data"), 0), "id"));
	if (status == 200 && id)
		*out = xstrdup(id);
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

enum status load_server_open(const char *url, const char *model, const char *api_key,
			     struct load_server *out, struct fail *fail)
{
	*out = (struct load_server){file_without_slashes(url), NULL,
				    api_key ? api_key : getenv("OPENAI_API_KEY")};
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (!model)
		return find_model(out->url, out->api_key, &out->model, fail);
	out->model = xstrdup(model);
	return OK;
}

void load_server_close(struct load_server *s)
{
	free(s->url);
	free(s->model);
	curl_global_cleanup();
}
