/* SPDX-License-Identifier: Apache-2.0
 *
 * One client's connection, from accept to close. Thread: io.
 *
 * libmicrohttpd never sees the client's socket. It has one end of a pair of unix
 * sockets, and this is what stands at the other end:
 *
 *                 head.c, chunked.c
 *   client ──► in ────────────────► feed ──► pair ──► libmicrohttpd
 *   client ◄── out ◄─────────────────────── pair ◄──┘
 *
 * A request is fed when its whole head is here and in order, written anew, and its
 * body in chunks of our own making. A head that is not in order becomes one of ours,
 * with `fault` beside it, so that its refusal goes the way of every other answer. The
 * next request is looked at when libmicrohttpd is through with this one. A client
 * that sends half a head therefore costs a descriptor and that half.
 *
 *   HELLO ──► HEAD ──► BODY ──► BUSY ──► HEAD …
 *     │         │        │        └────► LINGER  all is said, our side is shut
 *     │         │        └─────► DEAF ──►   │    DEAF: the answer came before the
 *     └─────────┴──────────────► GONE ◄─────┘          body's end; it is the last
 */
#pragma once
#include <sys/socket.h>

#include "http/chunked.h"
#include "http/head.h"
#include "http/http_private.h"

struct tls;

enum sock_state {
	SOCK_HELLO, /* TLS is agreed on */
	SOCK_HEAD,  /* waits for a request, or for the rest of its head */
	SOCK_BODY,
	SOCK_BUSY,  /* the whole request is fed */
	SOCK_DEAF,
	SOCK_LINGER,
	SOCK_GONE,  /* the client's socket is closed; libmicrohttpd may still have its own */
};

/* An address counts as one client: all of IPv4's, the first 64 bits of IPv6's. */
struct sock_origin {
	unsigned char bytes[8];
	bool is_counted; /* no for unix sockets */
};

struct sock {
	TAILQ_ENTRY(sock) link, due_link;
	struct http *http;
	struct conn *conn; /* its current request, NULL between two */
	enum sock_state state;
	char client[64];   /* for the log */
	struct sock_origin origin;

	int fd, inner;     /* -1: closed, or not yet open */
	uint32_t events, inner_events; /* asked of epoll */
	struct tls *tls;
	struct sockaddr_storage address;
	socklen_t n_address;

	struct buf in;     /* of the client, not fed yet */
	struct buf feed;   /* for libmicrohttpd, not taken yet */
	struct buf out;    /* for the client, not sent yet */
	size_t n_fed, n_sent; /* of feed and out */
	size_t n_scanned;  /* of in, by head_scan */
	uint64_t n_said;   /* bytes that the client's kernel took since this request began */
	uint64_t n_dropped; /* bytes that came and were not wanted */

	struct head head;  /* of the current request; its target points into … */
	struct buf target;
	struct fail fault; /* code not OK: what is wrong with it */
	struct chunked chunked;
	uint64_t n_body_left; /* with Content-Length */

	int64_t since_us;  /* let in, or its last request was over */
	int64_t head_us;   /* the first byte of this head came; 0: none has */
	int64_t out_us;    /* the client took something, or out was filled */
	int64_t linger_us; /* LINGER ends */

	bool is_drained, is_inner_drained; /* in this step nothing more will come */
	bool is_due, is_watched;
	bool has_mhd;      /* libmicrohttpd holds the other end */
	bool is_last;      /* no request is taken after this one */
	bool is_refused;   /* was never let in: `out` says why */
	bool is_eof;       /* the client sends nothing more */
	bool has_hung_up;  /* and epoll has said so */
	bool is_inner_eof; /* libmicrohttpd says nothing more */
	bool is_lost;      /* is closed in the next round */
};

/* fd is taken over. out: what to say before it is closed, for a client that is not
 * let in; else NULL. */
struct sock *sock_create(struct http *h, int fd, const struct sockaddr_storage *address,
			 socklen_t n_address, const struct str *out);
void sock_destroy(struct sock *s); /* closes whatever is open */
struct sock_origin sock_origin_of(const struct sockaddr_storage *a);

void sock_step(struct sock *s); /* do what can be done without waiting */
void sock_due(struct sock *s);  /* … in the next round; also from callbacks */
void sock_tick(struct sock *s, int64_t now_us);
/* Close the client's side at once; the request is cancelled as by its client. */
void sock_lose(struct sock *s);
/* The client has closed. Like sock_lose, but an answer that it has whole counts as given. */
void sock_leave(struct sock *s);

/* libmicrohttpd is through with the request, from its callback. */
void sock_next(struct sock *s);
/* End the body that comes and answer with *why. False: it cannot be. */
bool sock_end_body(struct sock *s, const struct fail *why) MUST_USE;
/* Something is said that the client's kernel has not taken yet. */
bool sock_has_output(const struct sock *s);
/* Tell conn_drop when the client goes; false: it is gone already. */
void sock_watch(struct sock *s, bool is_on);
static inline bool sock_is_idle(const struct sock *s)
{
	return s->state == SOCK_LINGER ||
	       ((s->state == SOCK_HEAD || s->state == SOCK_HELLO) && !s->conn &&
		s->out.n == 0);
}
