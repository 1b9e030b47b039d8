/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/metrics.h"
#include "tests/tap.h"
#include "trace/exporter.h"
#include "trace/traceparent.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void test_parse(void)
{
	static const struct {
		const char *text;
		bool is_good, is_sampled;
	} rows[] = {
		{"00-" TRACE "-" PARENT "-01", true, true},
		{"00-" TRACE "-" PARENT "-00", true, false},
		{"00-" TRACE "-" PARENT "-ff", true, true},
		{"01-" TRACE "-" PARENT "-01", true, true},
		{"cc-" TRACE "-" PARENT "-01-what-will-come", true, true},
		{"cc-" TRACE "-" PARENT "-01.what", false, false},
		{"ff-" TRACE "-" PARENT "-01", false, false},
		{"00-" TRACE "-" PARENT "-01-more", false, false},
		{"00-" TRACE "-" PARENT "-1", false, false},
		{"00-" TRACE "-" PARENT "-0x", false, false},
		{"00-" TRACE "-" PARENT, false, false},
		{"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", false, false},
		{"00-00000000000000000000000000000000-" PARENT "-01", false, false},
		{"00-" TRACE "-0000000000000000-01", false, false},
		{"00_" TRACE "-" PARENT "-01", false, false},
		{" 00-" TRACE "-" PARENT "-01", false, false},
		{"0g-" TRACE "-" PARENT "-01", false, false},
		{"", false, false},
		{NULL, false, false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct traceparent p;
		bool is_good = traceparent_parse(rows[i].text, &p);
		ok(is_good == rows[i].is_good && p.is_sampled == rows[i].is_sampled &&
		   strcmp(p.trace_id, is_good ? TRACE : "") == 0 &&
		   strcmp(p.parent_id, is_good ? PARENT : "") == 0,
		   "%s", rows[i].text ? rows[i].text : "none");
	}
}

/* A socket that lets clients in and never answers; its port. */
static int open_silent(int *out_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 8) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) != 0)
		abort();
	*out_port = ntohs(a.sin_port);
	return fd;
}

/* The thread takes one batch and hangs with it. Behind it four have room. */
static void test_silent(void)
{
	int port, fd = open_silent(&port);
	char endpoint[60];
	struct exporter *e;
	snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d/v1/traces", port);
	metrics_reset();
	is_int(exporter_create(&(struct exporter_opts){.endpoint = endpoint, .version = "1",
						       .max_queue = 4, .timeout_s = 1},
			       &e, NULL), OK, "an exporter");
	for (int i = 0; i < 1000; i++) {
		struct buf b = {0};
		buf_add_z(&b, "{}");
		exporter_add(e, &b, 3);
	}
	double full = metric_get_by(METRIC_SPANS_DROPPED, "queue_full");
	ok(full > 0, "a full queue drops");
	exporter_destroy(e);
	is_int(metric_get(METRIC_SPANS_DROPPED), 3000, "and every span is counted");
	is_int(metric_get(METRIC_SPANS_SENT), 0, "none was taken");
	close(fd);
}

static void test_endpoint(void)
{
	struct exporter *e;
	struct fail fail;
	is_int(exporter_create(&(struct exporter_opts){.endpoint = "localhost:4318",
						       .version = "1"}, &e, &fail),
	       E_CONFIG, "an endpoint without http:// is refused");
	ok(strstr(fail.text, "as in http://"), "and says how it looks");
}

int main(void)
{
	test_parse();
	test_silent();
	test_endpoint();
	return tap_done();
}
