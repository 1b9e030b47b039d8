/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP request, from its request line to its line in the access log. Thread: io.
 *
 *              ┌────────────────────────────────────────────┐ refused, or a page
 *              │                                            ▼
 *   RECEIVING ─┴► PARSING ─► QUEUED ─┬► RUNNING ───────► ANSWERING ─► (free)
 *                    │          │    │     (whole answer)   ▲
 *                    │          │    └► STREAMING ──────────┴───────► (free)
 *                    ▼          ▼          ▼  (SSE; ANSWERING when it fails before
 *                  GONE ◄───────┴──────────┘   its first byte)
 *
 * GONE: libmicrohttpd has closed the connection, but a worker still parses its body
 * or the engine has not yet said the last word on its request.
 *
 * From PARSING on, a connection with nothing to write is suspended in libmicrohttpd. New
 * bytes resume it. libmicrohttpd then calls conn_advance if no answer has begun, and the
 * reader of sse.c otherwise.
 */
#pragma once
#include "http/body.h"
#include "http/route.h"
#include "http/sock.h"
#include "trace/traceparent.h"

#define CONN_STATES(X) \
	X(RECEIVING, "receiving") \
	X(PARSING, "parsing") \
	X(QUEUED, "queued") \
	X(RUNNING, "running") \
	X(STREAMING, "streaming") \
	X(ANSWERING, "answering") \
	X(GONE, "gone")

enum conn_state {
#define X(id, name) CONN_##id,
	CONN_STATES(X)
#undef X
};

/* Why it ended before its answer was complete. */
enum conn_end {
	END_NONE,
	END_CLIENT,  /* went away */
	END_STALLED, /* stopped reading */
	END_TIMEOUT, /* sent too slowly */
	END_SERVER,  /* we are closing down */
};

/* A complete answer. */
struct answer {
	int status; /* 0: none yet */
	const char *type;
	struct buf body;
	struct buf allow;    /* "": no Allow header */
	int retry_after_s;   /* 0: no Retry-After header */
	bool is_page;        /* for a browser: page_root_add_headers */
};

/* An answer in pieces (sse.c). */
struct sse_stream {
	struct buf buf;
	size_t n_taken;      /* of buf, by libmicrohttpd */
	uint64_t n_sent;
	int64_t last_us;     /* a byte was added, or the response was begun */
	int64_t progress_us; /* the client took something, or had all */
	bool is_begun;       /* the response's head is with libmicrohttpd */
};

#define CONN_ID_MAX 128

struct conn {
	LIST_ENTRY(conn) link;
	struct http *http; /* NULL: http_destroy came before the worker was done */
	struct sock *sock; /* NULL once libmicrohttpd let go, like mhd */
	struct MHD_Connection *mhd;
	enum conn_state state;
	enum conn_end end;
	bool is_begun;     /* the headers were seen */
	bool is_suspended;

	/* request */
	char id[CONN_ID_MAX + 1]; /* X-Request-Id */
	struct traceparent trace;
	char method[16], client[64];
	char *target;             /* as sent, at most 512 bytes of it */
	struct str tail;          /* of the path; into libmicrohttpd's memory */
	const struct route *route; /* NULL: none */
	struct key *key;           /* NULL: none is counted */
	uint64_t owner;            /* keys_id of what was sent; 0: there are no keys */
	int64_t arrival_us, received_us; /* of its head; of all of its body */
	struct body body;
	struct fail fail;

	/* call.c; while is_offloaded the worker alone touches the first four, body,
	 * fail and, where the route has a text function, stream.buf */
	const struct api *api;
	struct api_call *call;
	enum status parsed;
	bool has_ref; /* the reference that sched_submit will take */
	bool is_offloaded;
	bool may_see; /* api_may_see of the body */
	_Atomic bool is_gone; /* the client went away: the worker need not go on */
	struct request *request; /* once submitted */
	bool is_submitted, is_over, has_failed; /* request's first and last word */

	struct answer answer;
	struct sse_stream stream;
};

/* --- conn.c ------------------------------------------------------------------- */
struct conn *conn_create(struct http *h, struct sock *s, struct MHD_Connection *mhd);
/* The headers are here. */
void conn_begin(struct conn *c, const char *path, const char *method);
/* A piece of the body; false: cut the connection. */
bool conn_upload(struct conn *c, const char *p, size_t n) MUST_USE;
/* libmicrohttpd wants an answer: queue one, or suspend. False: cut. */
bool conn_advance(struct conn *c) MUST_USE;
void conn_set_state(struct conn *c, enum conn_state to);
void conn_resume(struct conn *c); /* does nothing unless suspended */
/* While the engine works for it, a client that hangs up is noticed. */
void conn_watch(struct conn *c, bool is_on);
/* n: bytes sent, head and body. True if these are a whole answer. False for a stream, whose
 * length is not known. */
bool conn_has_said(const struct conn *c, uint64_t n);
/* End it now, whatever it does; its request is cancelled. */
void conn_drop(struct conn *c, enum conn_end why);
/* libmicrohttpd is through with it, after a whole answer or not; c may be freed. */
void conn_release(struct conn *c, bool is_complete);
/* Free it unless somebody still works for it. */
void conn_reap(struct conn *c);
void conn_tick(struct conn *c, int64_t now_us); /* timeouts */

/* --- access.c ----------------------------------------------------------------- */
/* May it be asked? Then c->key is taken where it counts. E_AUTH, E_KEY_LIMIT. */
enum status access_check(struct conn *c, struct fail *fail) MUST_USE;
/* May its body be read? E_MEDIA_TYPE, E_ORIGIN. */
enum status access_check_body(const struct conn *c, struct fail *fail) MUST_USE;
struct MHD_Response;
void access_add_headers(const struct conn *c, struct MHD_Response *r);

/* --- answer.c ----------------------------------------------------------------- */
/* Fill c->answer and move to ANSWERING. The body is taken from *body. */
void answer_set(struct conn *c, int status, const char *type, struct buf *body);
void answer_fail(struct conn *c, const struct fail *f);
bool answer_queue(struct conn *c) MUST_USE;
/* Headers of every response. */
void answer_add_headers(struct conn *c, struct MHD_Response *r);

/* --- page.c: handlers that answer at once -------------------------------------- */
#define ENDPOINT_CALL(path, name, flags, docs)
#define ENDPOINT_TEXT(path, name, flags, docs)
#define ENDPOINT_PAGE(method, path, name, flags, docs) void page_##name(struct conn *c);
#include "api/endpoint.def"
#undef ENDPOINT_CALL
#undef ENDPOINT_TEXT
#undef ENDPOINT_PAGE

/* --- page_root.c */
void page_root_add_headers(const struct conn *c, struct MHD_Response *r);

/* --- call.c: handlers that parse a body, and most make the engine work ------------ */
void call_start(struct conn *c);  /* the body is here: parse it */
void call_submit(struct conn *c); /* PARSING, and the worker is done */
void call_drain(struct conn *c);  /* the request has events */
void call_cancel(struct conn *c);
void call_deinit(struct conn *c);

/* --- sse.c ----------------------------------------------------------------------- */
bool sse_queue(struct conn *c) MUST_USE;
static inline size_t sse_pending(const struct conn *c)
{
	return c->stream.buf.n - c->stream.n_taken;
}
/* Bytes were added to stream.buf, which held n_before. */
void sse_added(struct conn *c, size_t n_before);
void sse_tick(struct conn *c, int64_t now_us);

/* --- spans.c: the trace it belongs to, and its spans for a collector ------------- */
void spans_begin(struct conn *c);
void spans_write(const struct conn *c, int status);

/* --- accesslog.c: counts the response and writes its line ------------------------- */
void accesslog_write(const struct conn *c);
