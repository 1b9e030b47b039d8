/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the Responses API share: what a call's body leaves for its
 * answer. Thread: one at a time.
 */
#pragma once
#include "api/api_dialect.h"

struct responses {
	char id[40];        /* "resp_…": random, for whoever knows it may go on with it */
	struct buf echo;    /* members of the body that every response object repeats */
	struct buf history; /* messages of the chat without instructions, as JSON */
	struct buf input;   /* the body's own items, as JSON, each with an id */
	bool stores;
	int64_t created;
	int64_t n_events; /* of the stream so far */
};

/* struct dialect's first; makes c->state. */
enum status responses_to_chat(const struct json_node *body, struct api_call *c,
			      struct dialect_body *to, struct fail *fail) MUST_USE;
