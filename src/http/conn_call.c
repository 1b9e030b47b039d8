/* SPDX-License-Identifier: Apache-2.0
 *
 * A request that makes the engine work: parse the body (a large one on a worker
 * thread: the tokenizer goes at 5 MB/s, and streams must not
 * stutter meanwhile), submit, pass events on.
 *
 * What needs the tokenizer only goes the same way and is answered after the parse.
 *
 * References: api_call_create gives a request with two, one of the call's and one to
 * be submitted; sched_submit takes the latter on OK only.
 */
#include "http/conn.h"

#define OFFLOAD_BYTES (16u << 10)
/* Of the worker threads so many may wait for the embedding model or look at images. The
 * others are left for large bodies. */
#define MAX_SLOW (HTTP_WORKERS * 3 / 4)

/* --- parse -------------------------------------------------------------------- */

/* Worker thread, or io. */
static void parse(void *arg)
{
	struct conn *c = arg;
	struct api_input in = {
		.dialect = c->route->dialect,
		.body = buf_str(&c->body.buf),
		.request_id = c->id,
		.owner = c->owner,
		.arrival_us = c->arrival_us,
		.received_us = c->received_us,
		.is_gone = &c->is_gone,
	};
	if (c->route->text) {
		c->parsed = c->route->text(c->api, &in, &c->stream.buf, &c->fail);
		return;
	}
	c->parsed = api_call_create(c->api, &in, &c->call, &c->fail);
	c->has_ref = c->parsed == OK;
}

/* For the embedding model, or for the tower that looks at images. */
static bool is_slow(const struct conn *c)
{
	return (c->route->flags & ROUTE_SLOW) || c->may_see;
}

/* io: the worker is through. */
static void on_parsed(void *arg)
{
	struct conn *c = arg;
	c->is_offloaded = false;
	if (c->http)
		c->http->n_slow -= is_slow(c);
	if (c->mhd) {
		conn_resume(c);
		server_pump(c->http);
	} else {
		conn_reap(c);
	}
}

void call_start(struct conn *c)
{
	const struct http_opts *o = &c->http->opts;
	c->api = c->http->api;
	c->received_us = server_now(c->http);
	conn_set_state(c, CONN_PARSING);
	c->may_see = api_may_see(c->api, buf_str(&c->body.buf));
	if (!o->offload || (!is_slow(c) && c->body.buf.n <= OFFLOAD_BYTES)) {
		parse(c);
		return;
	}
	if (is_slow(c) && c->http->n_slow >= MAX_SLOW) {
		c->parsed = fail_default(&c->fail, E_QUEUE_FULL);
		return;
	}
	c->http->n_slow += is_slow(c);
	c->is_offloaded = true;
	conn_watch(c, true);
	o->offload(o->offload_ctx, parse, on_parsed, c);
}

/* --- submit -------------------------------------------------------------------- */

void call_submit(struct conn *c)
{
	body_deinit(&c->body);
	if (c->parsed != OK) {
		answer_fail(c, &c->fail);
		return;
	}
	if (c->route->text) {
		answer_set(c, 200, "application/json", &c->stream.buf);
		return;
	}
	struct request *r = api_call_request(c->call);
	r->user = c;
	if (c->http->opts.request_timeout_us)
		r->deadline_us = c->arrival_us + c->http->opts.request_timeout_us;
	c->has_ref = false;
	if (sched_submit(c->http->sched, r, &c->fail) != OK) {
		request_unref(r);
		answer_fail(c, &c->fail);
		return;
	}
	c->request = r;
	c->is_submitted = true;
	c->stream.last_us = server_now(c->http);
	conn_watch(c, true);
	conn_set_state(c, CONN_QUEUED);
}

/* --- events -------------------------------------------------------------------- */

static void on_event(struct conn *c, const struct event *e)
{
	size_t n = c->stream.buf.n;
	api_call_on_event(c->call, e, &c->stream.buf);
	if (e->kind == EVENT_FAILED) {
		c->has_failed = true;
		c->fail = e->fail;
	}
	c->is_over |= e->kind == EVENT_DONE || e->kind == EVENT_FAILED;
	if (c->state == CONN_GONE)
		buf_clear(&c->stream.buf);
	else if (api_call_is_stream(c->call))
		sse_added(c, n);
}

/* Where the events lead an answer of which no byte is sent yet. */
static void begin_answer(struct conn *c)
{
	bool is_stream = api_call_is_stream(c->call);
	if (c->has_failed) {
		answer_fail(c, &c->fail);
	} else if (is_stream) {
		if (c->state == CONN_QUEUED)
			conn_set_state(c, CONN_STREAMING);
	} else if (c->is_over) {
		answer_set(c, status_http(api_call_status(c->call)),
			   "application/json", &c->stream.buf);
	} else {
		if (c->state == CONN_QUEUED)
			conn_set_state(c, CONN_RUNNING);
		return; /* sleeps on */
	}
	conn_resume(c);
}

void call_drain(struct conn *c)
{
	struct event *e;
	while ((e = request_next_event(c->request))) {
		on_event(c, e);
		event_destroy(e);
	}
	if (c->state == CONN_GONE) {
		conn_reap(c);
		return;
	}
	if (c->is_over)
		conn_watch(c, false); /* nothing is left to cancel */
	if (c->end != END_NONE)
		return;
	if (!c->stream.is_begun)
		begin_answer(c);
	else if (c->is_over)
		conn_resume(c);
}

/* --- end ------------------------------------------------------------------------- */

void call_cancel(struct conn *c)
{
	if (c->is_submitted && !c->is_over)
		sched_cancel(c->http->sched, c->request);
}

void call_deinit(struct conn *c)
{
	if (!c->call)
		return;
	if (c->has_ref) /* the client was gone before it could be submitted */
		request_unref(api_call_request(c->call));
	api_call_destroy(c->call);
	c->call = NULL;
}
