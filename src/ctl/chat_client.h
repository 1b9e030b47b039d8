/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets a streamed answer from a server that speaks the OpenAI API. Thread: main.
 */
#pragma once
#include <jansson.h>
#include <signal.h>

#include "base/buf.h"

struct chat_server {
	const char *url;         /* "http://127.0.0.1:8080"; no slash at the end */
	const char *unix_socket; /* socket file to connect to; NULL: TCP */
	const char *api_key;     /* NULL: none */
};

struct chat_request {
	const char *model;
	json_t *messages;
	const char *options; /* further JSON fields of the request, as in ",\"seed\":1"; "" for
			      * none */
	/* If *stop becomes other than 0, the answer ends; the text so far is kept. */
	const volatile sig_atomic_t *stop;
	/* Receives each piece of the answer, or of the reasoning before it. */
	void (*on_text)(void *ctx, bool is_reasoning, struct str text);
	void *ctx;
};

struct chat_answer {
	struct buf text;         /* the answer without its reasoning */
	bool is_stopped, is_cut; /* ended by *stop; ended by the limit of its length */
	double ttft_s, tpot_s;   /* 0: unknown */
	int n_prompt, n_cached, n_answer; /* tokens, as the server counted */
};

/* E_IO: there is no answer; the message is the server's or curl's. */
enum status chat_ask(const struct chat_server *s, const struct chat_request *r,
		     struct chat_answer *out, struct fail *fail) MUST_USE;
void chat_answer_deinit(struct chat_answer *a);
/* GET of `path` ("/v1/models"); *out is the JSON body, or NULL if the body is no JSON. Returns
 * the HTTP status; zero or less: there is no response, but a CURLcode with a minus. */
long chat_get(const struct chat_server *s, const char *path, json_t **out);
