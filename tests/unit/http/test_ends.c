/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way in which a connection may end, 10,000 times in all: refused, cut at each byte,
 * reset, too slow, deaf. Each refusal is JSON, and nothing is left of any of them: no memory,
 * no descriptor, no entry in a list.
 */
#include <dirent.h>
#include <signal.h>

#include "base/metrics.h"
#include "http/conn.h"
#include "tests/hip-on-cpu/sanitizer.h"
#include "tests/unit/http/turns.h"

#define N_ENDS 10000
#define WARM_UP 2000

/* What is left of clients. */
struct left {
	int n_socks, n_conns, n_fds;
	long n_pages;
};

static struct left look(void)
{
	struct left l = {0};
	const struct sock *s;
	const struct conn *c;
	TAILQ_FOREACH(s, &h->socks, link)
		l.n_socks++;
	LIST_FOREACH(c, &h->conns, link)
		l.n_conns++;
	DIR *d = opendir("/proc/self/fd");
	while (d && readdir(d))
		l.n_fds++;
	if (d)
		closedir(d);
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*d %ld", &l.n_pages) != 1)
		l.n_pages = -1;
	if (f)
		fclose(f);
	return l;
}

/* --- requests ------------------------------------------------------------------- */

static struct buf text;

static void repeat(const char *s, size_t n_bytes)
{
	for (size_t end = text.n + n_bytes; text.n + strlen(s) <= end;)
		buf_add_z(&text, s);
}

static void make_arguments(size_t n)
{
	buf_add_z(&text, "GET /livez?");
	repeat("a&", n);
	buf_add_z(&text, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

static void make_cookies(size_t n)
{
	buf_add_z(&text, GET "Cookie: ");
	repeat("a=b; ", n);
	buf_add_z(&text, "\r\n\r\n");
}

static void make_headers(size_t n)
{
	buf_add_z(&text, GET);
	repeat("a:b\r\n", n * 5);
	buf_add_z(&text, "\r\n");
}

static void make_head(size_t n)
{
	buf_add_z(&text, GET "X: ");
	repeat("x", n);
	buf_add_z(&text, "\r\n\r\n");
}

/* As long as a head may be, with as many fields, and a long answer's head. */
static void make_fullest(size_t n)
{
	buf_add_z(&text, "OPTIONS /livez?");
	repeat("a&", n);
	buf_add_z(&text, " HTTP/1.1\r\nHost: localhost\r\nOrigin: o\r\n"
		  "Access-Control-Request-Headers: ");
	repeat("x-a,", 2048);
	buf_add_z(&text, "\r\nX-Request-Id: ");
	repeat("x", 128);
	buf_add_z(&text, "\r\n");
	for (size_t i = 4; i < HEAD_FIELDS_MAX; i++) {
		buf_add_z(&text, "X: ");
		repeat("y", (HEAD_MAX - text.n - 2) / (HEAD_FIELDS_MAX - i) - 5);
		buf_add_z(&text, "\r\n");
	}
	buf_add_z(&text, "\r\n");
}

static void make_body(size_t n)
{
	buf_addf(&text, POST "Content-Length: %zu\r\n\r\n", n);
	repeat("x", n);
}

static const struct {
	const char *what;
	void (*make)(size_t n);
	size_t n;
	int status;
} refused[] = {
	{"few arguments", make_arguments, 100, 200},
	{"500 arguments", make_arguments, 1000, 200},
	{"4,000 arguments", make_arguments, 8000, 200},
	{"more arguments than a line holds", make_arguments, 9000, 414},
	{"cookies of 14 KB", make_cookies, 14000, 200},
	{"cookies of 17 KB", make_cookies, 17000, 431},
	{"99 headers", make_headers, 99, 200},
	{"101 headers", make_headers, 101, 431},
	{"a header of 16,000 bytes", make_head, 16000, 200},
	{"a header of 17,000 bytes", make_head, 17000, 431},
	{"a head that is full", make_fullest, 8000, 204},
	{"a body that is too large", make_body, MAX_BODY + 1, 413},
};

/* --- ends ------------------------------------------------------------------------ */

enum how { HEAR, RESET_AT_ONCE, RESET, HALF_CLOSE, LATE, N_HOW };

static void reset(int fd)
{
	const struct linger now = {.l_onoff = 1};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	hang_up(fd);
}

static void end(const char *p, size_t n, enum how how)
{
	int fd = dial();
	send_all(fd, p, n);
	if (how != RESET_AT_ONCE)
		settle();
	if (how == LATE)
		now_us += 130 * SECOND;
	if (how == HALF_CLOSE)
		shutdown(fd, SHUT_WR);
	if (how == HEAR)
		receive(fd, 1);
	else if (how == LATE || how == HALF_CLOSE)
		receive(fd, INT32_MAX);
	reset(fd);
}

static int is_as_it_should(size_t i)
{
	char line[40];
	snprintf(line, sizeof line, "HTTP/1.1 %d ", refused[i].status);
	return starts(line) && (refused[i].status == 204 ||
				has("Content-Type: application/json\r\n"));
}

/* Each row heard, reset, and half-closed. Returns how many connections that took. */
static int end_refused(int n_wrong[])
{
	int n = 0;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		buf_clear(&text);
		refused[i].make(refused[i].n);
		for (enum how how = 0; how < LATE; how++, n++) {
			end(text.p, text.n, how);
			n_wrong[i] += how == HEAR && !is_as_it_should(i);
		}
	}
	return n;
}

/* Requests cut at each byte, and ended in each way there. No body is whole: there is no
 * model that would read it. */
static int end_cut(void)
{
	static const char *const whole[] = {
		GET "\r\n", GET "Connection: close\r\n\r\n" GET,
		"GET /nothing?a&b HTTP/1.0\r\n\r\n",
		POST "Content-Length: 5\r\n\r\nhello",
		POST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		POST "Content-Length: 2000\r\n\r\nhello"};
	static size_t at;
	int n = 0;
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
		size_t n_bytes = strlen(whole[i]) - (whole[i][0] == 'P');
		/* Every seventh byte in each round, so every byte in seven of them. */
		for (size_t k = at % 7; k <= n_bytes; k += 7)
			for (enum how how = RESET_AT_ONCE; how < N_HOW; how++, n++)
				end(whole[i], k, how);
	}
	at++;
	return n;
}

/* A client that asks and does not read is dropped when its time is over. */
static int end_deaf(void)
{
	static const char page[] = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = dial_small(4096);
	for (int i = 0; i < 20; i++) {
		send(fd, page, sizeof page - 1, MSG_NOSIGNAL);
		settle();
	}
	now_us += 61 * SECOND;
	settle();
	hang_up(fd);
	return 1;
}

/* More clients than there are places: those without a request are pushed out. */
static int end_crowd(void)
{
	int fds[30];
	for (int i = 0; i < 30; i++) {
		fds[i] = dial();
		send_all(fds[i], GET, i);
	}
	settle();
	for (int i = 0; i < 30; i++)
		hang_up(fds[i]);
	return 30;
}

int main(void)
{
	struct http_opts o = opts();
	struct fail fail = {0};
	struct left before = {0}, after;
	int n_wrong[sizeof refused / sizeof *refused] = {0};
	const char *cors[] = {"o"};
	signal(SIGPIPE, SIG_IGN);
	o.cors_origins = cors;
	o.n_cors_origins = 1;
	if (uv_loop_init(&loop) != 0 || http_create(&o, &h, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		return 1;
	}
	atomic_store(&health.state, HEALTH_READY);
	http_set_ready(h);
	health_beat(&health, INT64_MAX / 2);
	buf_reserve(&text, 1 << 16);
	for (int n = 0; n < N_ENDS + WARM_UP;) {
		if (n < WARM_UP) {
			settle();
			before = look();
		}
		n += end_refused(n_wrong) + end_cut() + end_deaf() + end_crowd();
	}
	now_us += 3 * SECOND; /* those that linger */
	settle();
	after = look();
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		is_int(n_wrong[i], 0, "%s: each gets %d%s", refused[i].what,
		       refused[i].status, refused[i].status == 204 ? "" : ", as JSON");
	is_int(after.n_socks, 0, "after 10,000 ends there is no socket");
	is_int(after.n_conns, 0, "no request");
	is_int(after.n_fds, before.n_fds, "no descriptor");
#ifdef WITH_ASAN
	ok(true, "memory # SKIP: the sanitizer keeps what is freed, and looks for leaks itself");
#else
	if (!ok(after.n_pages - before.n_pages < 256, "and no more memory than before"))
		printf("# %ld pages, then %ld\n", before.n_pages, after.n_pages);
#endif
	http_destroy(h);
	uv_run(&loop, UV_RUN_DEFAULT);
	is_int(uv_loop_close(&loop), 0, "the loop has no handle left");
	buf_deinit(&text);
	return tap_done();
}
