/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd without a thread of its own: it lives in its epoll descriptor, which
 * the owner's loop watches, and does everything inside MHD_run. Four habits of it
 * shape this file (0.9.75 and 1.0 alike):
 *   - a resumed connection waits for the next MHD_run, and neither the descriptor nor
 *     MHD_get_timeout say so: needs_run does
 *   - nothing may be suspended when the daemon is stopped
 *   - its idle timeout starts again with every byte, so a client that sends one byte
 *     a minute would keep its place for ever: conn_tick and tick look at the whole
 *   - its epoll is edge-triggered and it reads once an edge: where the last bytes and
 *     the end of a connection come together it sees the bytes only, and would keep
 *     the dead connection until its idle timeout: tick looks for such ends
 */
#include "http/http.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "http/conn.h"

/* Memory libmicrohttpd takes a connection: headers, and the window of an upload. */
#define CONNECTION_BYTES (64u << 10)
/* What the kernel may hold for a client that does not read. */
#define SEND_BUFFER_BYTES (128 << 10)
#define PEM_BYTES (1u << 20)
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

static void tune(int fd)
{
	int on = 1, idle_s = 30, every_s = 10, n = 3, bytes = SEND_BUFFER_BYTES;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	/* A client whose machine vanished sends no FIN. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof n);
}

static void on_socket(void *cls, struct MHD_Connection *mhd, void **context,
		      enum MHD_ConnectionNotificationCode what)
{
	struct http *h = cls;
	struct sock *s = *context;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *i = MHD_get_connection_info(
			mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
		s = xcalloc(1, sizeof *s);
		s->fd = i->connect_fd;
		s->since_us = server_now(h);
		LIST_INSERT_HEAD(&h->socks, s, link);
		h->n_socks++;
		*context = s;
		tune(s->fd);
	} else if (s) {
		LIST_REMOVE(s, link);
		h->n_socks--;
		/* At the connection limit libmicrohttpd stops listening, and begins again
		 * in the round after this one; without sockets nothing else would call
		 * for that round, and who waits in the backlog would wait for ever. */
		h->needs_run = true;
		free(s);
		*context = NULL;
	}
}

/* The request line is here; what is returned is *context of the next two. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
	return conn_create(cls, sock_of(mhd), mhd, target);
}

/* Called with the headers, with each piece of the body, at its end, and whenever a
 * connection was resumed that has no answer yet. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd,
				  const char *target, const char *method,
				  const char *version, const char *data,
				  size_t *n_data, void **context)
{
	struct conn *c = *context;
	if (!c->is_begun) {
		conn_begin(c, target, method, version);
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
	conn_release(c, why == MHD_REQUEST_TERMINATED_COMPLETED_OK,
		     why == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %41 is A, in place. "%00" stays as it is: it would end the string. */
static size_t on_unescape(void *cls, struct MHD_Connection *mhd, char *s)
{
	char *to = s;
	for (char *p = s; *p; p++) {
		int hi = p[0] == '%' ? hex_digit(p[1]) : -1;
		int lo = hi >= 0 ? hex_digit(p[2]) : -1;
		if (lo >= 0 && (hi || lo)) {
			*to++ = (char)(hi << 4 | lo);
			p += 2;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
	return (size_t)(to - s);
}

/* --- life ---------------------------------------------------------------------- */

static enum status read_pem(const char *path, const char *what, const char *mark,
			    struct buf *out, struct fail *fail)
{
	enum status st = path ? file_read(path, PEM_BYTES, out, fail)
			      : fail_set(fail, E_CONFIG, "%s is not set", what);
	if (st == OK && str_find(buf_str(out), str_of(mark), 0) < 0)
		st = fail_set(fail, E_CONFIG, "%s: %s is not in PEM: there is no \"%s\"",
			      what, path, mark);
	buf_add_c(out, '\0');
	return st;
}

/* What TLS needs, into h. */
static enum status read_tls(struct http *h, struct fail *fail)
{
	const struct http_opts *o = &h->opts;
	if (MHD_is_feature_supported(MHD_FEATURE_SSL) != MHD_YES)
		return fail_set(fail, E_CONFIG, "tls_cert: this machine's libmicrohttpd was "
				"built without TLS");
	enum status st = read_pem(o->tls_cert, "tls_cert", "-----BEGIN CERTIFICATE-----",
				  &h->tls_cert, fail);
	return st == OK ? read_pem(o->tls_key, "tls_key", "PRIVATE KEY-----", &h->tls_key,
				   fail)
			: st;
}

static enum status start(struct http *h, struct fail *fail)
{
	const struct http_opts *o = &h->opts;
	bool has_tls = h->tls_cert.n > 0;
	const struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, h->tls_cert.p},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, h->tls_key.p},
		{MHD_OPTION_END, 0, NULL}};
	/* Strictness 0: what it would refuse without an answer, or with HTML, is
	 * refused by framing.c in our own words. */
	h->mhd = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
			(has_tls ? MHD_USE_TLS : 0), 0,
		NULL, NULL, on_request, h,
		MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, h->listen_fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX(o->max_connections, 1),
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)MAX(o->idle_s, 0),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_STRICT_FOR_CLIENT, 0,
		MHD_OPTION_NOTIFY_CONNECTION, on_socket, h,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
		MHD_OPTION_URI_LOG_CALLBACK, on_target, h,
		MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,
		MHD_OPTION_ARRAY, has_tls ? tls : tls + 2,
		MHD_OPTION_END);
	if (h->mhd)
		return OK;
	return has_tls ? fail_set(fail, E_CONFIG, "tls_cert and tls_key (%s, %s) cannot be "
				  "used: damaged, or not of each other", o->tls_cert,
				  o->tls_key)
		       : fail_set(fail, E_IO, "libmicrohttpd does not start");
}

enum status http_create(const struct http_opts *o, struct http **out,
			struct fail *fail)
{
	struct http *h = xcalloc(1, sizeof *h);
	h->opts = *o;
	h->listen_fd = h->watch_fd = -1;
	LIST_INIT(&h->socks);
	LIST_INIT(&h->conns);
	enum status status = OK;
	if (o->tls_cert || o->tls_key)
		status = read_tls(h, fail);
	if (status == OK && o->api_key_file)
		status = keys_create(o->api_key_file, &h->keys, fail);
	if (status == OK)
		status = listen_open(o, &h->listen_fd, &h->port, fail);
	if (status == OK)
		status = watch_open(h, fail);
	if (status == OK)
		status = start(h, fail);
	if (status != OK) {
		http_destroy(h);
		return status;
	}
	*out = h;
	return OK;
}

void http_set_ready(struct http *h, const struct api *api, struct sched *sched)
{
	h->api = api;
	h->sched = sched;
}

enum status http_reload_keys(struct http *h, struct http_reload *out,
			     struct fail *fail)
{
	struct http_reload r = {0};
	enum status st = h->keys ? keys_reload(h->keys, &r.has_changed, fail) : OK;
	r.n = h->keys ? keys_count(h->keys) : 0;
	if (st == OK)
		*out = r;
	return st;
}

int http_port(const struct http *h) { return h->port; }
int http_active(const struct http *h) { return h->n_active; }

void http_quiesce(struct http *h)
{
	if (h->listen_fd < 0)
		return;
	MHD_quiesce_daemon(h->mhd);
	listen_close(&h->opts, h->listen_fd);
	h->listen_fd = -1;
}

/* What is left after the connections are closed waits for a worker, or for the last
 * word of an engine that has stopped. */
static void reap_rest(struct http *h)
{
	struct conn *c, *next;
	for (c = LIST_FIRST(&h->conns); c; c = next) {
		next = LIST_NEXT(c, link);
		c->is_submitted = false;
		if (c->is_offloaded) {
			LIST_REMOVE(c, link);
			c->http = NULL; /* its worker frees it */
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
		server_pump(h);
		if (h->sched)
			http_wake(h); /* last words that are here already */
		MHD_stop_daemon(h->mhd);
	}
	reap_rest(h);
	watch_close(h);
	listen_close(&h->opts, h->listen_fd);
	keys_destroy(h->keys);
	buf_deinit(&h->tls_cert);
	buf_deinit(&h->tls_key);
	free(h);
}

/* --- the loop -------------------------------------------------------------------- */

void http_fds(const struct http *h, int out_fds[2])
{
	const union MHD_DaemonInfo *i =
		MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	out_fds[0] = i->epoll_fd;
	out_fds[1] = h->watch_fd;
}

int http_timeout_ms(const struct http *h)
{
	MHD_UNSIGNED_LONG_LONG mhd_ms;
	int64_t ms = -1;
	if (h->needs_run)
		return 0;
	if (MHD_get_timeout(h->mhd, &mhd_ms) == MHD_YES)
		ms = (int64_t)MIN(mhd_ms, 3600000);
	if (h->n_socks > 0) {
		int64_t tick_ms =
			MAX((h->next_tick_us - server_now(h) + 999) / 1000, 0);
		ms = ms < 0 ? tick_ms : MIN(ms, tick_ms);
	}
	return (int)ms;
}

/* The client has sent its last byte, libmicrohttpd has read it, and it was not the end
 * of a request. Said after two ticks only: what was read may still be under way. */
static bool is_dead_end(struct sock *s)
{
	char c;
	bool was_at_end = s->is_at_end;
	bool is_waiting = !s->conn || s->conn->state == CONN_RECEIVING;
	s->is_at_end = is_waiting &&
		       recv(s->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
	return s->is_at_end && was_at_end;
}

static void tick(struct http *h)
{
	int64_t now = server_now(h);
	int64_t idle_us = h->opts.idle_s * INT64_C(1000000);
	struct sock *s;
	if (now < h->next_tick_us)
		return;
	h->next_tick_us = now + (h->n_active > 0 ? TICK_US : 4 * TICK_US);
	LIST_FOREACH(s, &h->socks, link) {
		bool is_dead = is_dead_end(s);
		if (s->conn && is_dead)
			conn_drop(s->conn, END_CLIENT);
		else if (s->conn)
			conn_tick(s->conn, now);
		else if (is_dead || now - s->since_us > 2 * idle_us)
			shutdown(s->fd, SHUT_RDWR);
	}
}

void server_pump(struct http *h)
{
	/* What one round resumes the next one serves; bounded, because the caller has
	 * other things to do, and http_timeout_ms tells it to come back. */
	for (int i = 0; i < 4; i++) {
		h->needs_run = false;
		MHD_run(h->mhd);
		if (!h->needs_run)
			break;
	}
}

void http_run(struct http *h)
{
	watch_poll(h);
	tick(h);
	server_pump(h);
}

void http_wake(struct http *h)
{
	struct request *r;
	while ((r = sched_next_ready(h->sched)))
		call_drain(r->user);
	if (h->needs_run)
		server_pump(h);
}
