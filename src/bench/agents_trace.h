/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded conversations of coding agents, as tests/bench/agents_record.py writes them: which
 * messages each request has, and how long their texts are. The words are made here, the same for
 * the same text on every machine. Thread: main.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

struct agents_message {
	char role;     /* s(ystem), u(ser), a(ssistant), t(ool) */
	int answer_of; /* the request of this talk whose answer it is; -1: none */
	int serial;    /* its number in the talk; part of the ids of its calls */
	const json_t *text, *thinking, *calls; /* ids of texts; NULL: none. The trace owns them. */
};

struct agents_request {
	const struct agents_message **messages; /* (n) */
	int n;
	int keep;            /* messages at the front that the request before had, too */
	const json_t *tools; /* ids of texts; NULL: none */
	int n_answer;        /* bytes of what the model answered */
};

/* A conversation: of an agent, or of a subagent. */
struct agents_talk {
	int parent; /* the talk that started it; -1: it begins at once */
	int after;  /* … with the answer to this request; its next one waits for this talk's end */
	struct agents_request *requests; /* (n) */
	int n, n_messages;
	struct agents_message *messages; /* (n_messages) all that its requests have */
};

struct agents_trace {
	json_t *root;
	struct str *texts; /* (n_texts) */
	int n_texts;
	struct agents_talk *talks; /* (n_talks) */
	int n_talks;
};

/* scale: of the lengths of all texts and answers. E_IO, E_FORMAT or E_LIMIT with the place. */
enum status agents_trace_read(const char *path, double scale, struct agents_trace *out,
			      struct fail *fail) MUST_USE;
void agents_trace_deinit(struct agents_trace *t);

/* What a server has said to a request. */
struct agents_answer {
	char *text, *thinking; /* NULL: it has not answered, and the recorded message stands */
	json_t *calls;         /* its whole calls, as the API has them; NULL: none */
};

/* A request as chat completions have it. answers: (talk->n) */
struct agents_body {
	struct buf json; /* "messages":[…],"tools":[…] */
	struct buf flat; /* all of its words in the order of a prompt, to compare requests */
};
void agents_render(const struct agents_trace *t, int talk, int request,
		   const struct agents_answer *answers, struct agents_body *out);
void agents_body_deinit(struct agents_body *b);
