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
struct recent;
struct sock;
struct tls_server;

TAILQ_HEAD(sock_list, sock);

/* Why a client was sent away; IDLE: for another one. */
enum refusal {
	REFUSED_ADDRESS, REFUSED_FULL, REFUSED_FILES, REFUSED_IDLE, REFUSED_KINDS
};

/* Headers of the page at "/". */
struct page_root {
	char *policy; /* Content-Security-Policy */
	char etag[24];
};
/* E_IO: there is no SHA-256. */
enum status page_root_init(struct page_root *p, struct fail *fail) MUST_USE;
void page_root_deinit(struct page_root *p);

struct http {
	struct http_opts opts;
	struct MHD_Daemon *mhd;
	int listen_fd; /* -1 after http_quiesce */
	int gate_fd;   /* our epoll: the listening socket and every client's */
	int port;
	struct tls_server *tls; /* NULL: plain */
	struct keys *keys;      /* NULL: everybody may ask */
	const struct api *api;  /* NULL until http_set_ready */
	struct sched *sched;
	struct sock_list socks; /* longest without a request first */
	LIST_HEAD(, conn) conns;
	int n_socks, n_refused_socks; /* the latter: open to say their refusal only */
	int n_slow;             /* requests for models that read, on worker threads */
	int n_active;           /* conns whose headers are here */
	struct recent *recent;  /* what the last minutes were like */
	struct page_root root;
	size_t body_bytes;      /* held by all request bodies, as body.h counts */
	bool needs_run;         /* something was resumed since the last MHD_run */
	bool is_deaf;           /* no new clients until the next tick: no descriptors */
	int64_t next_tick_us;   /* timeouts are looked at then */
	long n_refused[REFUSED_KINDS]; /* since they were last told */
	int64_t next_told_us;
	struct sock *entering;  /* while MHD_add_connection runs */
	struct sock_list due;   /* to be looked at in the next round */
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

/* Note what is so now, for GET /stats. Nothing before the model is loaded. */
void server_sample(struct http *h);

/* Let libmicrohttpd go on; not from inside its callbacks. */
void server_pump(struct http *h);

/* --- listen.c: the socket, bound and listening; *out_port 0 for a unix socket --- */
enum status listen_open(const struct http_opts *o, int *out_fd, int *out_port,
			struct fail *fail) MUST_USE;
void listen_close(const struct http_opts *o, int fd);

/* --- gate.c: who is let in ------------------------------------------------------ */
enum status gate_open(struct http *h, struct fail *fail) MUST_USE;
void gate_quiesce(struct http *h);
void gate_run(struct http *h);  /* whatever can be done without waiting */
void gate_tick(struct http *h); /* time limits */
void gate_close(struct http *h); /* after libmicrohttpd was stopped */
