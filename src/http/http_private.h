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
struct watch;

TAILQ_HEAD(sock_list, sock);

/* Why a client was refused or dropped. ADDRESS: its address has too many connections; FULL:
 * all places work; FILES: no descriptors; IDLE: dropped for a newcomer. */
enum refusal {
	REFUSED_ADDRESS, REFUSED_FULL, REFUSED_FILES, REFUSED_IDLE, REFUSED_KINDS
};

/* Headers of the web page at "/". */
struct page_root {
	char *policy; /* Content-Security-Policy */
	char etag[24], etag_gz[24]; /* of the page as it is, and compressed */
};
/* E_IO: GnuTLS has no SHA-256. */
enum status page_root_init(struct page_root *p, struct fail *fail) MUST_USE;
void page_root_deinit(struct page_root *p);

struct http {
	struct http_opts opts;
	struct MHD_Daemon *mhd; /* NULL: not started, or stopped by http_destroy */
	int listen_fd; /* -1 after http_quiesce */
	struct watch *listening, *mhd_watch; /* NULL: closed */
	int port;
	struct tls_server *tls; /* NULL: plain */
	struct keys *keys;      /* NULL: no key is needed */
	bool is_ready;          /* http_set_ready was called */
	double told_waiting;    /* requests that wait for their model, as metrics have it */
	struct sock_list socks; /* in order of idle time, the longest first */
	LIST_HEAD(, conn) conns;
	int n_socks, n_refused_socks; /* clients let in; clients that only get their refusal */
	char own_name[256], full_name[256]; /* of this machine; full_name: "" if unknown */
	int n_slow;             /* conns that wait for a worker and are slow: see MAX_SLOW */
	int n_active;           /* conns whose headers have come */
	struct recent *recent;  /* statistics of the last ten minutes */
	struct page_root root;
	size_t body_bytes;      /* cost of all request bodies, see body.h */
	bool needs_run;         /* libmicrohttpd or a sock may have work, see http_run */
	bool is_deaf;           /* descriptors are short: no accept until the next tick */
	int64_t next_tick_us;   /* when timeouts are checked next */
	long n_refused[REFUSED_KINDS]; /* by reason, since the last log line */
	int64_t next_told_us;
	struct sock_list due;   /* sockets to serve in the next round */
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

/* Requests of all rows; those that wait for a row's load are waiting. */
void server_counts(const struct http *h, struct sched_counts *out);
/* Samples the running and waiting requests for GET /stats. Does nothing before the model is
 * loaded. */
void server_sample(struct http *h);
/* The same, and the machine's memory, which takes reading some files. */
void server_sample_memory(struct http *h);

/* --- listen.c: the socket, bound and listening; *out_port 0 for a unix socket --- */
enum status listen_open(const struct http_opts *o, int *out_fd, int *out_port,
			struct fail *fail) MUST_USE;
void listen_close(const struct http_opts *o, int fd);

/* --- watch.c: one descriptor that the loop watches --------------------------------- */
/* fn gets UV_READABLE, UV_WRITABLE and UV_DISCONNECT; 0: an error or a reset. It may close the
 * watch. NULL: libuv cannot watch the descriptor. */
struct watch *watch_open(uv_loop_t *loop, int fd, void (*fn)(void *ctx, int events), void *ctx);
void watch_for(struct watch *w, int events); /* NULL is fine */
/* To be called before the descriptor is closed. The loop frees the memory in its next iteration. */
void watch_close(struct watch **w);

/* --- gate.c: which clients may connect --------------------------------------------- */
enum status gate_open(struct http *h, struct fail *fail) MUST_USE;
void gate_run(struct http *h);  /* serves the socks that are due */
void gate_tick(struct http *h); /* checks the time limits */
void gate_close(struct http *h); /* after libmicrohttpd has stopped */
