/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays a trace of agents against a server, as their clients would. Each request has the
 * server's own earlier answers. Subagents run at the same time. The agent that started them waits
 * for them. Thread: main.
 */
#pragma once
#include "bench/agents_trace.h"

struct agents_opts {
	const char *url;     /* "http://127.0.0.1:8080", no slash at the end */
	const char *model;   /* as the server names it */
	const char *api_key; /* NULL: none */
	int timeout_s;       /* limit for one request */
};

/* Why tokens of a prompt had to be computed. */
enum agents_why {
	AGENTS_NEW,       /* the conversation went on: only what is new */
	AGENTS_SUBAGENT,  /* a subagent began */
	AGENTS_EDITED,    /* the client changed its history, or its tools */
	AGENTS_COMPACTED, /* … replaced it by a summary, or asked for one */
	AGENTS_THINKING,  /* thinking of earlier turns is not in the prompt */
	AGENTS_RENDERED,  /* the server wrote the same words in other tokens */
	AGENTS_EVICTED,   /* the server has dropped what it computed */
	AGENTS_UNTOLD,    /* it did not find what it had computed, and does not say why */
	AGENTS_WHYS,
};
const char *agents_why_name(enum agents_why why);

struct agents_turn {
	int talk, request;
	double ms, first_ms; /* from the request to the last byte, and to the first token */
	int n_prompt, n_answer; /* tokens, as the server counted; 0: it did not tell */
	int n_computed; /* prompt tokens that were not cached; -1: the server did not tell */
	/* Prompt tokens behind those with which an earlier prompt begins, too: counted where the
	 * conversation went on, else estimated by bytes. A server that finds its own answer
	 * computes less. */
	int n_needed;
	enum agents_why why;
};

struct agents_result {
	struct agents_turn *turns; /* (n) as they ended */
	int n, n_failed;
	double seconds;  /* from the first request to the last byte */
	char error[240]; /* of the first request that failed; its talk ends there */
};

/* E_IO if curl cannot be set up. Requests that fail are counted. */
enum status agents_run(const struct agents_trace *t, const struct agents_opts *o,
		       struct agents_result *out, struct fail *fail) MUST_USE;
void agents_result_deinit(struct agents_result *r);
