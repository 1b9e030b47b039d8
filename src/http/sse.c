/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: server-sent events, or lines of JSON. Frames wait in the connection's own buffer.
 * libmicrohttpd calls read_stream whenever its socket takes bytes. An empty buffer suspends the
 * connection, and a new frame resumes it.
 *
 * Nothing is sent before the first token, so a refusal still gets its own HTTP status, and a
 * proxy can give the request to another server. After keepalive_s without a byte the client
 * gets the head and a frame that says nothing, then one after each further silence.
 * Clients and proxies hang up on silence: undici after 300 s, nginx and HAProxy after 60 s or
 * less.
 *
 * A request that waits for its model has no call yet, and what breaks its silence is a comment.
 *
 * A client that takes no byte for stall_s, or whose buffer is full, is dropped. The
 * model goes on writing, and its tokens must not pile up.
 */
#include <microhttpd.h>

#include "base/alloc.h"
#include "http/conn.h"

#define STREAM_MAX (1u << 20)

static ssize_t read_stream(void *cls, uint64_t pos, char *out, size_t max)
{
	struct conn *c = cls;
	struct sse_stream *s = &c->stream;
	size_t n = MIN(max, sse_pending(c));
	if (c->end != END_NONE)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n == 0 && c->is_over)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n == 0) {
		MHD_suspend_connection(c->mhd);
		c->is_suspended = true;
		return 0;
	}
	memcpy(out, s->buf.p + s->n_taken, n);
	s->n_taken += n;
	s->n_sent += n;
	s->progress_us = server_now(c->http);
	if (s->n_taken == s->buf.n) {
		buf_clear(&s->buf);
		s->n_taken = 0;
	}
	return (ssize_t)n;
}

/* False: it waits for its model, or a worker makes its call. */
static bool has_call(const struct conn *c)
{
	return c->call && !c->is_offloaded;
}

bool sse_queue(struct conn *c)
{
	struct MHD_Response *r = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, 16384, read_stream, c, NULL);
	if (!r)
		return false;
	answer_add_headers(c, r);
	answer_header(c, r, "Content-Type", has_call(c) ? api_call_stream_type(c->call)
							 : SSE_TYPE);
	answer_header(c, r, "Cache-Control", "no-cache");
	answer_header(c, r, "X-Accel-Buffering", "no"); /* tells nginx not to buffer */
	c->answer.status = 200;
	c->stream.is_begun = true;
	c->stream.last_us = c->stream.progress_us = server_now(c->http);
	bool is_queued = !c->answer.is_spoilt &&
			 MHD_queue_response(c->mhd, MHD_HTTP_OK, r) == MHD_YES;
	MHD_destroy_response(r);
	return is_queued;
}

void sse_added(struct conn *c, size_t n_before)
{
	struct sse_stream *s = &c->stream;
	if (s->buf.n == n_before)
		return;
	s->last_us = server_now(c->http);
	if (n_before == 0)
		s->progress_us = s->last_us;
	if (sse_pending(c) > STREAM_MAX)
		conn_drop(c, END_STALLED);
	else if (s->is_begun)
		conn_resume(c);
}

void sse_tick(struct conn *c, int64_t now_us)
{
	const struct http_opts *o = &c->http->opts;
	struct sse_stream *s = &c->stream;
	size_t n = s->buf.n;
	if (s->is_begun && sse_pending(c) > 0) {
		if (now_us - s->progress_us >= o->stall_s * INT64_C(1000000))
			conn_drop(c, END_STALLED);
		return;
	}
	bool is_stream = has_call(c) ? api_call_is_stream(c->call) : c->asks_stream;
	if (!is_stream || c->is_over ||
	    now_us - s->last_us < o->keepalive_s * INT64_C(1000000))
		return;
	/* else frames wait for the head: they break the silence themselves */
	if (n == 0 && has_call(c))
		api_call_keep_alive(c->call, &s->buf);
	else if (n == 0)
		buf_add_z(&s->buf, SSE_COMMENT);
	sse_added(c, n);
	if (c->state == CONN_QUEUED || c->state == CONN_WAITING) {
		conn_set_state(c, CONN_STREAMING);
		conn_resume(c);
	}
}
