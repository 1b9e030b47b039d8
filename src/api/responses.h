/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the Responses API share: the state that reading a body leaves for
 * writing its answer. Thread: one at a time.
 */
#pragma once
#include "api/api_dialect.h"

struct responses {
	/* "resp_…"; random, since whoever knows it may continue the conversation */
	char id[40];
	struct buf echo;    /* members of the body that every response object repeats */
	struct buf history; /* the chat's messages without instructions, as JSON */
	struct buf input;   /* the body's own items, as JSON, each with an id */
	bool stores;
	int64_t created;
	int64_t n_events; /* sent in the stream so far */
};

/* The dialect's rewrite function (struct dialect). Makes c->state. */
enum status responses_to_chat(const struct json_node *body, struct api_call *c,
			      struct dialect_body *to, struct fail *fail) MUST_USE;
