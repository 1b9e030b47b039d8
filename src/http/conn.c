/* SPDX-License-Identifier: Apache-2.0 */
#include "http/conn.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"

/* A client that sends its body slower than this, for long, is taken for an attacker. */
#define UPLOAD_MIN_BYTES_PER_S 4096

/* --- state ---------------------------------------------------------------------- */

static const char *const state_names[] = {
#define X(id, name) [CONN_##id] = name,
	CONN_STATES(X)
#undef X
};

#define TO(s) (1u << CONN_##s)
static const unsigned edges[] = {
	[CONN_RECEIVING] = TO(WAITING) | TO(PARSING) | TO(ANSWERING),
	[CONN_WAITING] = TO(PARSING) | TO(STREAMING) | TO(ANSWERING) | TO(GONE),
	[CONN_PARSING] = TO(WAITING) | TO(QUEUED) | TO(ANSWERING) | TO(GONE),
	[CONN_QUEUED] = TO(RUNNING) | TO(STREAMING) | TO(ANSWERING) | TO(GONE),
	[CONN_RUNNING] = TO(ANSWERING) | TO(GONE),
	[CONN_STREAMING] = TO(ANSWERING) | TO(GONE),
	[CONN_ANSWERING] = 0,
	[CONN_GONE] = 0,
};
#undef TO

void conn_set_state(struct conn *c, enum conn_state to)
{
	assert(edges[c->state] & (1u << to));
	log_debug("%s: %s -> %s", c->id, state_names[c->state], state_names[to]);
	c->state = to;
}

/* --- birth ---------------------------------------------------------------------- */

struct conn *conn_create(struct http *h, struct sock *s, struct MHD_Connection *mhd)
{
	struct conn *c = xcalloc(1, sizeof *c);
	c->http = h;
	c->sock = s;
	c->mhd = mhd;
	c->target = xstrndup(s->target.n ? s->target.p : "", MIN(s->target.n, 512));
	snprintf(c->client, sizeof c->client, "%s", s->client);
	c->arrival_us = server_now(h);
	c->body = (struct body){
		.max_bytes = h->opts.max_body_bytes,
		.total = &h->body_bytes,
		.max_total = h->opts.body_memory_bytes,
	};
	s->conn = c;
	LIST_INSERT_HEAD(&h->conns, c, link);
	return c;
}

/* True: short, and of characters that a log line and a header can hold. */
static bool is_sane_id(const char *s)
{
	size_t n = s ? strlen(s) : 0;
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] >= 0x7F)
			return false;
	return n > 0 && n <= CONN_ID_MAX;
}

static void set_id(struct conn *c)
{
	const char *sent = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND,
						       "X-Request-Id");
	if (is_sane_id(sent)) {
		snprintf(c->id, sizeof c->id, "%s", sent);
		return;
	}
	memcpy(c->id, "req-", 4);
	random_hex(12, c->id + 4);
}

/* --- headers -------------------------------------------------------------------- */

/* Decides by the headers alone whether this request is refused, and why. */
static enum status admit(struct conn *c, struct str path, int64_t length)
{
	struct http *h = c->http;
	struct fail *f = &c->fail;
	enum status status =
		route_find(str_of(c->method), path, &c->route, &c->tail);
	if (status == E_NOT_FOUND)
		return fail_set(f, status, "there is nothing at %.*s",
				(int)MIN(path.n, 200), path.p);
	if (status == E_METHOD) {
		route_allow(path, &c->answer.allow);
		return fail_set(f, status, "%s is not allowed here", c->method);
	}
	if (access_check(c, f) != OK || access_check_body(c, f) != OK)
		return f->code;
	if (c->route->flags & ROUTE_FORM) {
		c->body.is_form = true;
		c->body.max_bytes = h->opts.max_upload_bytes;
	}
	http_beat(h); /* an engine that has failed just now gets no more work */
	enum health_state state = server_health(h);
	if ((c->route->flags & ROUTE_READY) && !h->is_ready)
		return fail_set(f, E_LOADING, "%s", status_text(E_LOADING));
	if ((c->route->flags & ROUTE_WORK) && state == HEALTH_DRAINING)
		return fail_set(f, E_DRAINING, "%s", status_text(E_DRAINING));
	if ((c->route->flags & ROUTE_WORK) && state == HEALTH_FAILED)
		return fail_set(f, E_DRAINING,
				"the engine has failed; the server is restarting");
	if (length > 0 && (uint64_t)length > c->body.max_bytes)
		return fail_set(f, E_TOO_LARGE,
				"the body has %lld bytes, at most %zu are taken (%s)",
				(long long)length, c->body.max_bytes,
				c->body.is_form ? "max_upload" : "max_body");
	if ((c->route->flags & ROUTE_WORK) && length > 0 &&
	    body_expect(&c->body, (size_t)length) != OK)
		return fail_set(f, E_BODIES, "%s", status_text(E_BODIES));
	return OK;
}

/* Answers OPTIONS from the table of routes. False: another method, or no such path. */
static bool answer_options(struct conn *c, struct str path)
{
	struct buf allow = {0}, nothing = {0};
	if (strcmp(c->method, "OPTIONS") != 0)
		return false;
	route_allow(path, &allow);
	if (allow.n == 0)
		return false;
	c->answer.status = 204;
	c->answer.allow = allow;
	c->answer.body = nothing;
	return true;
}

void conn_begin(struct conn *c, const char *target, const char *method)
{
	const struct sock *s = c->sock;
	struct str path = route_path(target);
	c->is_begun = true;
	c->http->n_active++;
	set_id(c);
	spans_begin(c);
	if (s->fault.code != OK) {
		/* The head was refused: libmicrohttpd got a harmless one in its place. */
		snprintf(c->method, sizeof c->method, "%s", s->head.method);
		c->fail = s->fault;
		answer_fail(c, &c->fail);
		return;
	}
	snprintf(c->method, sizeof c->method, "%s", method);
	if (access_check_host(c, path, &c->fail) != OK || answer_options(c, path) ||
	    admit(c, path, s->head.length) != OK ||
	    !(c->route->flags & ROUTE_WORK))
		body_discard(&c->body);
	/* A refused client is told at once if it waits for "100 Continue", or announces a
	 * body too long to be read and dropped. */
	if (c->fail.code != OK && (s->head.expects_continue ||
				   s->head.length > BODY_SWALLOW_MAX)) {
		answer_fail(c, &c->fail);
		return;
	}
	if (!c->body.is_discarded && s->head.length > 0)
		buf_reserve(&c->body.buf, MIN((size_t)s->head.length, 64u << 10));
}

bool conn_upload(struct conn *c, const char *p, size_t n)
{
	if (c->end != END_NONE)
		return false;
	if (c->state != CONN_RECEIVING)
		return true; /* answered already: the rest of the body is dropped */
	enum status status = body_add(&c->body, p, n);
	if (status == E_LIMIT)
		return false;
	if (status == E_TOO_LARGE)
		fail_set(&c->fail, status, "the body has more than %zu bytes",
			 c->body.max_bytes);
	else if (status != OK)
		fail_set(&c->fail, status, "%s", status_text(status));
	return true;
}

/* --- progress ------------------------------------------------------------------- */

/* True: it asks about a model, and nothing is there that could answer. Asked when the body is in:
 * a model may go meanwhile. */
static bool lacks_model(const struct conn *c, struct fail *fail)
{
	unsigned flags = c->route->flags;
	if (!(flags & ROUTE_READY) || (flags & (ROUTE_WORK | ROUTE_ROWS)) ||
	    row_front(c->http)->api)
		return false;
	fail_set(fail, E_LOADING, "no model is in memory: a request for one loads it");
	return true;
}

bool conn_advance(struct conn *c)
{
	if (c->end != END_NONE)
		return false;
	if (c->state == CONN_RECEIVING) {
		if (c->sock->fault.code != OK) /* the body was ended early because of this fault */
			c->fail = c->sock->fault;
		if (c->fail.code != OK)
			answer_fail(c, &c->fail);
		else if (c->answer.status) /* the answer to OPTIONS is already set */
			conn_set_state(c, CONN_ANSWERING);
		else if (lacks_model(c, &c->fail))
			answer_fail(c, &c->fail);
		else
			c->route->handler(c);
	}
	if (c->state == CONN_PARSING && !c->is_offloaded)
		call_submit(c);
	if (c->state == CONN_ANSWERING)
		return answer_queue(c);
	if (c->state == CONN_STREAMING)
		return sse_queue(c);
	MHD_suspend_connection(c->mhd);
	c->is_suspended = true;
	return true;
}

void conn_resume(struct conn *c)
{
	if (!c->is_suspended)
		return;
	c->is_suspended = false;
	MHD_resume_connection(c->mhd);
	c->http->needs_run = true;
}

void conn_drop(struct conn *c, enum conn_end why)
{
	if (c->end == END_NONE)
		c->end = why;
	call_cancel(c);
	if (!c->mhd)
		return;
	/* A resumed connection is closed by the handler or the reader, which see c->end. A
	 * connection that waits for its socket cannot be closed through libmicrohttpd. So
	 * its socket is shut down, and libmicrohttpd finds that. */
	conn_resume(c);
	if (why != END_SERVER)
		sock_lose(c->sock);
}

void conn_watch(struct conn *c, bool is_on)
{
	if (c->sock)
		sock_watch(c->sock, is_on);
}

bool conn_has_said(const struct conn *c, uint64_t n)
{
	return c->state == CONN_ANSWERING && c->answer.status && n > c->stream.n_sent;
}

/* --- end ------------------------------------------------------------------------ */

void conn_release(struct conn *c, bool is_complete)
{
	conn_watch(c, false);
	sock_next(c->sock);
	c->sock = NULL;
	c->mhd = NULL;
	c->is_suspended = false;
	atomic_store(&c->is_gone, true);
	c->tail = (struct str){"", 0};
	/* The stream was written to its end, but the client closed before libmicrohttpd
	 * read the last chunk: the answer counts as complete. */
	if (c->state == CONN_STREAMING && c->is_over && sse_pending(c) == 0)
		is_complete = true;
	if (!is_complete && c->end == END_NONE)
		c->end = END_CLIENT;
	if (c->end != END_NONE)
		call_cancel(c);
	conn_reap(c);
}

void conn_reap(struct conn *c)
{
	bool has_work = c->is_offloaded || (c->is_submitted && !c->is_over);
	if (c->mhd)
		return;
	if (has_work) {
		if (c->state != CONN_GONE)
			conn_set_state(c, CONN_GONE);
		return;
	}
	if (c->http) {
		row_release(c);
		accesslog_write(c);
		LIST_REMOVE(c, link);
		c->http->n_active -= c->is_begun;
	}
	if (c->key && c->http)
		keys_release(c->key);
	call_deinit(c);
	body_deinit(&c->body);
	buf_deinit(&c->answer.body);
	buf_deinit(&c->answer.allow);
	buf_deinit(&c->stream.buf);
	peek_deinit(&c->peek);
	if (c->answer.n_file > 0)
		close(c->answer.fd);
	free(c->target);
	free(c->type);
	free(c->item);
	free(c);
}

void conn_tick(struct conn *c, int64_t now_us)
{
	int64_t idle_us = c->http->opts.idle_s * INT64_C(1000000);
	int64_t age_us = now_us - c->arrival_us;
	if (c->state == CONN_RECEIVING) {
		int64_t earned_us = (int64_t)(c->body.n_read * 1000000 /
					      UPLOAD_MIN_BYTES_PER_S);
		struct fail slow;
		if (age_us <= 2 * idle_us + earned_us || c->sock->fault.code != OK)
			return;
		fail_set(&slow, E_SLOW, "the body comes too slowly");
		if (!sock_end_body(c->sock, &slow))
			conn_drop(c, END_TIMEOUT);
	} else if (c->state == CONN_QUEUED || c->state == CONN_STREAMING ||
		   c->state == CONN_WAITING) {
		row_tick(c, now_us);
		if (c->state != CONN_ANSWERING)
			sse_tick(c, now_us);
	}
}
