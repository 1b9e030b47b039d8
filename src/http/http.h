/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd, driven by the owner's loop. Thread: io (every call).
 *
 * The owner watches two descriptors for input (http_fds) and a timer (http_timeout_ms).
 * It calls http_run when either is due. on_ready of the scheduler must make the owner
 * call http_wake on the io thread. The owner ignores SIGPIPE.
 */
#pragma once
#include "api/api.h"
#include "base/health.h"
#include "sched/sched.h"

struct http;

/* Threads that http_opts.offload should have. Most of them wait, for a model that reads. */
enum { HTTP_WORKERS = 64 };

struct http_opts {
	const char *host;      /* "127.0.0.1"; NULL with unix_path or listen_fd */
	int port;              /* 0: any free one, see http_port */
	const char *unix_path; /* NULL: none */
	int listen_fd;         /* -1: none; else a bound socket (socket activation),
				* taken over */
	const char *tls_cert, *tls_key; /* files in PEM; NULL: no TLS */
	const char *tls_priorities;     /* see tls.h; NULL or "": the sound ones */
	int max_connections;
	int max_connections_per_address; /* 0: any */
	size_t max_body_bytes;
	size_t body_memory_bytes; /* for all bodies, see body.h */
	int64_t request_timeout_us; /* from arrival to the last token; 0: none */
	int keepalive_s;       /* SSE comment when silent for so long */
	int header_s;          /* from the first byte of a request's head to its last */
	int idle_s;            /* connection without traffic */
	int stall_s;           /* a reader that takes nothing for so long is dropped */
	int64_t heartbeat_stall_us; /* older: /health says so */
	bool access_log;
	bool page;             /* a page for a browser at "/" */
	const char *api_key_file; /* NULL: everybody may ask. See keys.h */
	int max_requests_per_key; /* that make the engine work; 0: any */
	bool metrics_need_key;
	const char *const *cors_origins; /* pages that may ask; "*": all */
	int n_cors_origins;
	const struct clock *clock;
	struct health *health;
	/* for /metrics, the last two for /health, too */
	const char *model_name, *version, *backend, *backend_reason;
	/* Run fn(arg) on another thread, then done(arg) on this one, from the loop and
	 * never inside this call; NULL: everything is done here. */
	void (*offload)(void *ctx, void (*fn)(void *), void (*done)(void *),
			void *arg);
	void *offload_ctx;
};

/* The strings of *o must outlive it. E_CONFIG, E_IO: the address cannot be had, or TLS. */
enum status http_create(const struct http_opts *o, struct http **out,
			struct fail *fail) MUST_USE;
/* Until this is called every API route answers 503 "Loading model". */
void http_set_ready(struct http *h, const struct api *api, struct sched *sched);
/* Read the file of API keys again; on failure the old ones stay. */
struct http_reload {
	int n;            /* keys now */
	bool has_changed; /* one came or went */
};
enum status http_reload_keys(struct http *h, struct http_reload *out,
			     struct fail *fail) MUST_USE;
int http_port(const struct http *h);
/* [0]: libmicrohttpd's epoll; [1]: that of the clients' sockets. */
void http_fds(const struct http *h, int out_fds[2]);
int http_timeout_ms(const struct http *h); /* -1: none */
void http_run(struct http *h);
void http_wake(struct http *h); /* drain events of the scheduler */
/* Stop accepting; running streams go on. */
void http_quiesce(struct http *h);
/* Requests whose headers are here and whose answer is not all sent. Before the drain
 * those whose last bytes wait here are left out. */
int http_active(const struct http *h);
/* Ends every connection. The scheduler must have stopped, but not be destroyed yet; a
 * job that is still with offload's thread may end later. */
void http_destroy(struct http *h);
