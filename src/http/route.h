/* SPDX-License-Identifier: Apache-2.0
 *
 * Which handler answers an address: the rows of api/endpoint.def. Thread: any.
 */
#pragma once
#include "api/api.h"

struct conn;

enum route_flags {
	ROUTE_READY = 1, /* 503 until the model is loaded */
	ROUTE_WORK = 2,  /* takes a body and makes the engine work */
	ROUTE_OPEN = 4,  /* needs no API key */
	ROUTE_SCRAPED = 8, /* needs a key only where metrics_need_key is set */
	ROUTE_SLOW = 32, /* waits for another model: few of these at a time */
	ROUTE_OLLAMA = 128, /* errors in Ollama's shape */
	ROUTE_ANY = 4096, /* any model's api answers alike */
	ROUTE_LOOK = 1024, /* a model that is not in memory is described without loading it */
	ROUTE_ROWS = 2048, /* answered also where no model is in memory */
	ROUTE_FORM = 256, /* the body is a form with a file */
	ROUTE_HEARS = 512, /* for the listener of row.h */
	ROUTE_PROBE = 64, /* answers under any Host */
	ROUTE_ANTHROPIC = 16, /* errors and the id's header in Anthropic's shape */
};

struct route {
	const char *method, *path;
	/* Sets the connection's answer, or starts its call. */
	void (*handler)(struct conn *c);
	unsigned flags;
	const struct dialect *dialect; /* the engine answers in this shape; else NULL */
	api_text_fn text;              /* answers without the engine; else NULL */
};

/* The path of a request target without a query. "http://host/x" gives "/x": RFC 9112
 * demands it, since a client may address a server like a proxy. */
struct str route_path(const char *target);

/* Has the target's query an argument of this name? Then *out_value: its value, as sent; ""
 * where it has none. The first one counts. */
bool route_argument(struct str target, const char *name, struct str *out_value);

/* E_NOT_FOUND: no such path; E_METHOD: the path has other methods. *out_tail: what the
 * row's "*" stands for. OPTIONS has no row: see route_allow. */
enum status route_find(struct str method, struct str path,
		       const struct route **out, struct str *out_tail) MUST_USE;

/* Appends the methods of this path, "GET, HEAD, OPTIONS"; for the path "*" all methods.
 * Appends nothing where there is no such path. */
void route_allow(struct str path, struct buf *out);
