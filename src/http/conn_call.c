/* SPDX-License-Identifier: Apache-2.0
 *
 * A request that makes the engine work: its body is parsed, it is submitted, and its events
 * are passed on. Every body is parsed on a worker thread: a few bytes can ask for a dear
 * schema or regex, and streams must not stutter meanwhile.
 *
 * A request that needs only the tokenizer goes the same way and is answered after the parse.
 *
 * References: api_call_create returns a request with two. One is the call's, the other is
 * for sched_submit, which takes it only on OK.
 */
#include <microhttpd.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/work.h"
#include "http/conn.h"

/* Of the worker threads, so many may wait for the embedding model, or compute images or sounds.
 * HTTP_FEW more compute times of words. The others are left for bodies. */
#define MAX_SLOW (HTTP_WORKERS * 3 / 4)

/* Which model is meant is read on the io thread in bodies of so many bytes: in 1 ms at most. */
#define MAX_GLANCE (128u << 10)

/* An answer is bounded by its tokens; only its memory is watched. */
#define WORK_ANSWER SIZE_MAX

/* --- workers ------------------------------------------------------------------ */

enum load { LOAD_QUICK, LOAD_SLOW, LOAD_FEW };

/* Has a worker thread do the work; then done is called on io. Without http_opts.offload both are
 * called here. */
static void offload(struct conn *c, void (*work)(void *), void (*done)(void *), enum load load)
{
	const struct http_opts *o = &c->http->opts;
	c->is_slow = load == LOAD_SLOW;
	c->http->n_slow += c->is_slow;
	c->is_offloaded = true;
	if (o->offload) {
		conn_watch(c, true);
		o->offload(o->offload_ctx, work, done, c, load == LOAD_FEW);
	} else {
		work(c);
		done(c);
	}
}

/* What each `done` begins with: the worker has finished. */
static void take_back(struct conn *c)
{
	c->is_offloaded = false;
	if (c->http)
		c->http->n_slow -= c->is_slow;
}

/* --- parse -------------------------------------------------------------------- */

static void conn_call_parse(void *arg)
{
	struct conn *c = arg;
	struct api_input in = {
		.dialect = c->route->dialect,
		.body = buf_str(&c->body.buf),
		.type = str_of(c->type ? c->type : ""),
		.tail = str_of(c->item ? c->item : ""),
		.request_id = c->id,
		.owner = c->owner,
		.arrival_us = c->arrival_us,
		.received_us = c->received_us,
		.is_gone = &c->is_gone,
	};
	c->parsed = api_make(c->api, &in, c->route->text, &c->call, &c->stream.buf, &c->fail);
	c->has_ref = c->parsed == OK && !c->route->text;
}

/* The body is parsed, or refused. */
static void go_on(struct conn *c)
{
	if (c->state == CONN_STREAMING && c->end == END_NONE)
		call_submit(c);
	else
		conn_resume(c);
}

static void on_parsed(void *arg)
{
	struct conn *c = arg;
	take_back(c);
	if (c->mhd)
		go_on(c);
	else
		conn_reap(c);
}

/* Copies what the worker needs of libmicrohttpd's memory. */
static void keep_head(struct conn *c)
{
	const char *type = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Content-Type");
	if ((c->route->flags & ROUTE_FORM) && type)
		c->type = xstrdup(type);
	if (c->tail.n)
		c->item = xstrndup(c->tail.p, c->tail.n);
}

/* What is asked is about a model that need not be loaded for it. False: it must, or another model
 * is meant, one that reads perhaps. */
static bool answer_closed(struct conn *c)
{
	struct buf b = {0};
	if (!(c->route->flags & ROUTE_LOOK))
		return false;
	struct str name = buf_str(&row_peek(c)->model);
	if (!name.n) {
		fail_at(&c->fail, E_INVAL, "model", "`model` must be the name of a model");
		answer_fail(c, &c->fail);
		return true;
	}
	if (row_named(c->http, name) != c->row)
		return false;
	if (c->route->text == api_ollama_show)
		api_ollama_show_closed(c->row->name, c->row->api, &b);
	else
		api_ollama_pull_closed(&b);
	answer_set(c, 200, "application/json", &b);
	return true;
}

static void choose(struct conn *c)
{
	c->row = row_choose(c, &c->fail);
	if (!c->row)
		answer_fail(c, &c->fail);
	else if (row_is_open(c->row))
		call_begin(c);
	else if (!answer_closed(c))
		row_wait(c);
}

static void peek(void *arg) { (void)row_peek(arg); }

static void on_peeked(void *arg)
{
	struct conn *c = arg;
	take_back(c);
	if (!c->mhd) {
		conn_reap(c);
		return;
	}
	if (c->end == END_NONE)
		choose(c);
	conn_resume(c);
}

/* Must a long body be read before it is known where it goes? */
static bool needs_long_look(const struct conn *c)
{
	const struct http_opts *o = &c->http->opts;
	bool is_plain = o->n_rows == 1 && row_is_open(&o->rows[0]);
	return o->offload && !is_plain && c->body.buf.n > MAX_GLANCE;
}

void call_start(struct conn *c)
{
	c->received_us = server_now(c->http);
	keep_head(c);
	if (!needs_long_look(c)) {
		choose(c);
		return;
	}
	conn_set_state(c, CONN_PARSING);
	offload(c, peek, on_peeked, LOAD_QUICK);
}

void call_begin(struct conn *c)
{
	const unsigned flags = c->route->flags;
	row_hold(c);
	c->api = c->row->api;
	if (c->state != CONN_STREAMING && c->state != CONN_PARSING)
		conn_set_state(c, CONN_PARSING);
	/* Is it for the embedding model, or may it be for the vision tower? */
	bool is_slow = (flags & ROUTE_SLOW) || (!(flags & ROUTE_FORM) &&
						api_may_see(c->api, buf_str(&c->body.buf)));
	if (is_slow && c->http->n_slow >= MAX_SLOW) {
		c->parsed = fail_default(&c->fail, E_QUEUE_FULL);
		go_on(c);
	} else {
		offload(c, conn_call_parse, on_parsed, is_slow ? LOAD_SLOW : LOAD_QUICK);
	}
}

/* --- submit -------------------------------------------------------------------- */

void call_refuse(struct conn *c, const struct fail *f)
{
	if (c->state != CONN_STREAMING) {
		answer_fail(c, f);
		return;
	}
	size_t n = c->stream.buf.n;
	c->has_failed = c->is_over = true;
	answer_fail_event(c, f, &c->stream.buf);
	sse_added(c, n);
}

void call_submit(struct conn *c)
{
	body_deinit(&c->body);
	if (c->parsed != OK) {
		call_refuse(c, &c->fail);
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
	if (sched_submit(c->row->sched, r, &c->fail) != OK) {
		request_unref(r);
		call_refuse(c, &c->fail);
		return;
	}
	c->request = r;
	c->is_submitted = true;
	c->stream.last_us = server_now(c->http);
	conn_watch(c, true);
	if (c->state != CONN_STREAMING)
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
	c->has_result |= e->kind == EVENT_DELTA || e->kind == EVENT_CHOICE_DONE ||
			 e->kind == EVENT_DONE;
	if (c->state == CONN_GONE)
		buf_clear(&c->stream.buf);
	else if (api_call_is_stream(c->call))
		sse_added(c, n);
}

/* No byte of the answer is sent yet: chooses by the events how to answer. */
static void begin_answer(struct conn *c)
{
	bool is_stream = api_call_is_stream(c->call);
	if (c->has_failed) {
		answer_fail(c, &c->fail);
	} else if (is_stream) {
		/* A proxy can give a request without a byte of its answer to another server.
		 * So the head waits for the first token, or for sse_tick. */
		if (!c->has_result)
			return;
		if (c->state == CONN_QUEUED)
			conn_set_state(c, CONN_STREAMING);
	} else if (c->is_over) {
		answer_set(c, status_http(api_call_status(c->call)),
			   api_call_type(c->call), &c->stream.buf);
	} else {
		if (c->state == CONN_QUEUED)
			conn_set_state(c, CONN_RUNNING);
		return; /* no answer yet: the connection stays suspended */
	}
	conn_resume(c);
}

/* Ends a request for whose answer there is no memory. A stream that has begun is cut. */
static void give_up(struct conn *c, const struct work_budget *w)
{
	call_cancel(c);
	buf_deinit(&c->stream.buf);
	c->stream.n_taken = 0;
	if (c->stream.is_begun) {
		conn_drop(c, END_SERVER);
		return;
	}
	c->has_failed = work_fail(w, &c->fail);
}

/* Passes an event on, and frees it. */
static void pass(struct conn *c, struct event *e)
{
	if (!c->has_failed)
		on_event(c, e);
	c->is_over |= e->kind == EVENT_DONE || e->kind == EVENT_FAILED;
	event_destroy(e);
}

/* What comes after events were passed on. */
static void settle(struct conn *c, const struct work_budget *work)
{
	if (work->has_no_memory && c->state != CONN_GONE)
		give_up(c, work);
	if (c->state == CONN_GONE) {
		conn_reap(c);
		return;
	}
	if (c->is_over)
		conn_watch(c, false); /* the engine is done: nothing to cancel */
	if (c->end != END_NONE || c->state == CONN_ANSWERING)
		return;
	if (!c->stream.is_begun)
		begin_answer(c);
	else if (c->is_over)
		conn_resume(c);
}

static void conn_call_rest(void *arg)
{
	struct conn *c = arg;
	if (api_call_rest(c->call, &c->last->fail) != OK)
		c->last->kind = EVENT_FAILED;
}

static void on_rest(void *arg)
{
	struct conn *c = arg;
	struct event *last = c->last;
	struct work_budget work;
	take_back(c);
	c->last = NULL;
	if (!c->http) { /* nobody is left to answer */
		event_destroy(last);
		conn_reap(c);
		return;
	}
	work_begin(&work, WORK_ANSWER);
	pass(c, last);
	work_end();
	settle(c, &work);
}

/* True: e is the last event, and waits for what is left to compute. */
static bool leaves_rest(const struct conn *c, const struct event *e,
			const struct work_budget *work)
{
	return e->kind == EVENT_DONE && !c->has_failed && !work->has_no_memory &&
	       c->state != CONN_GONE && api_call_has_rest(c->call);
}

void call_drain(struct conn *c)
{
	struct event *e;
	struct work_budget work;
	work_begin(&work, WORK_ANSWER);
	while ((e = request_next_event(c->request)) && !leaves_rest(c, e, &work))
		pass(c, e);
	work_end();
	settle(c, &work);
	if (!e)
		return; /* c may be gone */
	c->last = e;
	offload(c, conn_call_rest, on_rest, LOAD_FEW);
}

/* --- end ------------------------------------------------------------------------- */

void call_cancel(struct conn *c)
{
	if (c->is_submitted && !c->is_over)
		sched_cancel(c->row->sched, c->request);
}

void call_deinit(struct conn *c)
{
	if (!c->call)
		return;
	if (c->has_ref) /* the client left before the request was submitted */
		request_unref(api_call_request(c->call));
	api_call_destroy(c->call);
	c->call = NULL;
}
