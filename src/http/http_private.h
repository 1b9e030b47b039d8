/* SPDX-License-Identifier: Apache-2.0
 *
 * struct http, for the files of this folder. Thread: io.
 */
#pragma once
#include <sys/queue.h>

#include "http/http.h"
#include "http/keys.h"

struct MHD_Daemon;
struct MHD_Connection;
struct conn;

/* One client's socket, from accept to close. */
struct sock {
	LIST_ENTRY(sock) link;
	int fd;
	int64_t since_us;  /* accepted, or its last request was over */
	struct conn *conn; /* its current request, NULL between two */
	bool is_at_end;    /* at the last tick there was nothing more to read */
};

struct http {
	struct http_opts opts;
	struct MHD_Daemon *mhd;
	int listen_fd; /* -1 after http_quiesce */
	int watch_fd;
	int port;
	struct buf tls_cert, tls_key; /* empty without TLS */
	struct keys *keys;     /* NULL: everybody may ask */
	const struct api *api; /* NULL until http_set_ready */
	struct sched *sched;
	LIST_HEAD(, sock) socks;
	LIST_HEAD(, conn) conns;
	int n_socks;
	int n_active; /* conns whose headers are here */
	size_t body_bytes;    /* held by all request bodies */
	bool needs_run;       /* something was resumed since the last MHD_run */
	int64_t next_tick_us; /* timeouts are looked at then */
};

static inline int64_t server_now(const struct http *h)
{
	return clock_now_us(h->opts.clock);
}
static inline enum health_state server_health(const struct http *h)
{
	return (enum health_state)atomic_load_explicit(&h->opts.health->state,
						       memory_order_relaxed);
}

/* Let libmicrohttpd go on; not from inside its callbacks. */
void server_pump(struct http *h);

/* --- listen.c: the socket, bound and listening; *out_port 0 for a unix socket --- */
enum status listen_open(const struct http_opts *o, int *out_fd, int *out_port,
			struct fail *fail) MUST_USE;
void listen_close(const struct http_opts *o, int fd);

/* --- watch.c: clients that go away while libmicrohttpd does not look ------------ */
enum status watch_open(struct http *h, struct fail *fail) MUST_USE;
void watch_close(struct http *h);
void watch_add(struct conn *c);
void watch_remove(struct conn *c); /* before its descriptor is closed */
void watch_poll(struct http *h);
