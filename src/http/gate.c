/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may connect. Two limits hold: max_connections for all clients, and
 * max_connections_per_address for each. When all places are taken, a newcomer gets the
 * place of the client that has been longest without a request. So clients of a crowd that
 * each send half a head push out only each other. A newcomer is refused only if a request
 * runs in every place. /metrics counts the clients pushed out and refused; the log has at
 * most one line about them every few seconds.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http/conn.h"
#include "http/sock.h"

#define ACCEPTS_A_ROUND 64
#define REFUSED_SOCKS_MAX 64
#define TELL_US INT64_C(10000000)

/* --- refusals ------------------------------------------------------------------------ */

static const char *const labels[REFUSED_KINDS] = {
	[REFUSED_ADDRESS] = "address", [REFUSED_FULL] = "full", [REFUSED_FILES] = "files",
	[REFUSED_IDLE] = "idle"};

static void tell_refused(struct http *h)
{
	const struct http_opts *o = &h->opts;
	int64_t now = server_now(h);
	long *n = h->n_refused;
	if (!(n[REFUSED_ADDRESS] | n[REFUSED_FULL] | n[REFUSED_FILES] | n[REFUSED_IDLE]) ||
	    now < h->next_told_us)
		return;
	if (n[REFUSED_IDLE])
		log_warn("closed connections: %ld without a request, to make room for new "
			 "ones (max_connections is %d)", n[REFUSED_IDLE],
			 o->max_connections);
	if (n[REFUSED_ADDRESS])
		log_warn("refused connections: %ld of addresses that have %d open "
			 "(max_connections_per_address)", n[REFUSED_ADDRESS],
			 o->max_connections_per_address);
	if (n[REFUSED_FULL])
		log_warn("refused connections: %ld while all %d places were at work "
			 "(max_connections)", n[REFUSED_FULL], o->max_connections);
	if (n[REFUSED_FILES])
		log_error("no file descriptors are left for clients (%ld times): raise the "
			  "limit of open files (LimitNOFILE) or lower max_connections",
			  n[REFUSED_FILES]);
	memset(n, 0, sizeof h->n_refused);
	h->next_told_us = now + TELL_US;
}

static void count_refused(struct http *h, enum refusal why)
{
	metric_add_by(METRIC_CONNECTIONS_REFUSED, labels[why], 1);
	h->n_refused[why]++;
	tell_refused(h);
}

/* A refused client still gets an answer that says why. Exceptions: TLS, and more refused
 * clients at once than REFUSED_SOCKS_MAX. */
static void refuse_client(struct http *h, int fd, const struct sockaddr_storage *a, socklen_t n,
			  enum refusal why)
{
	struct fail f;
	struct buf body = {0}, text = {0};
	count_refused(h, why);
	if (h->tls || h->n_refused_socks >= REFUSED_SOCKS_MAX) {
		close(fd);
		return;
	}
	fail_set(&f, why == REFUSED_ADDRESS ? E_CONNECTIONS : E_FULL, "%s",
		 status_text(why == REFUSED_ADDRESS ? E_CONNECTIONS : E_FULL));
	api_error_format(&f, &body);
	buf_addf(&text, "HTTP/1.1 %d %s\r\nConnection: close\r\nRetry-After: 1\r\n"
		 "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
		 status_http(f.code), why == REFUSED_ADDRESS ? "Too Many Requests"
							     : "Service Unavailable", body.n);
	buf_add_str(&text, buf_str(&body));
	struct str out = buf_str(&text);
	sock_step(sock_create(h, fd, a, n, &out));
	buf_deinit(&body);
	buf_deinit(&text);
}

/* --- places -------------------------------------------------------------------------- */

static int count_of(const struct http *h, const struct sock_origin *o)
{
	const struct sock *s;
	int n = 0;
	TAILQ_FOREACH(s, &h->socks, link)
		n += s->state != SOCK_GONE && !s->is_refused &&
		     memcmp(s->origin.bytes, o->bytes, sizeof o->bytes) == 0;
	return n;
}

/* Closes the connection that has been longest without a request. False: all have one. */
static bool make_room(struct http *h)
{
	struct sock *s;
	TAILQ_FOREACH(s, &h->socks, link)
		if (sock_is_idle(s)) {
			sock_lose(s);
			count_refused(h, REFUSED_IDLE);
			return true;
		}
	return false;
}

static void let_in(struct http *h, int fd, const struct sockaddr_storage *a, socklen_t n)
{
	const struct http_opts *o = &h->opts;
	struct sock_origin origin = sock_origin_of(a);
	if (origin.is_counted && o->max_connections_per_address > 0 &&
	    count_of(h, &origin) >= o->max_connections_per_address)
		refuse_client(h, fd, a, n, REFUSED_ADDRESS);
	else if (h->n_socks >= MAX(o->max_connections, 1) && !make_room(h))
		refuse_client(h, fd, a, n, REFUSED_FULL);
	else
		sock_step(sock_create(h, fd, a, n, NULL));
}

static void accept_all(void *ctx, int events)
{
	struct http *h = ctx;
	h->needs_run = true;
	for (int i = 0; i < ACCEPTS_A_ROUND && h->listen_fd >= 0; i++) {
		struct sockaddr_storage a = {0};
		socklen_t n = sizeof a;
		int fd = accept4(h->listen_fd, (struct sockaddr *)&a, &n,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		bool is_short = fd < 0 && (errno == EMFILE || errno == ENFILE ||
					   errno == ENOBUFS || errno == ENOMEM);
		if (fd >= 0) {
			let_in(h, fd, &a, n);
		} else if (is_short) {
			/* No descriptor is free: the client waits in the backlog until the
			 * next tick. */
			count_refused(h, REFUSED_FILES);
			make_room(h);
			watch_for(h->listening, 0);
			h->is_deaf = true;
			return;
		} else if (errno != ECONNABORTED && errno != EINTR) {
			return;
		}
	}
}

/* --- the loop ------------------------------------------------------------------------ */

enum status gate_open(struct http *h, struct fail *fail)
{
	h->listening = watch_open(h->opts.loop, h->listen_fd, accept_all, h);
	watch_for(h->listening, UV_READABLE);
	return h->listening ? OK : fail_set(fail, E_IO, "the listening socket cannot be watched");
}

void gate_run(struct http *h)
{
	struct sock_list due = TAILQ_HEAD_INITIALIZER(due);
	struct sock *s;
	TAILQ_CONCAT(&due, &h->due, due_link);
	while ((s = TAILQ_FIRST(&due))) {
		TAILQ_REMOVE(&due, s, due_link);
		s->is_due = false;
		if (s->is_lost)
			sock_lose(s);
		if (s->state != SOCK_GONE) {
			sock_step(s);
		} else if (!s->has_mhd && !s->conn) {
			sock_destroy(s);
		}
	}
}

void gate_tick(struct http *h)
{
	struct sock *s, *next;
	int64_t now = server_now(h);
	for (s = TAILQ_FIRST(&h->socks); s; s = next) {
		next = TAILQ_NEXT(s, link);
		sock_tick(s, now);
	}
	if (h->is_deaf && h->listening) {
		h->is_deaf = false;
		watch_for(h->listening, UV_READABLE);
	}
	tell_refused(h);
	metric_set(METRIC_CONNECTIONS, h->n_socks);
}

void gate_close(struct http *h)
{
	struct sock *s;
	/* Sends what is left in the buffers, as far as the clients take it. */
	TAILQ_FOREACH(s, &h->socks, link)
		if (s->state != SOCK_GONE)
			sock_step(s);
	while ((s = TAILQ_FIRST(&h->socks)))
		sock_destroy(s);
}
