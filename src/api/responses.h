/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the Responses API share: the state that reading a body leaves for
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
	json_t *names; /* offered name to [namespace, name] of its tool; NULL: no namespaces */
	bool stores;
	bool seals; /* reasoning is sent in encrypted_content, too */
	int64_t created;
	int64_t n_events; /* sent in the stream so far */
};

/* The dialect's rewrite function (struct dialect). Makes c->state. */
enum status responses_to_chat(const struct json_node *body, struct api_call *c,
			      struct dialect_body *to, struct fail *fail) MUST_USE;

/* What reasoning in encrypted_content begins with. The reasoning itself follows: it is no
 * secret of this server. */
#define RESPONSES_SEAL "halod:"

/* The name by which a tool of a namespace is offered. Without a namespace: its own. */
void responses_join_name(struct str space, struct str name, struct buf *out);

/* *out: a copy of the list `at`, in which each item_reference is the item itself, for the
 * caller to free; NULL: there is no reference. E_INVAL: the store has no such item of this
 * owner. */
enum status responses_resolve(const struct json_node *at, const struct api_call *c,
			      json_t **out, struct fail *fail) MUST_USE;
/* Adds the items of `input` to the chat's messages. */
enum status responses_read_items(const struct json_node *at, json_t *messages,
				 struct dialect_body *to, struct fail *fail) MUST_USE;
