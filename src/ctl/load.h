/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a server with many streamed completions, `concurrency` of them at a time. Thread: main.
 */
#pragma once
#include <jansson.h>

#include "ctl/options.h"
#include "ctl/samples.h"

struct load_opts {
	const char *url;   /* "http://127.0.0.1:8080", no slash at the end */
	const char *model; /* as the server names it */
	const char *api_key; /* NULL: none */
	int n_requests, concurrency;
	int n_input, n_output; /* tokens */
	int n_vocab;           /* ids in prompts are below this */
	uint64_t seed;
	int timeout_s;         /* limit for one request */
};

struct load_result {
	struct samples ttft_ms, tpot_ms, itl_ms, e2e_ms;
	int n_good, n_failed;
	int n_short; /* complete answers with fewer tokens than asked for */
	int n_mute;  /* answers whose tokens have no text, by the server's count: their TTFT and
		      * TPOT are not known */
	int64_t n_output;
	double seconds;       /* from the first request sent to the last byte received */
	char error[240];      /* error of the first request that failed */
};

/* E_IO if curl cannot be set up. Requests that fail are only counted. */
enum status load_run(const struct load_opts *o, struct load_result *out,
		     struct fail *fail) MUST_USE;
void load_result_deinit(struct load_result *r);
/* Ends the object of --json by its member "error", null for NULL, and prints it. */
void load_print_json(struct buf *b, const char *error);

/* A server as the options --url, --model and --api-key name it. */
struct load_server {
	char *url, *model;   /* no slash at the end; as the server names it */
	const char *api_key; /* NULL: none */
};

#define LOAD_SERVER_OPTIONS(o) \
	{"url", 'u', OPTION_TEXT, &(o).url, 0, 0, "URL", "the server (http://127.0.0.1:8080)"}, \
	{"model", 'm', OPTION_TEXT, &(o).model, 0, 0, "NAME", \
	 "as the server names it (the first it lists)"}, \
	{"api-key", 0, OPTION_TEXT, &(o).api_key, 0, 0, "KEY", \
	 "sent as a bearer token (that of OPENAI_API_KEY)"}

/* Starts curl. model NULL: the first that the server lists; api_key NULL: that of OPENAI_API_KEY.
 * Call load_server_close also after a failure. */
enum status load_server_open(const char *url, const char *model, const char *api_key,
			     struct load_server *out, struct fail *fail) MUST_USE;
void load_server_close(struct load_server *s);
/* The list that the server's /v1/models has, at least one; the caller's. */
enum status load_server_models(const struct load_server *s, json_t **out,
			       struct fail *fail) MUST_USE;
