/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/chat_client.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ctl/post.h"
#include "ctl/sse_read.h"

#define MAX_OTHER ((size_t)1 << 16)

struct exchange {
	const struct chat_request *r;
	struct chat_answer *a;
	struct sse sse;
	struct buf other; /* the body of a response that is no stream */
	CURL *easy;
	char error[200];
	int64_t begin_us;
	bool is_done;
};

static CURL *make_easy(const struct chat_server *s, const char *path,
		       struct curl_slist *headers)
{
	CURL *easy = curl_easy_init();
	char *url = xasprintf("%s%s", s->url, path);
	if (easy) {
		curl_easy_setopt(easy, CURLOPT_URL, url);
		curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
		curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, 10L);
		curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
		if (s->unix_socket)
			curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, s->unix_socket);
	}
	free(url);
	return easy;
}

/* --- the stream --------------------------------------------------------------------- */

static void take_text(struct exchange *x, json_t *delta, const char *key, bool is_reasoning)
{
	json_t *v = json_object_get(delta, key);
	if (!json_is_string(v) || json_string_length(v) == 0)
		return;
	struct str text = {json_string_value(v), json_string_length(v)};
	if (x->a->ttft_s == 0)
		x->a->ttft_s = (double)(clock_now_us(&clock_monotonic) - x->begin_us) * 1e-6;
	if (!is_reasoning)
		buf_add(&x->a->text, text.p, text.n);
	x->r->on_text(x->r->ctx, is_reasoning, text);
}

static void take_numbers(struct chat_answer *a, json_t *chunk)
{
	json_t *usage = json_object_get(chunk, "usage");
	json_t *timings = json_object_get(chunk, "timings");
	json_t *details = json_object_get(usage, "prompt_tokens_details");
	if (json_is_object(usage)) {
		a->n_prompt = (int)json_integer_value(json_object_get(usage, "prompt_tokens"));
		a->n_answer =
			(int)json_integer_value(json_object_get(usage, "completion_tokens"));
		a->n_cached = (int)json_integer_value(json_object_get(details, "cached_tokens"));
	}
	if (json_is_object(timings))
		a->tpot_s = 1e-3 * json_number_value(json_object_get(timings,
								     "predicted_per_token_ms"));
}

static void on_data(void *ctx, struct str data)
{
	struct exchange *x = ctx;
	if (str_is(data, "[DONE]")) {
		x->is_done = true;
		return;
	}
	json_t *chunk = json_loadb(data.p, data.n, 0, NULL);
	json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
	json_t *delta = json_object_get(choice, "delta");
	const char *message = post_said(chunk);
	const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
	if (message)
		snprintf(x->error, sizeof x->error, "%s", message);
	take_text(x, delta, "reasoning_content", true);
	take_text(x, delta, "content", false);
	take_numbers(x->a, chunk);
	if (reason && strcmp(reason, "length") == 0)
		x->a->is_cut = true;
	json_decref(chunk);
}

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
	struct exchange *x = ctx;
	long status = 0;
	curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		if (x->other.n < MAX_OTHER)
			buf_add(&x->other, p, size * n);
		return size * n;
	}
	return sse_push(&x->sse, p, size * n, on_data, x) == OK ? size * n : 0;
}

static int on_transfer(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total,
		       curl_off_t up)
{
	struct exchange *x = ctx;
	(void)total, (void)now, (void)up_total, (void)up;
	return *x->r->stop != 0;
}

/* Fails with the reason in words if the exchange gave no answer. */
static enum status judge(struct exchange *x, CURLcode code, struct fail *fail)
{
	long status = 0;
	curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_ABORTED_BY_CALLBACK) {
		x->a->is_stopped = true;
		return OK;
	}
	if (code != CURLE_OK)
		return fail_set(fail, E_IO, "no answer: %s", post_why((int)code));
	if (*x->error)
		return fail_set(fail, E_IO, "%s", x->error);
	if (status == 200)
		return x->is_done ? OK : fail_set(fail, E_IO, "the answer broke off");
	json_t *body = json_loadb(x->other.p ? x->other.p : "", x->other.n, 0, NULL);
	const char *message = post_said(body);
	enum status st = fail_set(fail, E_IO, "HTTP %ld%s%s", status, message ? ": " : "",
				  message ? message : "");
	json_decref(body);
	return st;
}

enum status chat_ask(const struct chat_server *s, const struct chat_request *r,
		     struct chat_answer *out, struct fail *fail)
{
	*out = (struct chat_answer){0};
	struct exchange x = {.r = r, .a = out,
			     .begin_us = clock_now_us(&clock_monotonic)};
	struct curl_slist *headers = post_headers(s->api_key);
	char *messages = json_dumps(r->messages, JSON_COMPACT);
	struct buf body = {0};
	buf_add_z(&body, "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
			 "\"model\":");
	buf_add_json(&body, str_of(r->model));
	buf_addf(&body, ",\"messages\":%s%s}", messages, r->options);
	x.easy = make_easy(s, "/v1/chat/completions", headers);
	enum status st = E_IO;
	if (!x.easy) {
		fail_set(fail, st, "curl gives no handle");
	} else {
		curl_easy_setopt(x.easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
		curl_easy_setopt(x.easy, CURLOPT_POSTFIELDS, body.p);
		curl_easy_setopt(x.easy, CURLOPT_WRITEFUNCTION, on_bytes);
		curl_easy_setopt(x.easy, CURLOPT_WRITEDATA, &x);
		curl_easy_setopt(x.easy, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(x.easy, CURLOPT_XFERINFOFUNCTION, on_transfer);
		curl_easy_setopt(x.easy, CURLOPT_XFERINFODATA, &x);
		st = judge(&x, curl_easy_perform(x.easy), fail);
	}
	curl_easy_cleanup(x.easy);
	curl_slist_free_all(headers);
	sse_deinit(&x.sse);
	buf_deinit(&x.other);
	buf_deinit(&body);
	free(messages);
	if (st != OK)
		chat_answer_deinit(out);
	return st;
}

void chat_answer_deinit(struct chat_answer *a)
{
	buf_deinit(&a->text);
}

/* --- the rest ----------------------------------------------------------------------- */

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *b = ctx;
	if (b->n + size * n > (size_t)1 << 20)
		return 0;
	buf_add(b, p, size * n);
	return size * n;
}

long chat_get(const struct chat_server *s, const char *path, json_t **out)
{
	struct curl_slist *headers = post_headers(s->api_key);
	struct buf body = {0};
	long status = -CURLE_FAILED_INIT;
	CURL *easy = make_easy(s, path, headers);
	*out = NULL;
	if (easy) {
		curl_easy_setopt(easy, CURLOPT_TIMEOUT, 30L);
		curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
		curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
		status = -(long)curl_easy_perform(easy);
		if (status == CURLE_OK)
			curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		*out = json_loadb(body.p ? body.p : "", body.n, 0, NULL);
	}
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
	buf_deinit(&body);
	return status;
}
