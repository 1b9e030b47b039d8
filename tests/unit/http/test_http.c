/* SPDX-License-Identifier: Apache-2.0
 *
 * The server without a model: what it says while it loads, how it takes broken and
 * hostile requests.
 */
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/un.h>

#include "base/metrics.h"
#include "http/head.h"
#include "tests/unit/http/turns.h"

/* --- pages --------------------------------------------------------------------- */

static void test_loading(void)
{
	ask("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 200 ") && has("\"status\":{\"value\":\"loading\"}"),
	   "while it loads the list of models says so");
	ask("GET /props HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 503 "), "and the API answers 503");
	ok(has("\"message\":\"Loading model\"") &&
	   has("\"type\":\"unavailable_error\""), "and says why");
	ok(has("Retry-After: 2\r\n"), "and when to come again");
	ok(has("Content-Type: application/json\r\n"), "as JSON");
	double n = metric_get_by(METRIC_REQUESTS_REJECTED, "loading");
	ask("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	    "Content-Length: 2\r\n\r\n{}");
	ok(starts("HTTP/1.1 503 ") && !has("Connection: close"),
	   "a refused body is read and the connection kept");
	is_int(metric_get_by(METRIC_REQUESTS_REJECTED, "loading"), n + 1,
	       "and counted");
	ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 200 ") &&
	   has("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n") &&
	   has("halod_http_responses_total{model_name=\"m\",code=\"503\"} 2\n"),
	   "metrics are there from the start");
}

static void is_health(const char *path, int status, const char *word)
{
	char request[100], line[40], json[60];
	snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
	snprintf(json, sizeof json, "{\"status\":\"%s\",", word);
	ask(request);
	ok(starts(line) && has(json), "%s is %d %s", path, status, word);
}

static void test_health(void)
{
	atomic_store(&health.load_permille, 250);
	is_health("/livez", 200, "loading");
	ok(has("\"load\":0.25,"), "how far it is");
	is_health("/health", 503, "loading");
	atomic_store(&health.state, HEALTH_READY);
	health_beat(&health, now_us - 2 * SECOND);
	is_health("/livez", 200, "ok");
	ok(has("\"heartbeat_age_s\":2,") && has("\"running\":0,\"waiting\":0,"),
	   "age of the heartbeat and the queue");
	is_health("/health", 503, "ok"); /* there is no model in this test */
	health_beat(&health, now_us - 11 * SECOND);
	is_health("/livez", 503, "stalled");
	is_health("/readyz", 503, "stalled");
	health_beat(&health, now_us);
	atomic_store(&health.state, HEALTH_DRAINING);
	is_health("/livez", 200, "draining");
	ok(has("Connection: close\r\n"), "draining connections are not kept");
	is_health("/health?ready", 503, "draining");
	is_health("/readyz", 503, "draining");
	atomic_store(&health.state, HEALTH_FAILED);
	is_health("/livez", 503, "failed");
	atomic_store(&health.state, HEALTH_LOADING);
}

static void test_methods(void)
{
	ask("HEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	ok(starts("HTTP/1.1 200 ") && has("Content-Length: ") &&
	   strcmp(strstr(got, "\r\n\r\n"), "\r\n\r\n") == 0,
	   "HEAD has the length and no body");
	ask("DELETE /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 405 ") && has("Allow: GET, HEAD, OPTIONS\r\n") &&
	   has("method_not_allowed"), "405 with Allow");
	ask("DELETE /livez?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 405 ") && has("Allow: GET, HEAD, OPTIONS\r\n"),
	   "a query does not change that");
	ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 204 ") && has("Allow: POST, OPTIONS\r\n"), "OPTIONS");
	ask("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 204 ") && has("Allow: GET, HEAD, POST, DELETE, OPTIONS\r\n"),
	   "OPTIONS *");
	ask("GET /no%41where?x=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 404 ") && has("nothing at /noAwhere"), "404 as JSON");
	ask("GET /livez%00x HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 404 "), "%%00 ends nothing");
	ask("GET http://other/livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 200 "), "an absolute address");
	ask("GET /livez HTTP/1.0\r\n\r\n");
	ok(starts("HTTP/1.0 200 ") || starts("HTTP/1.1 200 "), "HTTP/1.0");
	ok(has("Connection: close\r\n"), "is not kept");
	ask("BREW /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 501 "), "a method nobody knows");
	ask("PATCH /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(starts("HTTP/1.1 405 "), "one that is not for this address");
	ask("GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
	ok(starts("HTTP/1.1 200 "), "a GET with a body");
}

static void test_ids(void)
{
	ask("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a-b_c.7\r\n\r\n");
	ok(has("X-Request-Id: a-b_c.7\r\n"), "an id is sent back");
	ask("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(has("X-Request-Id: req-"), "or made");
	char first[20];
	snprintf(first, sizeof first, "%s", strstr(got, "req-"));
	ask("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
	ok(has("X-Request-Id: req-") && !has(first), "anew, also for errors");
	ask("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a b\r\n\r\n");
	ok(has("X-Request-Id: req-"), "an id with a space is not used");
	char text[400];
	snprintf(text, sizeof text,
		 "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %0129d\r\n\r\n", 1);
	ask(text);
	ok(has("X-Request-Id: req-"), "nor a long one");
}

/* --- framing --------------------------------------------------------------------- */

#define SMUGGLED "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

/* Each must be answered by one 400 of our own, and nothing behind it be heard. What a
 * head may hold is test_head's. */
static const struct {
	const char *what, *text;
	size_t n;
} refused[] = {
#define ROW(what, text) {what, text, sizeof(text) - 1}
	ROW("length and encoding", POST "Content-Length: 5\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
	ROW("two lengths", POST "Content-Length: 0\r\nContent-Length: 36\r\n\r\n"
	    SMUGGLED),
	ROW("two codings", POST "Transfer-Encoding: gzip, chunked\r\n\r\n"
	    "0\r\n\r\n" SMUGGLED),
	ROW("an encoding in HTTP/1.0", "POST /v1/completions HTTP/1.0\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
	ROW("a folded length", POST "Content-Length:\r\n 36\r\n\r\n" SMUGGLED),
	ROW("a NUL in a length", POST "Content-Length: 0\0" "36\r\n\r\n" SMUGGLED),
	ROW("a NUL in a name", GET "Content\0Length: 36\r\n\r\n" SMUGGLED),
	ROW("a length with a sign", POST "Content-Length: +36\r\n\r\n" SMUGGLED),
	ROW("a huge length", POST "Content-Length: 99999999999999999999\r\n\r\n"
	    SMUGGLED),
	ROW("no Host", "GET /livez HTTP/1.1\r\n\r\n" SMUGGLED),
	ROW("a chunk that is no number",
	    POST "Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n" SMUGGLED),
	ROW("a chunk that ends in LF",
	    POST "Transfer-Encoding: chunked\r\n\r\n0\n\n" SMUGGLED),
	ROW("no request line", "\001\002\003\r\n\r\n" SMUGGLED),
	ROW("TLS", "\026\003\001\002\000\001\000\001\374\003\003\r\n\r\n\r\n"),
	ROW("a line without colon", GET "nonsense\r\n\r\n" SMUGGLED),
#undef ROW
};

static void test_framing(void)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		ask_n(refused[i].text, refused[i].n, 100);
		ok(starts("HTTP/1.1 400 ") && has("Connection: close\r\n") &&
			   has("\"code\":\"bad_framing\""),
		   "%s: 400 in our own words", refused[i].what);
		ok(is_closed && !has("halod_build_info") && !strstr(got + 1, "HTTP/1.1 "),
		   "%s: once, and the connection is closed", refused[i].what);
	}
	is_int(http_active(h), 0, "nothing is left of them");
	ask_n("GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n" SMUGGLED,
	      strlen("GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n" SMUGGLED), 100);
	ok(starts("HTTP/1.1 505 ") && is_closed && has("\"code\":\"http_version\""),
	   "another protocol: 505");
}

/* --- bodies, timeouts, pipelining -------------------------------------------------- */

static void test_large(void)
{
	static char text[20000];
	char long_body[MAX_BODY + 2];
	memset(long_body, 'x', sizeof long_body - 1);
	long_body[sizeof long_body - 1] = '\0';
	snprintf(text, sizeof text, POST "Content-Length: %d\r\n\r\n%s" GET "\r\n",
		 MAX_BODY + 1, long_body);
	atomic_store(&health.state, HEALTH_READY);
	http_set_ready(h);
	ask_n(text, strlen(text), 2);
	ok(starts("HTTP/1.1 413 ") && has("\"code\":\"request_too_large\""),
	   "a body that is too large");
	ok(has("HTTP/1.1 200 "), "is read, and the next request answered");
	snprintf(text, sizeof text,
		 POST "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n",
		 strlen(long_body), long_body);
	ask(text);
	ok(starts("HTTP/1.1 413 "), "so is one that comes in chunks");
	snprintf(text, sizeof text,
		 POST "Expect: 100-continue\r\nContent-Length: %d\r\n\r\n",
		 MAX_BODY + 1);
	ask_n(text, strlen(text), 100);
	ok(starts("HTTP/1.1 413 ") && is_closed,
	   "who asks first is told before the body");
	h->is_ready = false;
	atomic_store(&health.state, HEALTH_LOADING);
	snprintf(text, sizeof text, GET "X-Long: %010000d\r\n\r\n", 7);
	ask(text);
	ok(starts("HTTP/1.1 200 "), "10,000 bytes of headers are fine");
	struct buf longest = {0};
	buf_addf(&longest, "GET /livez?%06500d HTTP/1.1\r\nHost: localhost\r\n", 1);
	for (int i = 0; i < 99; i++)
		buf_addf(&longest, "X-%d: %090d\r\n", i, 1);
	buf_addf(&longest, "\r\n");
	ok(longest.n > HEAD_MAX - 500 && longest.n <= HEAD_MAX, "the longest head (%zu)",
	   longest.n);
	ask_n(longest.p, longest.n, 1);
	ok(starts("HTTP/1.1 200 "), "is one libmicrohttpd has room for");
	buf_deinit(&longest);
}

static void test_endless_headers(void)
{
	int fd = dial();
	char line[1000];
	snprintf(line, sizeof line, "X: %0900d\r\n", 1);
	send_all(fd, GET, strlen(GET));
	for (int i = 0; i < 1000; i++)
		send_all(fd, line, strlen(line));
	receive(fd, 100);
	ok(is_closed && starts("HTTP/1.1 431 ") && has("\"code\":\"headers_too_large\""),
	   "endless headers are cut off");
	hang_up(fd);
}

static void test_slow(void)
{
	static const struct {
		const char *what, *text, *answer;
		int patience_s; /* idle_s, header_s, twice idle_s and a bonus for its bytes */
	} rows[] = {
		{"nothing", "", "", 60},
		{"half a line", "GE", "HTTP/1.1 408 ", 30},
		{"half a head", GET "X: ", "HTTP/1.1 408 ", 30},
		{"half a body", POST "Content-Length: 9\r\n\r\n123", "HTTP/1.1 408 ", 120},
		{"half a chunk", POST "Transfer-Encoding: chunked\r\n\r\n9\r\n123",
		 "HTTP/1.1 408 ", 120}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int fd = dial();
		send_all(fd, rows[i].text, strlen(rows[i].text));
		settle();
		now_us += (rows[i].patience_s - 1) * SECOND;
		settle();
		char c;
		ok(recv(fd, &c, 1, 0) < 0 && errno == EAGAIN, "%s: it has time",
		   rows[i].what);
		now_us += 2 * SECOND;
		receive(fd, 100);
		ok(is_closed && starts(rows[i].answer) && (n_got > 0) == (i > 0),
		   "%s: but not for ever", rows[i].what);
		hang_up(fd);
	}
	is_int(http_active(h), 0, "slow clients leave nothing behind");
	ok(metric_get_by(METRIC_HTTP_RESPONSES, "408") == 4, "408 is counted");
}

/* Without TLS, to a server that is full: what each client hears. */
static void test_places(void)
{
	struct http_opts o = opts();
	struct http *other = h;
	struct fail fail = {0};
	const char *half = POST "Content-Length: 9\r\n\r\n123";
	int fds[4];
	o.max_connections = 2;
	is_int(http_create(&o, &h, &fail), OK, "a server with two places");
	for (int i = 0; i < 3; i++) {
		fds[i] = dial();
		send_all(fds[i], "GET /hea", 8);
		settle();
		now_us += SECOND;
	}
	receive(fds[0], 100);
	ok(is_closed && n_got == 0, "a third client takes the place of the oldest");
	ok(metric_get_by(METRIC_CONNECTIONS_REFUSED, "idle") == 1, "which is counted");
	for (int i = 1; i < 3; i++) {
		close(fds[i]);
		fds[i] = dial();
		send_all(fds[i], half, strlen(half));
		settle();
	}
	fds[3] = dial();
	receive(fds[3], 100);
	ok(is_closed && starts("HTTP/1.1 503 ") && has("\"code\":\"server_full\"") &&
		   has("Retry-After: 1\r\n"),
	   "where both are at work, it is told to come again");
	ok(metric_get_by(METRIC_CONNECTIONS_REFUSED, "full") == 1, "which is counted, too");
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	http_destroy(h);
	o.max_connections = 20;
	o.max_connections_per_address = 2;
	is_int(http_create(&o, &h, &fail), OK, "a server with two places an address");
	for (int i = 0; i < 3; i++) {
		fds[i] = dial();
		settle();
	}
	receive(fds[2], 100);
	ok(is_closed && starts("HTTP/1.1 429 ") && has("\"code\":\"too_many_connections\"") &&
		   has("Retry-After: 1\r\n"),
	   "a third client of one address is refused");
	ok(metric_get_by(METRIC_CONNECTIONS_REFUSED, "address") == 1, "and counted");
	hang_up(fds[0]);
	hang_up(fds[2]);
	fds[0] = dial();
	send_all(fds[0], GET "\r\n", strlen(GET) + 2);
	receive(fds[0], 1);
	ok(starts("HTTP/1.1 200 "), "one that left makes room");
	close(fds[0]);
	close(fds[1]);
	http_destroy(h);
	h = other;
}

static void test_pipelining(void)
{
	ask_n(GET "\r\n" "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
	      GET "X-Request-Id: third\r\n\r\n",
	      3 * strlen(GET) + 6 + strlen("/nothing") - strlen("/livez") +
	      strlen("X-Request-Id: third\r\n"), 3);
	char *a = strstr(got, "HTTP/1.1 200 "), *b = strstr(got, "HTTP/1.1 404 ");
	char *c = strstr(got, "X-Request-Id: third");
	ok(a && b && c && a < b && b < c, "three requests in one piece, in order");
}

/* Each of many that come in one turn gets its own answer, also beside clients that reset
 * their connection in the middle of a request. */
static void test_at_once(void)
{
	static const char half[] = POST "Content-Length: 9\r\n\r\n123";
	const struct linger reset = {.l_onoff = 1};
	int fds[18], n_right = 0;
	char text[100];
	for (int i = 0; i < 18; i++) {
		fds[i] = dial();
		snprintf(text, sizeof text, GET "X-Request-Id: one-%02d\r\n\r\n", i);
		const char *said = i % 3 ? text : half;
		struct pollfd p = {fds[i], POLLOUT, 0};
		poll(&p, 1, 10000);
		ssize_t n = send(fds[i], said, strlen(said), 0);
		if (i % 3 || n < 0)
			continue;
		setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		close(fds[i]);
	}
	for (int i = 0; i < 18; i++) {
		if (i % 3 == 0)
			continue;
		snprintf(text, sizeof text, "X-Request-Id: one-%02d\r\n", i);
		receive(fds[i], 1);
		n_right += starts("HTTP/1.1 200 ") && has(text);
		hang_up(fds[i]);
	}
	is_int(n_right, 12, "of 18 at once, each that stays gets its answer");
	is_int(http_active(h), 0, "and those that left leave nothing behind");
}

/* Read a little at a time until no request counts any more. */
static void read_until_idle(int fd)
{
	char piece[1024];
	while (http_active(h) > 0) {
		ssize_t n = recv(fd, piece, sizeof piece, 0);
		settle();
		if (n == 0 || (n < 0 && !turn(fd, POLLIN)))
			return;
	}
}

/* A client that reads late, until libmicrohttpd is through with its answers. Returns whether some
 * bytes are still here then. receive_bytes: what its kernel holds. */
static bool leaves_last_bytes(int receive_bytes)
{
	const char *page = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = dial_small(receive_bytes), on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	settle();
	for (int i = 0; i < 1000 && http_active(h) == 0; i++) {
		send_all(fd, page, strlen(page));
		settle();
	}
	bool is_held = http_active(h) == 1;
	read_until_idle(fd);
	bool is_through = http_active(h) == 0;
	atomic_store(&health.state, HEALTH_DRAINING);
	bool is_left = http_active(h) == 1;
	read_until_idle(fd);
	bool is_taken = http_active(h) == 0;
	atomic_store(&health.state, HEALTH_LOADING);
	hang_up(fd);
	settle();
	return is_held && is_through && is_left && is_taken;
}

/* The last bytes of an answer count as a request until the client has them. Where the answers end
 * in the kernels' buffers depends on their sizes. */
static void test_last_bytes(void)
{
	bool is_seen = false;
	for (int i = 0; i < 16 && !is_seen; i++)
		is_seen = leaves_last_bytes(4096 + 1500 * i);
	ok(is_seen, "the last bytes count until the client takes them");
}

static void test_truncated(void)
{
	static const char *const parts[] = {
		"GET /hea", GET, POST "Content-Length: 10\r\n\r\n12345",
		POST "Transfer-Encoding: chunked\r\n\r\n5\r\n123"};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		int fd = dial();
		send_all(fd, parts[i], strlen(parts[i]));
		settle();
		shutdown(fd, SHUT_WR);
		receive(fd, 100);
		ok(is_closed && !has("200 OK"), "cut off in the middle (%zu)", i);
		hang_up(fd);
	}
	is_int(http_active(h), 0, "cut requests leave nothing behind");
	int fd = dial();
	settle();
	send_all(fd, GET "\r\n", strlen(GET) + 2);
	shutdown(fd, SHUT_WR);
	receive(fd, 1);
	ok(starts("HTTP/1.1 200 "), "a page is answered after a half-close");
	for (int i = 0; i < 3; i++) {
		settle();
		now_us += SECOND;
	}
	receive(fd, 100);
	ok(is_closed, "and then the connection is closed");
	hang_up(fd);
	fd = dial();
	settle();
	send_all(fd, parts[2], strlen(parts[2]));
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 3; i++) {
		settle();
		now_us += SECOND;
	}
	is_int(http_active(h), 0, "an end that comes with the last bytes is noticed");
	hang_up(fd);
}

/* --- sockets ------------------------------------------------------------------------ */

static void test_unix(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct http_opts o = opts();
	struct http *tcp = h, *second;
	struct fail fail = {0};
	char path[60];
	snprintf(path, sizeof path, "test_http.%d.sock", (int)getpid());
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	int stale = socket(AF_UNIX, SOCK_STREAM, 0);
	ok(bind(stale, (struct sockaddr *)&a, sizeof a) == 0, "a socket is left over");
	close(stale);
	o.host = NULL;
	o.unix_path = path;
	is_int(http_create(&o, &h, &fail), OK, "and taken over: %s", fail.text);
	is_int(http_create(&o, &second, &fail), E_IO, "a live one is not");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	connect(fd, (struct sockaddr *)&a, sizeof a);
	send_all(fd, GET "\r\n", strlen(GET) + 2);
	receive(fd, 1);
	ok(starts("HTTP/1.1 200 "), "it answers");
	close(fd);
	http_destroy(h);
	h = tcp;
	is_int(access(path, F_OK), -1, "and is removed at the end");
}

static void test_listen(void)
{
	struct http_opts o = opts();
	struct http *second;
	struct fail fail = {0};
	o.port = http_port(h);
	is_int(http_create(&o, &second, &fail), E_IO, "a port in use is refused");
	ok(strstr(fail.text, "Address already in use"), "%s", fail.text);
	o.host = "256.1.1.1";
	is_int(http_create(&o, &second, &fail), E_CONFIG, "so is no address");
	o.host = NULL;
	is_int(http_create(&o, &second, &fail), E_CONFIG, "and none at all");
	int fd = dial();
	turn(fd, POLLOUT);
	http_quiesce(h);
	int late = dial();
	struct pollfd p = {late, POLLOUT, 0};
	poll(&p, 1, 10000);
	ok(p.revents & POLLERR, "quiet: new connections are refused");
	send_all(fd, GET "\r\n", strlen(GET) + 2);
	receive(fd, 1);
	ok(starts("HTTP/1.1 200 "), "old ones are served");
	close(fd);
	close(late);
}

/* A request that comes behind the server's last turn. */
static void test_end(void)
{
	struct http_opts o = opts();
	struct http *other = h;
	struct fail fail = {0};
	char c;
	is_int(http_create(&o, &h, &fail), OK, "a server that ends");
	int fd = dial();
	turn(fd, POLLOUT);
	settle();
	ok(send(fd, GET "\r\n", strlen(GET) + 2, 0) > 0, "a request at the very end");
	http_destroy(h);
	h = other;
	ok(recv(fd, &c, 1, 0) == 0, "is not begun, and its connection is closed");
	close(fd);
}

int main(void)
{
	struct http_opts o = opts();
	struct fail fail = {0};
	signal(SIGPIPE, SIG_IGN);
	if (uv_loop_init(&loop) != 0 || http_create(&o, &h, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		return 1;
	}
	test_loading();
	test_health();
	test_methods();
	test_ids();
	test_framing();
	test_large();
	test_endless_headers();
	test_slow();
	test_places();
	test_pipelining();
	test_at_once();
	test_last_bytes();
	test_truncated();
	test_unix();
	test_end();
	test_listen();
	int fd = dial(); /* one that is open at the end */
	http_destroy(h);
	uv_run(&loop, UV_RUN_DEFAULT);
	is_int(uv_loop_close(&loop), 0, "the loop has no handle left");
	close(fd);
	return tap_done();
}
