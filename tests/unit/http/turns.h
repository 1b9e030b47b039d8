/* SPDX-License-Identifier: Apache-2.0
 *
 * A server without a model, on a clock moved by hand. Client and server take turns in one
 * thread: the client writes all it has, then both go on until the client has what it
 * waits for.
 */
#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http_private.h"
#include "tests/tap.h"

#define SECOND INT64_C(1000000)
#define MAX_BODY 1000

static int64_t now_us = 1000 * SECOND;
static int64_t get_now(void *ctx)
{
	(void)ctx;
	return now_us;
}
static const struct clock hand_clock = {get_now, NULL};
static struct health health;
static struct http *h;
static uv_loop_t loop;

/* --- both sides ---------------------------------------------------------------- */

static struct model_row row; /* never loaded */

static struct http_opts opts(void)
{
	row_init(&row);
	row.name = "m";
	row.state = ROW_LOADING;
	row.health = &health;
	return (struct http_opts){
		.loop = &loop,
		.host = "127.0.0.1", .listen_fd = -1, .max_connections = 20,
		.max_body_bytes = MAX_BODY, .body_memory_bytes = 1 << 20,
		.keepalive_s = 5, .header_s = 30, .idle_s = 60,
		.stall_s = 5, .heartbeat_stall_us = 10 * SECOND,
		.clock = &hand_clock, .health = &health, .rows = &row, .n_rows = 1,
		.model_name = "m", .version = "0", .backend = "none", .backend_reason = "a test",
	};
}

/* receive_bytes: what its kernel holds for it; 0: as ever. */
static int dial_small(int receive_bytes)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)http_port(h)),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (receive_bytes)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
	connect(fd, (struct sockaddr *)&a, sizeof a);
	return fd;
}

static int dial(void) { return dial_small(0); }

/* Let the server see all that was done to its sockets so far. */
static void settle(void)
{
	do {
		http_run(h);
		uv_run(&loop, UV_RUN_NOWAIT);
	} while (h->needs_run);
}

static void on_turn(void *has_client, int events) { *(bool *)has_client = true; }
static void on_late(uv_timer_t *t) { (void)t; }

/* One turn: wait until either side has something to do. False after seconds of
 * nothing, which is a failure, not a measure of time. */
static bool turn(int fd, short events)
{
	static uv_timer_t late;
	static int n_idle;
	bool has_client = false;
	int ms = http_run(h);
	struct watch *client = watch_open(&loop, fd, on_turn, &has_client);
	watch_for(client, events & POLLIN ? UV_READABLE : UV_WRITABLE);
	uv_timer_init(&loop, &late);
	uv_timer_start(&late, on_late, ms < 0 || ms > 1000 ? 1000 : (uint64_t)ms, 0);
	uv_run(&loop, UV_RUN_ONCE);
	n_idle = has_client || h->needs_run ? 0 : n_idle + 1;
	watch_close(&client);
	uv_close((uv_handle_t *)&late, NULL);
	settle();
	return n_idle < 5;
}

static void hang_up(int fd)
{
	close(fd);
	settle();
}

static void send_all(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
		} else if (!turn(fd, POLLOUT)) {
			return;
		}
	}
}

/* Read until `n_answers` status lines with whole bodies are there or the server
 * closes. Static buffer. */
static char got[1 << 18];
static size_t n_got;
static bool is_closed;

static int count_answers(void)
{
	int n = 0;
	for (char *p = got; (p = strstr(p, "\r\n\r\n")); n++) {
		char *length = strstr(got, "Content-Length: ");
		for (char *q = length; q && q < p; q = strstr(q + 1, "Content-Length: "))
			length = q;
		size_t need = length && length < p ? strtoul(length + 16, NULL, 10) : 0;
		if (p + 4 + need > got + n_got)
			break;
		p += 4 + need;
	}
	return n;
}

static void receive(int fd, int n_answers)
{
	n_got = 0;
	is_closed = false;
	got[0] = '\0';
	while (count_answers() < n_answers && !is_closed) {
		ssize_t n = recv(fd, got + n_got, sizeof got - 1 - n_got, 0);
		if (n > 0) {
			n_got += (size_t)n;
			got[n_got] = '\0';
		} else if (n == 0 || (errno != EAGAIN && errno != ENOTCONN)) {
			is_closed = true;
		} else if (!turn(fd, POLLIN)) {
			printf("# nothing happens\n");
			return;
		}
	}
}

/* Everything the server says to `text` before it closes; INT_MAX answers. */
static void ask_n(const char *text, size_t n, int n_answers)
{
	int fd = dial();
	send_all(fd, text, n);
	receive(fd, n_answers);
	hang_up(fd);
}
__attribute__((unused)) static void ask(const char *text) { ask_n(text, strlen(text), 1); }

static bool has(const char *s) { return strstr(got, s) != NULL; }
static bool starts(const char *s) { return strncmp(got, s, strlen(s)) == 0; }

#define GET "GET /livez HTTP/1.1\r\nHost: localhost\r\n"
#define POST "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
