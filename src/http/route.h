/* SPDX-License-Identifier: Apache-2.0
 *
 * Which handler answers an address: the rows of api/endpoint.def. Thread: any.
 */
#pragma once
#include "api/api.h"

struct conn;

enum route_flags {
	ROUTE_READY = 1, /* needs the model */
	ROUTE_WORK = 2,  /* takes a body and makes the engine work */
	ROUTE_OPEN = 4,  /* needs no API key */
	ROUTE_SCRAPED = 8, /* needs one where metrics_need_key is set */
	ROUTE_SLOW = 32, /* a worker thread answers, whatever the body's size */
	ROUTE_ANTHROPIC = 16, /* errors and the id's header as Anthropic has them */
};

struct route {
	const char *method, *path;
	/* Sets the connection's answer, or starts its call. */
	void (*handler)(struct conn *c);
	unsigned flags;
	const struct dialect *dialect; /* a call of the engine; else NULL */
	api_text_fn text;              /* answers without the engine; else NULL */
};

/* The path of a request target: "http://host/x" is "/x", as RFC 9112 wants it of a
 * server that is asked like a proxy. The target's query is already cut off. */
struct str route_path(const char *target);

/* E_NOT_FOUND: no such path; E_METHOD: not with this method. *out_tail: what the "*"
 * of the row stands for. OPTIONS is not a row: see route_allow. */
enum status route_find(struct str method, struct str path,
		       const struct route **out, struct str *out_tail) MUST_USE;

/* Append the methods this path answers, "GET, HEAD, OPTIONS"; all there are for
 * "*". Nothing when there is no such path. */
void route_allow(struct str path, struct buf *out);
