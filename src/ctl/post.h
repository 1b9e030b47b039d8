/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON over HTTP: requests to a server that speaks the OpenAI API. Thread: main.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

struct post {
	const char *url;     /* "http://127.0.0.1:8080/v1/chat/completions" */
	const char *api_key; /* NULL: none */
	long timeout_s;      /* limit for one request */
};

struct post_answer {
	long status;     /* HTTP status; 0: no response came */
	json_t *body;    /* NULL: the response is no JSON */
	char error[320]; /* why there is no body; "" if there is one */
};

/* Sends n bodies at the same time and waits for all answers. out: (n); call post_answer_deinit
 * for each. E_IO if curl cannot be set up. A request that fails has `error` set in its
 * answer. */
enum status post_json(const struct post *p, json_t *const *bodies, int n,
		      struct post_answer *out, struct fail *fail) MUST_USE;
/* The answer to one streamed request: its chunks, as a JSON array. */
enum status post_stream(const struct post *p, json_t *body, struct post_answer *out,
			struct fail *fail) MUST_USE;
/* The headers of every request, for curl_slist_free_all, and a handle of curl with the options of
 * every request; NULL: curl has no memory. headers: borrowed by the handle. */
struct curl_slist *post_headers(const char *api_key);
void *post_easy(const char *url, struct curl_slist *headers, long timeout_s);
/* The message of an error in OpenAI's form; NULL: v has none. It is v's. */
const char *post_said(const json_t *v);
/* Why a transfer failed, and what to type if nobody answers. code: a CURLcode. */
const char *post_why(int code);
void post_answer_deinit(struct post_answer *a);
