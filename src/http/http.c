/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd without a thread of its own. The loop watches libmicrohttpd's epoll
 * descriptor, and all of libmicrohttpd's work happens inside MHD_run. Four habits of
 * libmicrohttpd shape this file:
 *   - A resumed connection waits for the next MHD_run. Neither the descriptor nor
 *     MHD_get_timeout announces that. needs_run does.
 *   - MHD_stop_daemon forbids suspended connections.
 *   - 0.9.75 takes up a new connection inside MHD_add_connection, 1.0 in the next MHD_run;
 *     and 1.0 may close it without a callback. on_socket finds the sock by its descriptor.
 *   - Its epoll is edge-triggered, and it reads once an edge. If the last bytes and the
 *     end of a connection arrive together, it sees only the bytes. So sock_due shuts
 *     the end after those bytes were read.
 * gate.c and sock.c own the clients' sockets, TLS, the heads of requests and all time
 * limits.
 */
#include "http/http.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "base/log.h"
#include "http/conn.h"
#include "http/recent.h"
#include "http/tls.h"

/* Memory that libmicrohttpd takes for a connection: headers, and the window of an upload.
 * It writes all of it for each request. Twice HEAD_MAX is enough for the longest head with
 * the most headers (tests/unit/http). */
#define CONNECTION_BYTES (2 * HEAD_MAX)
#define TICK_US INT64_C(250000)

/* --- callbacks ----------------------------------------------------------------- */

static void on_log(void *cls, const char *fmt, va_list ap)
{
	char text[512];
	if (!log_enabled(LOG_DEBUG))
		return;
	vsnprintf(text, sizeof text, fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libmicrohttpd: %s", text);
}

static struct sock *sock_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return i ? i->socket_context : NULL;
}

/* Called with STARTED inside MHD_add_connection (0.9.75) or in a later MHD_run (1.0). By
 * then the client may have gone, and its sock with it. */
static void on_socket(void *cls, struct MHD_Connection *mhd, void **context,
		      enum MHD_ConnectionNotificationCode what)
{
	struct sock *s = *context;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *i = MHD_get_connection_info(
			mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
		s = i ? sock_by_peer(cls, i->connect_fd) : NULL;
		*context = s;
		if (s)
			s->has_mhd = true;
	} else if (s) {
		/* libmicrohttpd gave up between on_target and on_request: no on_completed. */
		if (s->conn)
			conn_release(s->conn, false);
		s->has_mhd = false;
		sock_due(s);
		*context = NULL;
	}
}

/* Called when the request line has come. The result becomes *context of the next two. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
	struct sock *s = sock_of(mhd);
	return s ? conn_create(cls, s, mhd) : NULL;
}

/* Called with the headers, with each piece of the body, at its end, and whenever a
 * connection was resumed that has no answer yet. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd,
				  const char *target, const char *method,
				  const char *version, const char *data,
				  size_t *n_data, void **context)
{
	struct conn *c = *context;
	if (!c)
		return MHD_NO;
	if (!c->is_begun) {
		conn_begin(c, target, method);
		if (c->state == CONN_RECEIVING)
			return MHD_YES;
	}
	if (*n_data > 0) {
		bool is_fine = conn_upload(c, data, *n_data);
		*n_data = 0;
		return is_fine ? MHD_YES : MHD_NO;
	}
	return conn_advance(c) ? MHD_YES : MHD_NO;
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
			 enum MHD_RequestTerminationCode why)
{
	struct conn *c = *context;
	*context = NULL;
	if (!c)
		return;
	if (why == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN && c->end == END_NONE)
		c->end = END_SERVER;
	conn_release(c, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* Decodes %41 to A, in place. "%00" stays as it is: a NUL would end the string. */
static size_t on_unescape(void *cls, struct MHD_Connection *mhd, char *s)
{
	char *to = s;
	for (char *p = s; *p; p++) {
		int byte = *p == '%' ? hex_pair(p + 1) : -1;
		if (byte > 0) {
			*to++ = (char)byte;
			p += 2;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
	return (size_t)(to - s);
}

static void on_ready(void *h, int events) { ((struct http *)h)->needs_run = true; }

/* --- life ---------------------------------------------------------------------- */

/* Logs a warning about a secret that every user of the machine can read. The secret is used
 * all the same. */
static void warn_of_public(const char *path, const char *what)
{
	struct stat st;
	if (path && stat(path, &st) == 0 && (st.st_mode & S_IROTH))
		log_warn("%s: every user of this machine can read %s (chmod o-r)", what,
			 path);
}

static enum status open_tls(const struct http_opts *o, struct tls_server **out,
			    struct fail *fail)
{
	const char *priorities = o->tls_priorities ? o->tls_priorities : "";
	if (!o->tls_cert && !o->tls_key)
		return OK;
	return tls_server_create(o->tls_cert, o->tls_key, priorities, out, fail);
}

/* Adds a fault to those before: each but the last is in the log, and the first is what the start
 * ends with. */
static enum status add_fault(enum status before, enum status st, const struct fail *why,
			     struct fail *fail)
{
	if (st == OK)
		return before;
	if (before != OK)
		log_error("%s", fail->text);
	*fail = *why;
	return before != OK ? before : st;
}

/* Opens the certificate, the keys and the socket, and tells each that cannot be. */
static enum status open_all(struct http *h, struct fail *fail)
{
	const struct http_opts *o = &h->opts;
	struct fail why;
	enum status all = add_fault(OK, open_tls(o, &h->tls, &why), &why, fail), st = OK;
	if (o->api_key_file)
		st = keys_create(o->api_key_file, &h->keys, &why);
	all = add_fault(all, st == OK ? OK : fail_within(&why, st, "API keys"), &why, fail);
	warn_of_public(o->tls_key, "tls_key");
	warn_of_public(o->api_key_file, "API keys");
	if (!o->api_key_file && !o->unix_path)
		access_read_names(h);
	return add_fault(all, listen_open(o, &h->listen_fd, &h->port, &why), &why, fail);
}

static enum status http_start(struct http *h, struct fail *fail)
{
	const struct http_opts *o = &h->opts;
	/* libmicrohttpd sees only heads that this server wrote (sock.h), so its strictness
	 * does not matter. It has fewer connections than clients are connected. */
	h->mhd = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
			MHD_USE_NO_LISTEN_SOCKET, 0,
		NULL, NULL, on_request, h,
		MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX(o->max_connections, 1) + 64u,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_NOTIFY_CONNECTION, on_socket, h,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
		MHD_OPTION_URI_LOG_CALLBACK, on_target, h,
		MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,
		MHD_OPTION_END);
	if (!h->mhd)
		return fail_set(fail, E_IO, "libmicrohttpd does not start");
	int fd = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	h->mhd_watch = watch_open(o->loop, fd, on_ready, h);
	watch_for(h->mhd_watch, UV_READABLE);
	return h->mhd_watch ? OK : fail_set(fail, E_IO, "libmicrohttpd cannot be watched");
}

enum status http_create(const struct http_opts *o, struct http **out,
			struct fail *fail)
{
	struct http *h = xcalloc(1, sizeof *h);
	h->opts = *o;
	h->recent = recent_create();
	h->listen_fd = -1;
	TAILQ_INIT(&h->socks);
	TAILQ_INIT(&h->due);
	LIST_INIT(&h->conns);
	enum status status = page_root_init(&h->root, fail);
	if (status == OK)
		status = open_all(h, fail);
	if (status == OK && !o->is_check)
		status = http_start(h, fail);
	if (status == OK && !o->is_check)
		status = gate_open(h, fail);
	if (status != OK) {
		http_destroy(h);
		return status;
	}
	*out = h;
	return OK;
}

void http_set_ready(struct http *h)
{
	h->is_ready = true;
}

void server_counts(const struct http *h, struct sched_counts *out)
{
	struct sched_counts one;
	*out = (struct sched_counts){0};
	for (int i = 0; i < h->opts.n_rows; i++) {
		const struct model_row *r = &h->opts.rows[i];
		out->n_waiting += r->n_waiting;
		if (!r->sched)
			continue;
		sched_counts(r->sched, &one);
		out->n_running += one.n_running;
		out->n_waiting += one.n_waiting;
		out->n_waiting_tok += one.n_waiting_tok;
	}
}

void http_beat(struct http *h)
{
	struct health *all = h->opts.health;
	int64_t oldest = 0;
	for (int i = 0; i < h->opts.n_rows; i++) {
		const struct model_row *r = &h->opts.rows[i];
		if (r->state != ROW_LOADED || !r->sched)
			continue;
		int64_t beat = atomic_load(&r->health->heartbeat_us);
		if (beat) /* else it is about to leave */
			oldest = oldest ? MIN(oldest, beat) : beat;
		if (atomic_load(&r->health->state) != HEALTH_FAILED)
			continue;
		atomic_store(&all->is_device_lost, atomic_load(&r->health->is_device_lost));
		atomic_store(&all->state, HEALTH_FAILED);
	}
	if (h->is_ready)
		health_beat(all, oldest);
}

enum status http_reload_keys(struct http *h, struct http_reload *out,
			     struct fail *fail)
{
	*out = (struct http_reload){0};
	enum status st = h->keys ? keys_reload(h->keys, &out->has_changed, fail) : OK;
	out->n = h->keys ? keys_count(h->keys) : 0;
	return st;
}

enum status http_reload_tls(struct http *h, struct fail *fail)
{
	struct tls_server *fresh = NULL;
	enum status st = open_tls(&h->opts, &fresh, fail);
	if (st != OK)
		return st;
	tls_server_unref(h->tls);
	h->tls = fresh;
	return OK;
}

int http_port(const struct http *h) { return h->port; }

int http_active(const struct http *h)
{
	const struct sock *s;
	int n = h->n_active;
	/* libmicrohttpd has finished an answer before its client has all of it. That
	 * matters only in the drain; before it, asking every socket does not pay. */
	if (server_health(h) >= HEALTH_DRAINING)
		TAILQ_FOREACH(s, &h->socks, link)
			n += !s->conn && sock_has_output(s);
	return n;
}

void http_quiesce(struct http *h)
{
	if (h->listen_fd < 0)
		return;
	watch_close(&h->listening);
	listen_close(&h->opts, h->listen_fd);
	h->listen_fd = -1;
}

/* --- the loop -------------------------------------------------------------------- */

static void tick(struct http *h)
{
	int64_t now = server_now(h);
	if (now < h->next_tick_us)
		return;
	h->next_tick_us = now + (h->n_active > 0 ? TICK_US : 4 * TICK_US);
	server_sample_memory(h);
	gate_tick(h);
}

/* Each round serves what the round before resumed. The rounds are bounded, because the loop
 * has other work. */
static void pump(struct http *h)
{
	for (int i = 0; h->needs_run && i < 4; i++) {
		MHD_UNSIGNED_LONG_LONG ms;
		h->needs_run = false;
		enum MHD_Result rc = MHD_run(h->mhd);
		assert(rc == MHD_YES); /* its only error is a mistake of its caller */
		gate_run(h);
		h->needs_run |= MHD_get_timeout(h->mhd, &ms) == MHD_YES && ms == 0;
	}
}

int http_run(struct http *h)
{
	tick(h);
	pump(h);
	if (h->needs_run)
		return 0;
	if (h->n_socks == 0 && !h->is_deaf)
		return -1;
	return (int)MAX((h->next_tick_us - server_now(h) + 999) / 1000, 0);
}

void http_wake(struct http *h)
{
	struct request *r;
	for (int i = 0; i < h->opts.n_rows; i++)
		while (h->opts.rows[i].sched && (r = sched_next_ready(h->opts.rows[i].sched)))
			call_drain(r->user);
	server_sample(h); /* a request may be over before the next tick */
}

/* --- the end ---------------------------------------------------------------------- */

/* Frees the requests that are left when the connections are closed. Each waits for a
 * worker, or for the last event of an engine that has stopped. */
static void reap_rest(struct http *h)
{
	struct conn *c, *next;
	for (c = LIST_FIRST(&h->conns); c; c = next) {
		next = LIST_NEXT(c, link);
		c->is_submitted = false;
		if (c->is_offloaded) {
			LIST_REMOVE(c, link);
			c->http = NULL; /* it is freed when the worker is done */
			c->body.total = NULL;
		} else {
			conn_reap(c);
		}
	}
}

void http_destroy(struct http *h)
{
	struct conn *c;
	if (!h)
		return;
	if (h->mhd) {
		http_quiesce(h);
		LIST_FOREACH(c, &h->conns, link)
			conn_drop(c, END_SERVER);
		pump(h);
		if (h->is_ready)
			http_wake(h); /* handles last events that have already come */
		pump(h);
		watch_close(&h->mhd_watch);
		MHD_stop_daemon(h->mhd);
		h->mhd = NULL; /* a request that comes now is not begun */
	}
	gate_close(h);
	reap_rest(h);
	listen_close(&h->opts, h->listen_fd);
	keys_destroy(h->keys);
	tls_server_unref(h->tls);
	recent_destroy(h->recent);
	page_root_deinit(&h->root);
	free(h);
}
