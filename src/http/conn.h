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
 * Where its model is not in memory, a request is WAITING between RECEIVING and PARSING (row.h). A
 * stream that waits for long gets its head then, and is STREAMING while its body is parsed. While a
 * worker looks in a long body which model is meant, the request is PARSING, too.
 *
 * GONE: libmicrohttpd has closed the connection, but a worker still parses its body
 * or the engine has not yet said the last word on its request.
 *
 * From PARSING on, a connection with nothing to write is suspended in libmicrohttpd. New
 * bytes resume it. libmicrohttpd then calls conn_advance if no answer has begun, and the
 * reader of sse.c otherwise.
 */
#pragma once
#include "api/peek.h"
#include "http/body.h"
#include "http/route.h"
#include "http/sock.h"
#include "trace/traceparent.h"

#define CONN_STATES(X) \
	X(RECEIVING, "receiving") \
	X(WAITING, "waiting") \
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

/* Why a request ended before its answer was complete. */
enum conn_end {
	END_NONE,
	END_CLIENT,  /* the client went away */
	END_STALLED, /* the client stopped reading */
	END_TIMEOUT, /* the client sent too slowly */
	END_SERVER,  /* this server stops */
};

/* A complete answer. */
struct answer {
	int status; /* 0: none yet */
	const char *type;
	struct buf body;
	struct buf allow;    /* "": no Allow header */
	int retry_after_s;   /* 0: no Retry-After header */
	bool is_spoilt;      /* a header could not be added: nothing is sent */
	bool is_page;        /* a web page for a browser: see page_root_add_headers */
	int fd;              /* with n_file > 0: a file, which is sent in place of body */
	int64_t n_file;
};

/* An answer that is sent in pieces (sse.c). */
struct sse_stream {
	struct buf buf;
	size_t n_taken;      /* bytes of buf that libmicrohttpd has taken */
	uint64_t n_sent;
	int64_t last_us;     /* when a byte was last added, or the response begun */
	int64_t progress_us; /* when the client last took bytes, or had taken all */
	bool is_begun;       /* libmicrohttpd has the response's head */
};

#define CONN_ID_MAX 128

struct conn {
	LIST_ENTRY(conn) link;
	struct http *http; /* NULL: http_destroy ran before the worker was done */
	struct sock *sock; /* NULL once libmicrohttpd has released it; so is mhd */
	struct MHD_Connection *mhd;
	enum conn_state state;
	enum conn_end end;
	bool is_begun;     /* the headers have come */
	bool is_suspended;

	/* request */
	char id[CONN_ID_MAX + 1]; /* X-Request-Id: the client's, or one made here */
	struct traceparent trace;
	char method[16], client[64];
	char *target;             /* as sent, cut to 512 bytes */
	char *type;               /* the Content-Type of a form, else NULL */
	char *item;               /* the tail's bytes, for workers; NULL: the route has no "*" */
	struct str tail;          /* what the route's "*" stands for; in libmicrohttpd's memory */
	const struct route *route; /* NULL: no row matches */
	struct key *key;           /* the key whose requests count this one; NULL: not counted */
	uint64_t owner;            /* keys_id of the key that was sent; 0: there are no keys */
	int64_t arrival_us, received_us; /* when the head came; when the whole body had come */
	struct body body;
	struct fail fail;

	/* row.c */
	struct model_row *row;           /* the model that it is for; NULL: not known yet */
	TAILQ_ENTRY(conn) row_link;
	bool waits;                /* it is in row->waiting */
	bool has_row;              /* it is counted in row->n_calls */
	bool has_peek;
	struct peek peek;          /* with has_peek: row_peek's */
	bool asks_stream;          /* while it waits: it may get a stream's head */

	/* conn_call.c. While is_offloaded, only the worker touches the first four, body, fail and
	 * last; also stream.buf where the route has a text function. Others may read the call once
	 * it is submitted. */
	const struct api *api;
	struct api_call *call;
	enum status parsed;
	bool has_ref; /* c->call still holds the reference meant for sched_submit */
	bool is_offloaded;
	bool is_slow; /* while is_offloaded: it is counted in http->n_slow */
	_Atomic bool is_gone; /* the client has gone: the worker need not finish */
	struct request *request; /* NULL until submitted */
	struct event *last; /* EVENT_DONE, while a worker computes the rest; else NULL */
	/* request: submitted; its last event came; that was a failure */
	bool is_submitted, is_over, has_failed;
	bool has_result; /* a token, or the end of a choice, has come */

	struct answer answer;
	struct sse_stream stream;
};

/* --- conn.c ------------------------------------------------------------------- */
struct conn *conn_create(struct http *h, struct sock *s, struct MHD_Connection *mhd);
/* Called when the headers have come. */
void conn_begin(struct conn *c, const char *path, const char *method);
/* Adds a piece of the body. False: cut the connection. */
bool conn_upload(struct conn *c, const char *p, size_t n) MUST_USE;
/* Called when libmicrohttpd wants an answer: queues one, or suspends the connection. False:
 * cut the connection. */
bool conn_advance(struct conn *c) MUST_USE;
void conn_set_state(struct conn *c, enum conn_state to);
void conn_resume(struct conn *c); /* does nothing unless suspended */
/* With is_on, notice a client that hangs up: while the engine works for the client. */
void conn_watch(struct conn *c, bool is_on);
/* n: bytes sent so far, head and body. True if these are a whole answer. False for a
 * stream, whose length is not known. */
bool conn_has_said(const struct conn *c, uint64_t n);
/* Ends the request now, in whatever state, and cancels its engine work. */
void conn_drop(struct conn *c, enum conn_end why);
/* Called when libmicrohttpd has finished with the request, after a whole answer or not. c
 * may be freed. */
void conn_release(struct conn *c, bool is_complete);
/* Frees c, unless a worker or the engine still works for it. */
void conn_reap(struct conn *c);
void conn_tick(struct conn *c, int64_t now_us); /* checks the timeouts */

/* --- access.c ----------------------------------------------------------------- */
/* May this client make this request? Then c->key is set where requests are counted. E_AUTH,
 * E_KEY_LIMIT. */
enum status access_check(struct conn *c, struct fail *fail) MUST_USE;
/* Is the Host a name of this server? E_ORIGIN. */
enum status access_check_host(const struct conn *c, struct str path,
			      struct fail *fail) MUST_USE;
void access_read_names(struct http *h); /* at the start: it may ask a name server */
/* May the request's body be read? E_MEDIA_TYPE, E_ORIGIN. */
enum status access_check_body(const struct conn *c, struct fail *fail) MUST_USE;
struct MHD_Response;
void access_add_headers(struct conn *c, struct MHD_Response *r);

/* --- answer.c ----------------------------------------------------------------- */
/* Fills c->answer and moves to ANSWERING. Takes the body out of *body. */
void answer_set(struct conn *c, int status, const char *type, struct buf *body);
/* The same with a file of n bytes, whose ownership is taken. */
void answer_set_file(struct conn *c, const char *type, int fd, int64_t n);
void answer_fail(struct conn *c, const struct fail *f);
/* JSON, of which *b is emptied; or c->fail, where st is not OK. */
void answer_item(struct conn *c, enum status st, struct buf *b);
/* Appends the fault as an event of a stream that has begun with nothing but comments. */
void answer_fail_event(struct conn *c, const struct fail *f, struct buf *out);
bool answer_queue(struct conn *c) MUST_USE;
/* Adds a header to r, the answer that is being made. When there is no memory for it,
 * answer_queue and sse_queue fail: an answer is not sent without its headers. */
void answer_header(struct conn *c, struct MHD_Response *r, const char *name, const char *value);
/* Adds the headers that every response has. */
void answer_add_headers(struct conn *c, struct MHD_Response *r);

/* --- page.c: handlers that answer at once -------------------------------------- */
/* The item whose id stands behind the route, as this client may see it. */
struct api_kept page_kept(const struct conn *c);
#define ENDPOINT_CALL(path, name, flags, docs)
#define ENDPOINT_TEXT(path, name, flags, docs)
#define ENDPOINT_PAGE(method, path, name, flags, docs) void page_##name(struct conn *c);
#include "api/endpoint.def"
#undef ENDPOINT_CALL
#undef ENDPOINT_TEXT
#undef ENDPOINT_PAGE

/* --- page_root.c */
void page_root_add_headers(struct conn *c, struct MHD_Response *r);

/* --- conn_call.c: handlers that parse a body; most of them make the engine work ----- */
void call_start(struct conn *c);  /* the whole body is here: parse it, or wait for the model */
void call_begin(struct conn *c);  /* the model is in memory: parse the body */
/* Answers with the fault; where a stream has begun, in it. */
void call_refuse(struct conn *c, const struct fail *f);
void call_submit(struct conn *c); /* in PARSING, when the worker is done */
void call_drain(struct conn *c);  /* sends what the request's events bring */
void call_cancel(struct conn *c);
void call_deinit(struct conn *c);

/* --- sse.c ----------------------------------------------------------------------- */
bool sse_queue(struct conn *c) MUST_USE;
static inline size_t sse_pending(const struct conn *c)
{
	return c->stream.buf.n - c->stream.n_taken;
}
/* Call after bytes were added to stream.buf, which held n_before bytes. */
void sse_added(struct conn *c, size_t n_before);
void sse_tick(struct conn *c, int64_t now_us);

/* --- spans.c: the request's trace, and its spans for a collector ------------------ */
void spans_begin(struct conn *c);
void spans_write(const struct conn *c, int status);

/* --- accesslog.c: counts the response and writes the request's line ------------------ */
void accesslog_write(const struct conn *c);
