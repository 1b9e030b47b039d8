/* SPDX-License-Identifier: Apache-2.0
 *
 * One client's connection, from accept to close. Thread: io.
 *
 * libmicrohttpd never sees the client's socket. It has one end of a pair of unix sockets. A
 * struct sock stands between the other end and the client:
 *
 *                 head.c, chunked.c
 *   client ──► in ────────────────► feed ──► pair ──► libmicrohttpd
 *   client ◄── out ◄─────────────────────── pair ◄──┘
 *
 * A request is fed to libmicrohttpd when its whole head has come and is valid. The head is
 * written anew, and the body is put into new chunks. In place of an invalid head a harmless
 * one is fed, with `fault` beside it, so that its refusal goes the way of every other
 * answer. The next request is read when libmicrohttpd has finished this one. So a client
 * that sends half a head costs only a descriptor and that half.
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
struct watch;

enum sock_state {
	SOCK_HELLO, /* the TLS handshake runs */
	SOCK_HEAD,  /* waits for a request, or for the rest of its head */
	SOCK_BODY,
	SOCK_BUSY,  /* the whole request is fed; waits for the answer's end */
	SOCK_DEAF,
	SOCK_LINGER,
	SOCK_GONE,  /* the client's socket is closed; libmicrohttpd may still have its own */
};

/* What counts as one client: a whole IPv4 address, or the first 64 bits of an IPv6 one. */
struct sock_origin {
	unsigned char bytes[8];
	bool is_counted; /* false for unix sockets */
};

struct sock {
	TAILQ_ENTRY(sock) link, due_link;
	struct http *http;
	struct conn *conn; /* the current request; NULL between two requests */
	enum sock_state state;
	char client[64];   /* the client's address as text, for the log */
	struct sock_origin origin;

	int fd, inner;     /* client; our end of the pair; -1: closed, or not yet open */
	int peer;          /* libmicrohttpd's end, which libmicrohttpd closes; -1: never open */
	struct watch *watch, *inner_watch; /* of fd and inner; NULL: closed */
	struct tls *tls;
	struct sockaddr_storage address;
	socklen_t n_address;

	struct buf in;     /* from the client, not fed yet */
	struct buf feed;   /* for libmicrohttpd, not taken yet */
	struct buf out;    /* for the client, not sent yet */
	size_t n_fed, n_sent; /* of feed and out, bytes already written */
	size_t n_scanned;  /* of in, bytes that head_scan has seen */
	uint64_t n_said;   /* bytes that the client's kernel took in this request */
	uint64_t n_dropped; /* bytes of the client read and dropped */

	struct head head;  /* of the current request; head.target points into … */
	struct buf target;
	struct fail fault; /* code not OK: why this head is refused */
	struct chunked chunked;
	uint64_t n_body_left; /* bytes still to come, with Content-Length */

	int64_t since_us;  /* when it was let in, or its last request ended */
	int64_t head_us;   /* when this head's first byte came; 0: not yet */
	int64_t out_us;    /* when the client last took bytes, or `out` was filled */
	int64_t linger_us; /* when LINGER ends */

	bool is_drained, is_inner_drained; /* the kernel has no more bytes in this step */
	bool is_due, is_watched;
	bool has_mhd;      /* libmicrohttpd holds its end of the pair */
	bool is_last;      /* no request is taken after this one */
	bool is_refused;   /* was never let in: `out` holds the refusal */
	bool is_eof;       /* the client has closed its sending side */
	bool is_inner_eof; /* libmicrohttpd has closed its end */
	bool is_lost;      /* is closed in the next round */
};

/* Takes ownership of fd. out: for a client that is not let in, what to send before closing;
 * else NULL. */
struct sock *sock_create(struct http *h, int fd, const struct sockaddr_storage *address,
			 socklen_t n_address, const struct str *out);
void sock_destroy(struct sock *s); /* closes all open descriptors */
/* The sock whose pair ends in this descriptor of libmicrohttpd; NULL: it is destroyed. */
struct sock *sock_by_peer(const struct http *h, int peer);
struct sock_origin sock_origin_of(const struct sockaddr_storage *a);

void sock_step(struct sock *s); /* does all work that needs no waiting */
void sock_due(struct sock *s);  /* asks for sock_step in the next round; also from callbacks */
void sock_tick(struct sock *s, int64_t now_us);
/* Closes the client's socket at once, and cancels the request as if its client had left. */
void sock_lose(struct sock *s);

/* Called from libmicrohttpd's callback when it has finished the request. */
void sock_next(struct sock *s);
/* Ends a body that is still coming, so that *why can be answered. False: the body cannot be
 * ended early (HTTP/1.0), or it has ended. */
bool sock_end_body(struct sock *s, const struct fail *why) MUST_USE;
/* Is there output that the client's kernel has not taken yet? */
bool sock_has_output(const struct sock *s);
/* With is_on, a client that goes is reported by conn_drop, also if it has gone already. */
void sock_watch(struct sock *s, bool is_on);
static inline bool sock_is_idle(const struct sock *s)
{
	return s->state == SOCK_LINGER ||
	       ((s->state == SOCK_HEAD || s->state == SOCK_HELLO) && !s->conn &&
		s->out.n == 0);
}
