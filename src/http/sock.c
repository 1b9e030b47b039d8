/* SPDX-License-Identifier: Apache-2.0 */
#include "http/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http/conn.h"
#include "http/tls.h"

#define PIECE_BYTES (16u << 10)
/* Bytes that the kernel may hold for a client that does not read; and in the socket pair to
 * libmicrohttpd. */
#define SEND_BUFFER_BYTES (64 << 10)
#define PAIR_BUFFER_BYTES (32 << 10)
#define LINGER_US INT64_C(2000000)
#define DROP_MAX (64u << 20) /* bytes read after the answer: then the socket is closed at once */

/* --- birth ------------------------------------------------------------------------- */

struct sock_origin sock_origin_of(const struct sockaddr_storage *a)
{
	struct sock_origin o = {.is_counted = a->ss_family != AF_UNIX};
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	if (a->ss_family == AF_INET)
		memcpy(o.bytes, &v4->sin_addr, 4);
	else if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		memcpy(o.bytes, v6->sin6_addr.s6_addr + 12, 4);
	else if (a->ss_family == AF_INET6)
		memcpy(o.bytes, v6->sin6_addr.s6_addr, 8);
	return o;
}

static void set_client(struct sock *s)
{
	const struct sockaddr_in *v4 = (const void *)&s->address;
	const struct sockaddr_in6 *v6 = (const void *)&s->address;
	char ip[INET6_ADDRSTRLEN] = "";
	if (s->address.ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof ip);
		snprintf(s->client, sizeof s->client, "%s:%d", ip, ntohs(v4->sin_port));
	} else if (s->address.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof ip);
		snprintf(s->client, sizeof s->client, "[%s]:%d", ip,
			 ntohs(v6->sin6_port));
	} else {
		snprintf(s->client, sizeof s->client, "unix");
	}
}

static void tune(int fd)
{
	int on = 1, idle_s = 30, every_s = 10, n = 3, bytes = SEND_BUFFER_BYTES;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	/* Probes of the kernel find a client whose machine vanished without a FIN. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof n);
}

/* The client has closed: as sock_lose, but an answer already sent in full counts as given. A
 * client may close on the last byte of its answer, as HAProxy does, before libmicrohttpd
 * reports that the answer is over. So the connection stays for one more round. */
static void leave(struct sock *s)
{
	if (s->conn && !s->is_lost && conn_has_said(s->conn, s->n_said) &&
	    !sock_has_output(s)) {
		s->is_lost = true;
		sock_due(s);
	} else {
		sock_lose(s);
	}
}

/* Called when the client's socket is ready. */
static void on_client(void *ctx, int events)
{
	struct sock *s = ctx;
	s->http->needs_run = true;
	/* A client that shuts down only its sending side (RFC 9293's half-close) looks like one
	 * that has gone. While the engine works for the client, it is taken for gone: no HTTP
	 * client that waits for an answer half-closes. The opposite mistake would cost minutes
	 * of engine time. */
	if (events ? (events & UV_DISCONNECT) && s->is_watched : s->state != SOCK_LINGER)
		leave(s);
	sock_step(s);
}

static void on_inner(void *ctx, int events)
{
	struct sock *s = ctx;
	s->http->needs_run = true;
	sock_step(s);
}

struct sock *sock_create(struct http *h, int fd, const struct sockaddr_storage *address,
			 socklen_t n_address, const struct str *out)
{
	struct sock *s = xcalloc(1, sizeof *s);
	s->http = h;
	s->fd = fd;
	s->inner = s->peer = -1;
	s->address = *address;
	s->n_address = n_address;
	s->origin = sock_origin_of(address);
	s->since_us = server_now(h);
	s->state = SOCK_HEAD;
	set_client(s);
	tune(fd);
	s->watch = watch_open(h->opts.loop, fd, on_client, s);
	if (out) {
		s->is_refused = s->is_last = s->is_inner_eof = true;
		s->state = SOCK_DEAF;
		buf_add_str(&s->out, *out);
		s->out_us = s->since_us;
		h->n_refused_socks++;
	} else if (h->tls) {
		s->state = SOCK_HELLO;
		s->head_us = s->since_us;
		s->tls = tls_create(h->tls, fd);
	}
	TAILQ_INSERT_TAIL(&h->socks, s, link);
	h->n_socks += !out;
	if (!s->watch)
		sock_lose(s);
	return s;
}

static void close_fd(int *fd, struct watch **watch)
{
	watch_close(watch);
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

struct sock *sock_by_peer(const struct http *h, int peer)
{
	struct sock *s;
	TAILQ_FOREACH(s, &h->socks, link)
		if (s->peer == peer)
			return s;
	return NULL;
}

void sock_destroy(struct sock *s)
{
	struct http *h = s->http;
	TAILQ_REMOVE(&h->socks, s, link);
	if (s->is_due)
		TAILQ_REMOVE(&h->due, s, due_link);
	if (s->state != SOCK_GONE) {
		h->n_socks -= !s->is_refused;
		h->n_refused_socks -= s->is_refused;
	}
	tls_destroy(s->tls);
	close_fd(&s->fd, &s->watch);
	close_fd(&s->inner, &s->inner_watch);
	buf_deinit(&s->in);
	buf_deinit(&s->feed);
	buf_deinit(&s->out);
	buf_deinit(&s->target);
	free(s);
}

/* --- end --------------------------------------------------------------------------- */

void sock_due(struct sock *s)
{
	s->http->needs_run = true;
	if (s->is_due)
		return;
	s->is_due = true;
	TAILQ_INSERT_TAIL(&s->http->due, s, due_link);
}

void sock_lose(struct sock *s)
{
	if (s->state == SOCK_GONE)
		return;
	s->state = SOCK_GONE;
	s->http->n_socks -= !s->is_refused;
	s->http->n_refused_socks -= s->is_refused;
	tls_destroy(s->tls);
	s->tls = NULL;
	close_fd(&s->fd, &s->watch);
	if (s->conn)
		conn_drop(s->conn, END_CLIENT);
	/* libmicrohttpd finds its end of the pair shut down. conn_drop has resumed a
	 * suspended request, which then ends because c->end is set. */
	watch_close(&s->inner_watch);
	if (s->inner >= 0)
		shutdown(s->inner, SHUT_RDWR);
	sock_due(s);
}

/* All output is sent. The client's input is still read for a while: closing with unread
 * input would reset the connection, and the client could lose the answer. */
static void sock_finish(struct sock *s)
{
	close_fd(&s->inner, &s->inner_watch);
	if (s->state == SOCK_GONE || s->state == SOCK_LINGER)
		return;
	if (s->state == SOCK_HELLO || s->is_eof) {
		sock_lose(s);
		return;
	}
	if (s->tls)
		tls_end(s->tls);
	shutdown(s->fd, SHUT_WR);
	s->state = SOCK_LINGER;
	s->linger_us = server_now(s->http) + LINGER_US;
}

/* --- bytes ------------------------------------------------------------------------- */

static ssize_t receive(struct sock *s, void *p, size_t n)
{
	return s->tls ? tls_recv(s->tls, p, n) : recv(s->fd, p, n, MSG_DONTWAIT);
}

static bool is_later(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static bool write_out(struct sock *s)
{
	if (s->fd < 0 || s->out.n == 0)
		return false;
	const char *p = s->out.p + s->n_sent;
	size_t left = s->out.n - s->n_sent;
	ssize_t n = s->tls ? tls_send(s->tls, p, left)
			   : send(s->fd, p, left, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && is_later())
		return false;
	if (n < 0) {
		sock_lose(s);
		return true;
	}
	s->n_sent += (size_t)n;
	s->n_said += (uint64_t)n;
	s->out_us = server_now(s->http);
	if (s->n_sent == s->out.n) {
		s->n_sent = 0;
		buf_clear(&s->out);
	}
	return n > 0;
}

static bool read_inner(struct sock *s)
{
	if (s->is_inner_eof && s->out.n == 0 && s->state != SOCK_LINGER &&
	    s->state != SOCK_GONE) {
		sock_finish(s);
		return true;
	}
	if (s->inner < 0 || s->out.n > 0 || s->is_inner_eof || s->is_inner_drained)
		return false;
	buf_reserve(&s->out, PIECE_BYTES);
	ssize_t n = recv(s->inner, s->out.p, PIECE_BYTES, MSG_DONTWAIT);
	if (n < 0 && is_later())
		return false;
	if (n <= 0) { /* < 0: libmicrohttpd closed before it had read all */
		s->is_inner_eof = true;
		return true;
	}
	s->out.n = (size_t)n;
	s->is_inner_drained = n < PIECE_BYTES;
	s->out_us = server_now(s->http);
	if (s->state == SOCK_GONE)
		buf_clear(&s->out);
	return true;
}

static bool write_feed(struct sock *s)
{
	if (s->inner < 0 || s->feed.n == 0)
		return false;
	ssize_t n = send(s->inner, s->feed.p + s->n_fed, s->feed.n - s->n_fed,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && is_later())
		return false;
	if (n < 0) { /* libmicrohttpd has closed; its output is still read */
		buf_clear(&s->feed);
		s->n_fed = 0;
		s->is_last = true;
		if (s->state == SOCK_BODY || s->state == SOCK_HEAD)
			s->state = SOCK_DEAF;
		return true;
	}
	s->n_fed += (size_t)n;
	if (s->n_fed == s->feed.n) {
		s->n_fed = 0;
		buf_clear(&s->feed);
	}
	return true;
}

/* --- in: heads ---------------------------------------------------------------------- */

static bool sock_enter(struct sock *s)
{
	int pair[2], bytes = PAIR_BUFFER_BYTES;
	struct sock *old;
	if (s->inner >= 0)
		return true;
	if (!s->http->mhd)
		return false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return false;
	for (int i = 0; i < 2; i++)
		setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	s->inner = pair[0];
	s->inner_watch = watch_open(s->http->opts.loop, pair[0], on_inner, s);
	if (!s->inner_watch) {
		close(pair[1]);
		return false;
	}
	if ((old = sock_by_peer(s->http, pair[1]))) /* the number was another pair's before */
		old->peer = -1;
	s->peer = pair[1];
	/* On failure libmicrohttpd has closed pair[1]. */
	return MHD_add_connection(s->http->mhd, pair[1], (struct sockaddr *)&s->address,
				  s->n_address) == MHD_YES;
}

/* Gives libmicrohttpd one request: *clean, or a stand-in whose answer will be s->fault. */
static void feed_head(struct sock *s, const struct buf *clean)
{
	if (!sock_enter(s)) {
		sock_lose(s);
		return;
	}
	s->head_us = 0;
	s->n_said = 0;
	if (s->fault.code == OK) {
		buf_add_str(&s->feed, buf_str(clean));
		s->is_last = s->head.is_close;
		s->state = s->head.length ? SOCK_BODY : SOCK_BUSY;
		return;
	}
	bool is_head = strcmp(s->head.method, "HEAD") == 0;
	buf_addf(&s->feed, "%s / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
		 is_head ? "HEAD" : "GET");
	s->is_last = true;
	s->state = SOCK_BUSY;
	buf_clear(&s->in);
}

static bool read_head_bytes(struct sock *s)
{
	struct buf clean = {0};
	s->fault = (struct fail){0};
	ptrdiff_t n = head_scan(buf_str(&s->in), &s->n_scanned, &s->fault);
	if (n == 0)
		return false;
	s->head = (struct head){0};
	buf_clear(&s->target);
	if (n > 0 && head_parse((struct str){s->in.p, (size_t)n}, &s->head, &clean,
				&s->fault) == OK) {
		s->n_body_left = s->head.length > 0 ? (uint64_t)s->head.length : 0;
		s->chunked = (struct chunked){0};
	}
	buf_add_str(&s->target, s->head.target);
	s->head.target = buf_str(&s->target);
	if (n > 0)
		buf_drop(&s->in, (size_t)n);
	s->n_scanned = 0;
	feed_head(s, &clean);
	buf_deinit(&clean);
	return true;
}

/* --- in: bodies --------------------------------------------------------------------- */

static void feed_piece(struct sock *s, struct str piece)
{
	bool is_chunk = s->head.minor > 0;
	if (piece.n == 0)
		return;
	if (is_chunk)
		buf_addf(&s->feed, "%zx\r\n", piece.n);
	buf_add_str(&s->feed, piece);
	if (is_chunk)
		buf_add_z(&s->feed, "\r\n");
}

static void end_body(struct sock *s)
{
	if (s->head.minor > 0)
		buf_add_z(&s->feed, "0\r\n\r\n");
	s->state = SOCK_BUSY;
}

bool sock_end_body(struct sock *s, const struct fail *why)
{
	if (s->state != SOCK_BODY || s->head.minor == 0)
		return false;
	s->fault = *why;
	s->is_last = true;
	end_body(s);
	sock_due(s);
	return true;
}

static bool read_body_bytes(struct sock *s)
{
	struct str in = buf_str(&s->in), piece;
	struct fail why;
	if (s->feed.n > 0 || in.n == 0)
		return false;
	if (s->head.length > 0) {
		piece = (struct str){in.p, (size_t)MIN((uint64_t)in.n, s->n_body_left)};
		in.p += piece.n;
		in.n -= piece.n;
		s->n_body_left -= piece.n;
		feed_piece(s, piece);
		if (s->n_body_left == 0)
			end_body(s);
	} else {
		chunked_take(&s->chunked, &in, &piece, &why);
		feed_piece(s, piece);
		if (s->chunked.at == CHUNKED_END)
			end_body(s);
		else if (s->chunked.at == CHUNKED_BAD && !sock_end_body(s, &why))
			sock_lose(s);
	}
	bool has_taken = in.n < s->in.n;
	buf_drop(&s->in, s->in.n - in.n);
	return has_taken || s->state != SOCK_BODY;
}

/* --- in ----------------------------------------------------------------------------- */

/* Called when the client has closed its sending side. */
static void end_input(struct sock *s)
{
	s->is_eof = true;
	switch (s->state) {
	case SOCK_HEAD:
		/* The last answer may still be on its way to the client. */
		if (s->inner >= 0)
			shutdown(s->inner, SHUT_WR);
		else
			sock_lose(s);
		break;
	case SOCK_BODY:
		/* libmicrohttpd must read the fed bytes first: see its habits in http.c. */
		s->is_lost = true;
		sock_due(s);
		break;
	case SOCK_HELLO:
	case SOCK_LINGER: sock_lose(s); break;
	default: break;
	}
}

static bool wants_input(const struct sock *s)
{
	if (s->is_eof || s->fd < 0)
		return false;
	switch (s->state) {
	case SOCK_HEAD: return true;
	case SOCK_BODY: return s->feed.n == 0;
	case SOCK_DEAF:
	case SOCK_LINGER: return true;
	default: return false;
	}
}

static bool read_client(struct sock *s)
{
	if (!wants_input(s) || s->is_drained)
		return false;
	buf_reserve(&s->in, PIECE_BYTES);
	ssize_t n = receive(s, s->in.p + s->in.n, PIECE_BYTES);
	if (n < 0 && is_later())
		return false;
	if (n < 0)
		sock_lose(s);
	else if (n == 0)
		end_input(s);
	if (n <= 0)
		return true;
	/* Fewer bytes than asked for: the kernel has no more, and the loop will report the next. */
	s->is_drained = !s->tls && n < PIECE_BYTES;
	if (s->state == SOCK_DEAF || s->state == SOCK_LINGER) {
		s->n_dropped += (uint64_t)n;
		if (s->n_dropped > DROP_MAX)
			sock_lose(s);
		return true;
	}
	s->in.n += (size_t)n;
	s->in.p[s->in.n] = '\0';
	return true;
}

static bool read_bytes(struct sock *s)
{
	if (s->state == SOCK_HEAD && s->in.n > 0 && !s->head_us)
		s->head_us = server_now(s->http);
	if (s->state == SOCK_HEAD && s->in.n > 0)
		return read_head_bytes(s);
	if (s->state == SOCK_BODY)
		return read_body_bytes(s);
	return false;
}

static bool greet(struct sock *s)
{
	if (s->state != SOCK_HELLO)
		return false;
	int done = s->tls ? tls_handshake(s->tls) : -1;
	if (done < 0)
		sock_lose(s);
	if (done <= 0)
		return false;
	s->state = SOCK_HEAD;
	s->head_us = 0;
	s->since_us = server_now(s->http);
	return true;
}

/* --- the loop ------------------------------------------------------------------------ */

static void ask_events(struct sock *s)
{
	int want = (wants_input(s) ? UV_READABLE : 0) | (s->is_watched ? UV_DISCONNECT : 0) |
		   (s->out.n > 0 ? UV_WRITABLE : 0);
	if (s->state == SOCK_HELLO)
		want = tls_wants_write(s->tls) ? UV_WRITABLE : UV_READABLE;
	watch_for(s->watch, want);
	watch_for(s->inner_watch, (s->out.n == 0 && !s->is_inner_eof ? UV_READABLE : 0) |
				  (s->feed.n > 0 ? UV_WRITABLE : 0));
}

void sock_step(struct sock *s)
{
	int rounds = 16;
	bool has_moved;
	if (s->state == SOCK_GONE)
		return;
	s->is_drained = s->is_inner_drained = false;
	do {
		has_moved = greet(s);
		has_moved |= write_out(s);
		has_moved |= read_inner(s);
		has_moved |= write_feed(s);
		has_moved |= read_bytes(s);
		has_moved |= read_client(s);
	} while (has_moved && --rounds > 0 && s->state != SOCK_GONE);
	if (s->state == SOCK_GONE)
		return;
	if (has_moved)
		sock_due(s);
	if (sock_is_idle(s) && s->in.n == 0) { /* an idle connection may stay so for long */
		buf_deinit(&s->in);
		buf_deinit(&s->out);
		buf_deinit(&s->feed);
	}
	ask_events(s);
}

void sock_next(struct sock *s)
{
	s->conn = NULL;
	s->since_us = server_now(s->http);
	if (s->state == SOCK_BODY || s->is_last)
		s->state = s->state == SOCK_GONE ? SOCK_GONE : SOCK_DEAF;
	else if (s->state == SOCK_BUSY)
		s->state = SOCK_HEAD;
	if (s->state == SOCK_DEAF)
		s->is_last = true;
	TAILQ_REMOVE(&s->http->socks, s, link);
	TAILQ_INSERT_TAIL(&s->http->socks, s, link);
	sock_due(s);
}

bool sock_has_output(const struct sock *s)
{
	int n = 0;
	if (s->state == SOCK_GONE)
		return false;
	if (s->inner >= 0 && !s->is_inner_eof)
		ioctl(s->inner, FIONREAD, &n);
	return s->out.n > 0 || n > 0;
}

void sock_watch(struct sock *s, bool is_on)
{
	s->is_watched = is_on;
	sock_due(s);
}

/* --- time ---------------------------------------------------------------------------- */

static void end_head_late(struct sock *s)
{
	struct buf none = {0};
	if (s->state == SOCK_HELLO) {
		sock_lose(s);
		return;
	}
	fail_set(&s->fault, E_SLOW, "the head of the request did not come within %d s",
		 s->http->opts.header_s);
	s->head = (struct head){0};
	buf_clear(&s->target);
	s->n_scanned = 0;
	feed_head(s, &none);
	sock_due(s);
}

void sock_tick(struct sock *s, int64_t now_us)
{
	const struct http_opts *o = &s->http->opts;
	int64_t idle_us = o->idle_s * INT64_C(1000000);
	int64_t header_us = o->header_s * INT64_C(1000000);
	if (s->state == SOCK_GONE)
		return;
	if (s->out.n > 0 && now_us - s->out_us > idle_us) {
		if (s->conn)
			conn_drop(s->conn, END_STALLED);
		sock_lose(s);
	} else if (s->state == SOCK_LINGER && now_us > s->linger_us) {
		sock_lose(s);
	} else if (s->conn) {
		conn_tick(s->conn, now_us);
	} else if (s->state == SOCK_HEAD || s->state == SOCK_HELLO) {
		if (s->head_us && now_us - s->head_us > header_us)
			end_head_late(s);
		else if (!s->head_us && now_us - s->since_us > idle_us)
			end_input(s);
	}
}
