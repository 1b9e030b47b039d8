/* SPDX-License-Identifier: Apache-2.0 */
#include <microhttpd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "http/conn.h"
#include "http/recent.h"

#define JSON "application/json"

void answer_set(struct conn *c, int status, const char *type, struct buf *body)
{
	c->answer.status = status;
	c->answer.type = type;
	buf_deinit(&c->answer.body);
	c->answer.body = *body;
	*body = (struct buf){0};
	conn_watch(c, false); /* from here on libmicrohttpd notices a client that goes */
	conn_set_state(c, CONN_ANSWERING);
}

void answer_set_file(struct conn *c, const char *type, int fd, int64_t n)
{
	struct buf nothing = {0};
	answer_set(c, 200, type, &nothing);
	if (n > 0) {
		c->answer.fd = fd;
		c->answer.n_file = n;
	} else {
		close(fd);
	}
}

/* The label of halod_requests_rejected_total. */
static const char *reason_of(enum status s)
{
	switch (s) {
	case E_QUEUE_FULL: return "queue_full";
	case E_CTX_LEN: return "too_long";
	case E_JSON: return "bad_json";
	case E_TOO_LARGE: return "too_large";
	case E_MODEL: return "model";
	case E_DRAINING: return "draining";
	case E_LOADING: return "loading";
	case E_AUTH: return "auth";
	case E_BODIES: return "memory";
	case E_ORIGIN: return "origin";
	case E_KEY_LIMIT: return "key_limit";
	case E_TIMEOUT: return "timeout";
	default: return status_http(s) == 400 ? "bad_request" : "other";
	}
}

/* Seconds after which to ask again: OpenAI's clients wait so long and retry. 0: no retry. */
static int retry_after_s(enum status s)
{
	switch (status_http(s)) {
	case 429: return 1;
	case 503: return s == E_DRAINING ? 5 : 2;
	default: return 0;
	}
}

/* Does the client speak Anthropic's API? At addresses that both APIs have, and at those that
 * are not served, the header tells. */
static bool is_anthropic(const struct conn *c)
{
	return (c->route && (c->route->flags & ROUTE_ANTHROPIC)) ||
	       (c->mhd && MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND,
						      "anthropic-version"));
}

static void format_fail(const struct conn *c, const struct fail *f, struct buf *out)
{
	if (c->route && (c->route->flags & ROUTE_OLLAMA))
		api_error_format_ollama(f, out);
	else if (is_anthropic(c))
		api_error_format_anthropic(f, out);
	else
		api_error_format(f, out);
}

static void count_refusal(struct conn *c, const struct fail *f)
{
	bool is_faulty = c->sock && c->sock->fault.code != OK;
	if (is_faulty || (c->route && (c->route->flags & ROUTE_WORK))) {
		metric_add_by(METRIC_REQUESTS_REJECTED, reason_of(f->code), 1);
		recent_refused(c->http->recent, server_now(c->http));
	}
}

void answer_fail_event(struct conn *c, const struct fail *f, struct buf *out)
{
	count_refusal(c, f);
	buf_add_z(out, is_anthropic(c) ? "event: error\ndata: " : "data: ");
	format_fail(c, f, out);
	buf_add_z(out, "\n\n");
}

void answer_fail(struct conn *c, const struct fail *f)
{
	struct buf body = {0};
	format_fail(c, f, &body);
	count_refusal(c, f);
	c->answer.retry_after_s = retry_after_s(f->code);
	answer_set(c, status_http(f->code), JSON, &body);
}

void answer_item(struct conn *c, enum status st, struct buf *b)
{
	if (st == OK)
		answer_set(c, 200, JSON, b);
	else
		answer_fail(c, &c->fail);
	buf_deinit(b);
}

void answer_header(struct conn *c, struct MHD_Response *r, const char *name, const char *value)
{
	if (MHD_add_response_header(r, name, value) == MHD_YES)
		return;
	log_error("%s: the header %s cannot be added to the answer", c->id, name);
	c->answer.is_spoilt = true;
}

void answer_add_headers(struct conn *c, struct MHD_Response *r)
{
	answer_header(c, r, "X-Request-Id", c->id);
	if (is_anthropic(c))
		answer_header(c, r, "Request-Id", c->id);
	if (!c->is_offloaded && c->call && api_call_ignored(c->call)[0])
		answer_header(c, r, "X-Halod-Ignored", api_call_ignored(c->call));
	access_add_headers(c, r);
	/* Near the server's end, and after a fault, the connection is not kept for a next
	 * request. Where the answer comes before the body's end, libmicrohttpd closes by
	 * itself. */
	if (server_health(c->http) >= HEALTH_LEAVING || c->sock->fault.code != OK)
		answer_header(c, r, "Connection", "close");
}

/* libmicrohttpd's response frees the body's memory, and closes the file. An empty body has no
 * memory. */
static struct MHD_Response *make_response(struct answer *a)
{
	size_t n = a->body.n;
	if (a->n_file > 0) {
		struct MHD_Response *r =
			MHD_create_response_from_fd64((uint64_t)a->n_file, a->fd);
		if (r)
			a->n_file = 0;
		return r;
	}
	return n ? MHD_create_response_from_buffer(n, buf_take(&a->body), MHD_RESPMEM_MUST_FREE)
		 : MHD_create_response_from_buffer(0, (void *)(uintptr_t) "",
						   MHD_RESPMEM_PERSISTENT);
}

bool answer_queue(struct conn *c)
{
	struct answer *a = &c->answer;
	char number[16];
	size_t n = a->n_file > 0 ? (size_t)a->n_file : a->body.n;
	struct MHD_Response *r = make_response(a);
	if (!r)
		return false;
	answer_add_headers(c, r);
	if (a->type)
		answer_header(c, r, "Content-Type", a->type);
	if (a->is_page)
		page_root_add_headers(c, r);
	else if (a->type)
		answer_header(c, r, "Cache-Control", "no-store");
	if (a->allow.n)
		answer_header(c, r, "Allow", a->allow.p);
	if (a->retry_after_s) {
		snprintf(number, sizeof number, "%d", a->retry_after_s);
		answer_header(c, r, "Retry-After", number);
	}
	c->stream.n_sent = strcmp(c->method, "HEAD") == 0 ? 0 : n;
	bool is_queued = !a->is_spoilt &&
			 MHD_queue_response(c->mhd, (unsigned)a->status, r) == MHD_YES;
	MHD_destroy_response(r);
	return is_queued;
}
