/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/sse_call.h"

#include <curl/curl.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "ctl/post.h"

#define MAX_ERROR_BYTES 4096

static void note_error(struct sse_call *s, const char *text)
{
	if (!*s->error)
		snprintf(s->error, sizeof s->error, "%s", text);
}

static void on_data(void *ctx, struct str data)
{
	struct sse_call *s = ctx;
	if (str_is(data, "[DONE]")) {
		s->is_done = true;
		return;
	}
	json_t *chunk = json_loadb(data.p, data.n, 0, NULL);
	if (!chunk)
		note_error(s, "a chunk is not JSON");
	else if (json_object_get(chunk, "error"))
		note_error(s, post_said(chunk) ? post_said(chunk) : "an error without a message");
	if (json_is_object(chunk))
		s->on_chunk(s, chunk);
	json_decref(chunk);
}

static size_t on_bytes(char *p, size_t size, size_t n, void *ctx)
{
	struct sse_call *s = ctx;
	long status = 0;
	n *= size;
	s->now_us = clock_now_us(&clock_monotonic);
	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200) {
		if (s->other.n < MAX_ERROR_BYTES)
			buf_add(&s->other, p, MIN(n, MAX_ERROR_BYTES));
		return n;
	}
	if (sse_push(&s->sse, p, n, on_data, s) == OK)
		return n;
	note_error(s, "a line of the stream is too long");
	return 0;
}

/* Notes why it is no whole answer, if it is none. */
static void judge(struct sse_call *s, CURLcode code)
{
	char text[200];
	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &s->status);
	if (code != CURLE_OK) {
		note_error(s, post_why((int)code));
	} else if (s->status != 200) {
		struct str other = buf_str(&s->other);
		json_t *v = json_loadb(other.n ? other.p : "", other.n, 0, NULL);
		snprintf(text, sizeof text, "HTTP %ld: %.160s", s->status,
			 post_said(v) ? post_said(v) : other.n ? other.p : "no message");
		note_error(s, text);
		json_decref(v);
	} else if (!s->is_done) {
		note_error(s, "the stream ended without [DONE]");
	}
}

void sse_call_deinit(struct sse_call *s)
{
	curl_easy_cleanup(s->easy);
	buf_deinit(&s->body);
	buf_deinit(&s->other);
	sse_deinit(&s->sse);
	s->easy = NULL;
}

enum status sse_calls_open(struct sse_calls *all, const char *url, const char *api_key,
			   long timeout_s, struct fail *fail)
{
	*all = (struct sse_calls){.multi = curl_multi_init(), .headers = post_headers(api_key),
				  .url = url, .timeout_s = timeout_s};
	return all->multi ? OK : fail_set(fail, E_IO, "curl gives no handle");
}

enum status sse_calls_start(struct sse_calls *all, struct sse_call *s, struct fail *fail)
{
	s->easy = post_easy(all->url, all->headers, all->timeout_s);
	if (!s->easy)
		return fail_set(fail, E_IO, "curl gives no handle");
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.n);
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, s->body.p);
	curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
	s->start_us = clock_now_us(&clock_monotonic);
	if (curl_multi_add_handle(all->multi, s->easy) != CURLM_OK)
		return fail_set(fail, E_IO, "curl takes no request");
	LIST_INSERT_HEAD(&all->active, s, link);
	all->n_active++;
	return OK;
}

static void end_call(struct sse_calls *all, struct sse_call *s)
{
	curl_multi_remove_handle(all->multi, s->easy);
	LIST_REMOVE(s, link);
	all->n_active--;
	s->on_end(s);
}

static void end_ready(struct sse_calls *all)
{
	int left;
	for (CURLMsg *m; (m = curl_multi_info_read(all->multi, &left));) {
		struct sse_call *s = NULL;
		if (m->msg != CURLMSG_DONE)
			continue;
		CURLcode code = m->data.result;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
		judge(s, code);
		end_call(all, s);
	}
}

enum status sse_calls_go_on(struct sse_calls *all, struct fail *fail)
{
	int running;
	CURLMcode code = curl_multi_perform(all->multi, &running);
	/* If a request has ended, the caller starts the next one before it waits. */
	if (code == CURLM_OK && running == all->n_active)
		code = curl_multi_poll(all->multi, NULL, 0, 1000, NULL);
	if (code != CURLM_OK)
		return fail_set(fail, E_IO, "curl: %s", curl_multi_strerror(code));
	end_ready(all);
	return OK;
}

void sse_calls_close(struct sse_calls *all)
{
	for (struct sse_call *s; (s = LIST_FIRST(&all->active));) {
		note_error(s, "it was broken off: another request failed");
		end_call(all, s);
	}
	curl_multi_cleanup(all->multi);
	curl_slist_free_all(all->headers);
}
