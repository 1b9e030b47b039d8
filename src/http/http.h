/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server, on the owner's loop. Thread: io (every call).
 *
 * The owner calls http_run each time before its loop waits. The scheduler's on_ready must make
 * the owner call http_wake on the io thread. The owner ignores SIGPIPE.
 */
#pragma once
#include <uv.h>

#include "http/row.h"

struct http;

/* Threads that http_opts.offload should have at most. Most of them wait for an embedding
 * model. HTTP_FEW: for what is left when an answer is written. An aligner takes one at a time. */
enum { HTTP_WORKERS = 64, HTTP_FEW = 4 };

struct http_opts {
	uv_loop_t *loop;
	/* an address or a name, "127.0.0.1"; NULL with unix_path or listen_fd */
	const char *host;
	int port;              /* 0: any free one, see http_port */
	const char *unix_path; /* NULL: none */
	/* a bound socket (socket activation), whose ownership is taken; -1: none */
	int listen_fd;
	/* Only look: the address is resolved, but nothing listens, and http_run must not be
	 * called. */
	bool is_check;
	const char *tls_cert, *tls_key; /* files in PEM; NULL: no TLS */
	const char *tls_priorities;     /* see tls.h; NULL or "": the safe defaults */
	int max_connections;
	int max_connections_per_address; /* 0: any */
	size_t max_body_bytes;
	size_t max_upload_bytes;  /* the same for forms with files */
	size_t body_memory_bytes; /* cost of all bodies together, see body.h */
	int64_t request_timeout_us; /* from arrival to the last token; 0: none */
	int keepalive_s;       /* an SSE comment is sent after so long a silence */
	int header_s;          /* from the first byte of a request's head to its last */
	int idle_s;            /* a connection without traffic is closed after so long */
	int stall_s;           /* a client that reads nothing for so long is dropped */
	int64_t heartbeat_stall_us; /* /livez is 503 when the engine's last heartbeat is older */
	bool access_log;
	struct exporter *exporter; /* sends spans; must outlive the server. NULL: no spans */
	bool page;             /* serve the web page at "/" */
	const char *api_key_file; /* NULL: no key is needed. See keys.h */
	int max_requests_per_key; /* in flight, that make the engine work; 0: any number */
	bool metrics_need_key;
	/* origins of web pages that may send requests; "*": all */
	const char *const *cors_origins;
	int n_cors_origins;
	const struct clock *clock;
	struct health *health;
	/* The models. They outlive the server. */
	struct model_row *rows;
	int n_rows;
	/* A request needs this row, which is not open: the owner makes it LOADING, sooner or
	 * later, or leaves it FAILED. */
	void (*on_need)(void *ctx, struct model_row *r);
	void (*on_idle)(void *ctx, struct model_row *r); /* its last request has ended */
	void *rows_ctx;
	int max_waiting;      /* requests that wait for one row at most */
	int64_t max_wait_us;  /* for so long at most, from arrival; 0: any */
	const struct api_memory *memory; /* has the responses of all of them */
	struct batch_store *batches;     /* NULL: none */
	/* Names of the models that give embeddings and that rank; NULL: none. */
	const char *embedders[2];
	/* shown in /metrics; the last two also in /health */
	const char *model_name, *version, *backend, *backend_reason;
	/* Runs fn(arg) on another thread, then done(arg) on this one: from the loop, never
	 * inside this call. is_few: it waits for others of its kind, of which HTTP_FEW should run
	 * at once. NULL: all work is done on this thread. */
	void (*offload)(void *ctx, void (*fn)(void *), void (*done)(void *), void *arg,
			bool is_few);
	void *offload_ctx;
};

/* The strings of *o must outlive the server. E_CONFIG, E_IO: the address cannot be bound,
 * or TLS cannot be set up. */
enum status http_create(const struct http_opts *o, struct http **out,
			struct fail *fail) MUST_USE;
/* Until this is called every API route answers 503 "Loading model". */
void http_set_ready(struct http *h);
/* Brings the server's health up to date with that of the rows: the oldest heartbeat of those that
 * are loaded (0: none is), and whether an engine has failed. */
void http_beat(struct http *h);
/* Result of reading the file of API keys again; see keys_reload. */
struct http_reload {
	int n;            /* keys now */
	bool has_changed; /* a key was added or removed, or has another name */
};
enum status http_reload_keys(struct http *h, struct http_reload *out,
			     struct fail *fail) MUST_USE; /* *out is set in any case */
/* Reads certificate and key again: new connections get them. Those that are open go on with what
 * they have. After a failure nothing has changed. OK without TLS. */
enum status http_reload_tls(struct http *h, struct fail *fail) MUST_USE;
int http_port(const struct http *h);
/* Does all work that needs no waiting. Returns the milliseconds until it must be called again
 * if nothing happens; -1: any. */
int http_run(struct http *h);
void http_wake(struct http *h); /* passes on the schedulers' events */
/* Stop accepting; running streams go on. */
void http_quiesce(struct http *h);
/* Requests whose headers have come and whose answer is not completely sent. Before the
 * drain, an answer that only waits in this server's buffers does not count. */
int http_active(const struct http *h);
/* Ends every connection. Call it when the scheduler has stopped but is not destroyed. A job
 * on a thread of offload may end later. The loop must run once more, to free its handles. */
void http_destroy(struct http *h);
