/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/post.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "ctl/sse_read.h"

#define MAX_BODY ((size_t)16 << 20)

struct post_transfer {
	CURL *easy;
	char *sent;
	struct buf got;
};

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
	struct buf *b = ctx;
	if (b->n + size * n > MAX_BODY)
		return 0; /* curl then ends the transfer */
	buf_add(b, p, size * n);
	return size * n;
}

struct curl_slist *post_headers(const char *api_key)
{
	struct curl_slist *h = curl_slist_append(NULL, "Content-Type: application/json");
	h = curl_slist_append(h, "Expect:"); /* do not wait for "100 Continue" */
	if (api_key) {
		char *line = xasprintf("Authorization: Bearer %s", api_key);
		h = curl_slist_append(h, line);
		free(line);
	}
	return h;
}

void *post_easy(const char *url, struct curl_slist *headers, long timeout_s)
{
	CURL *easy = curl_easy_init();
	if (!easy)
		return NULL;
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT, timeout_s);
	/* Ask the server itself, not a proxy that the environment names. */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	return easy;
}

static enum status post_begin(struct post_transfer *t, const struct post *p, const json_t *body,
			      struct curl_slist *headers, struct fail *fail)
{
	t->sent = json_dumps(body, JSON_COMPACT);
	t->easy = post_easy(p->url, headers, p->timeout_s);
	if (!t->easy || !t->sent)
		return fail_set(fail, E_IO, "curl gives no handle");
	curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->sent);
	curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, &t->got);
	return OK;
}

const char *post_said(const json_t *v)
{
	return json_string_value(json_object_get(json_object_get(v, "error"), "message"));
}

const char *post_why(int code)
{
	if (code == CURLE_COULDNT_CONNECT)
		return "nobody answers there. halod --model DIR or systemctl start halod starts a "
		       "server; --url names another address";
	if (code == CURLE_COULDNT_RESOLVE_HOST)
		return "there is no host of this name; --url names another address";
	if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT)
		return "this is no address of a server; --url is as http://127.0.0.1:8080";
	return curl_easy_strerror((CURLcode)code);
}

static void set_error(struct post_answer *a, const char *url, const char *why)
{
	snprintf(a->error, sizeof a->error, "%.120s: %s", url, why);
}

/* Sets the answer's error: the message in the body if it has OpenAI's form, else a general one. */
static void post_finish(struct post_transfer *t, const struct post *p, CURLcode code,
			struct post_answer *out)
{
	if (code != CURLE_OK) {
		set_error(out, p->url, post_why((int)code));
		return;
	}
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &out->status);
	out->body = json_loadb(t->got.p ? t->got.p : "", t->got.n, 0, NULL);
	if (!out->body)
		set_error(out, p->url, "the answer is not JSON");
	else if (out->status != 200) {
		const char *said = post_said(out->body);
		snprintf(out->error, sizeof out->error, "HTTP %ld: %.150s", out->status,
			 said ? said : "no message");
	}
}

static void transfer_deinit(struct post_transfer *t)
{
	curl_easy_cleanup(t->easy);
	free(t->sent);
	buf_deinit(&t->got);
}

static enum status drive_transfers(CURLM *multi, struct fail *fail)
{
	for (int running = 1; running;) {
		CURLMcode code = curl_multi_perform(multi, &running);
		if (code == CURLM_OK && running)
			code = curl_multi_poll(multi, NULL, 0, 1000, NULL);
		if (code != CURLM_OK)
			return fail_set(fail, E_IO, "curl: %s", curl_multi_strerror(code));
	}
	return OK;
}

static void collect(CURLM *multi, struct post_transfer *t, int n, const struct post *p,
		    struct post_answer *out)
{
	int left;
	for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));)
		for (int i = 0; i < n; i++)
			if (m->msg == CURLMSG_DONE && t[i].easy == m->easy_handle)
				post_finish(&t[i], p, m->data.result, &out[i]);
}

enum status post_json(const struct post *p, json_t *const *bodies, int n,
		      struct post_answer *out, struct fail *fail)
{
	struct post_transfer *t = xcalloc((size_t)n, sizeof *t);
	struct curl_slist *headers = post_headers(p->api_key);
	CURLM *multi = curl_multi_init();
	enum status st = multi ? OK : fail_set(fail, E_IO, "curl gives no handle");
	memset(out, 0, (size_t)n * sizeof *out);
	for (int i = 0; i < n && st == OK; i++) {
		st = post_begin(&t[i], p, bodies[i], headers, fail);
		if (st == OK && curl_multi_add_handle(multi, t[i].easy) != CURLM_OK)
			st = fail_set(fail, E_IO, "curl takes no request");
	}
	if (st == OK)
		st = drive_transfers(multi, fail);
	if (st == OK)
		collect(multi, t, n, p, out);
	for (int i = 0; i < n; i++) {
		if (multi && t[i].easy)
			curl_multi_remove_handle(multi, t[i].easy);
		transfer_deinit(&t[i]);
	}
	curl_multi_cleanup(multi);
	curl_slist_free_all(headers);
	free(t);
	return st;
}

struct post_chunks {
	json_t *array;
	bool is_done; /* [DONE] was seen */
};

static void on_data(void *ctx, struct str data)
{
	struct post_chunks *c = ctx;
	if (str_is(data, "[DONE]"))
		c->is_done = true;
	else
		json_array_append_new(c->array, json_loadb(data.p, data.n, 0, NULL));
}

enum status post_stream(const struct post *p, json_t *body, struct post_answer *out,
			struct fail *fail)
{
	struct post_transfer t = {0};
	struct curl_slist *headers = post_headers(p->api_key);
	struct post_chunks chunks = {.array = json_array()};
	struct sse sse = {0};
	*out = (struct post_answer){0};
	enum status st = post_begin(&t, p, body, headers, fail);
	if (st == OK) {
		CURLcode code = curl_easy_perform(t.easy);
		if (code == CURLE_OK)
			curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &out->status);
		if (code != CURLE_OK)
			set_error(out, p->url, post_why((int)code));
		else if (out->status != 200)
			post_finish(&t, p, code, out);
		else if (sse_push(&sse, t.got.p ? t.got.p : "", t.got.n, on_data, &chunks) != OK ||
			 !chunks.is_done)
			set_error(out, p->url, "the stream ended without [DONE]");
		else
			out->body = json_incref(chunks.array);
	}
	sse_deinit(&sse);
	json_decref(chunks.array);
	transfer_deinit(&t);
	curl_slist_free_all(headers);
	return st;
}

void post_answer_deinit(struct post_answer *a)
{
	json_decref(a->body);
	a->body = NULL;
}
