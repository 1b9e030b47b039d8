/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/metrics.h"
#include "tests/tap.h"

static FILE *capture; /* what stderr goes to */

/* What was logged since the last call. */
static const char *logged(void)
{
	static char text[8192];
	rewind(capture);
	size_t n = fread(text, 1, sizeof text - 1, capture);
	text[n] = '\0';
	if (ftruncate(fileno(capture), 0) != 0)
		exit(99);
	rewind(capture);
	return text;
}

static void pretend_journal(void)
{
	struct stat st;
	char v[64];
	fstat(STDERR_FILENO, &st);
	snprintf(v, sizeof v, "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", v, 1);
}

static void test_text(void)
{
	unsetenv("JOURNAL_STREAM");
	log_init(LOG_INFO, LOG_TEXT);
	errno = 42;
	log_info("model %s", "tiny");
	is_int(errno, 42, "errno is kept");
	is_str(logged(), "halod: model tiny\n", "info");
	log_error("bad");
	is_str(logged(), "halod: error: bad\n", "error names its level");
	log_debug("x");
	is_str(logged(), "", "debug is off");
	ok(log_enabled(LOG_WARN) && !log_enabled(LOG_DEBUG), "log_enabled agrees");
	log_warn("a\nb\x1b[31m\x7f\xff");
	is_str(logged(), "halod: warning: a\\x0ab\\x1b[31m\\x7f\xEF\xBF\xBD\n",
	       "one event stays one line, whatever its bytes");

	pretend_journal();
	log_init(LOG_DEBUG, LOG_TEXT);
	log_debug("x");
	is_str(logged(), "<7>x\n", "the journal gets its priority prefix");
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_init(LOG_DEBUG, LOG_TEXT);
	log_debug("x");
	is_str(logged(), "halod: debug: x\n", "somebody else's journal does not count");
}

static void test_json(void)
{
	log_init(LOG_INFO, LOG_JSON);
	log_warn("a\"b\n\xff");
	const char *s = logged();
	ok(strncmp(s, "{\"ts\":\"20", 9) == 0 && s[7 + 23] == 'Z', "time stamp");
	is_str(strstr(s, ",\"level\""),
	       ",\"level\":\"warning\",\"msg\":\"a\\\"b\\n\xEF\xBF\xBD\"}\n",
	       "valid JSON for any bytes");
	log_json(STR("{\"path\":\"/health\"}"));
	is_str(logged(), "{\"path\":\"/health\"}\n", "access log line as it is");
}

/* All that can be read of a pipe without waiting. */
static void drain(int fd, struct buf *out)
{
	char piece[4096];
	ssize_t n;
	while ((n = read(fd, piece, sizeof piece)) > 0)
		buf_add(out, piece, (size_t)n);
}

/* Lines that were written, that came, and that the notices say are missing. */
static void check_all_told(const struct buf *got, long n_written)
{
	long n_came = 0, n_missing = 0;
	int last = -1;
	bool in_order = true;
	for (char *p = got->p; p && *p; p = strchr(p, '\n') + 1) {
		int number;
		long missing;
		if (sscanf(p, "{\"n\":%d,", &number) == 1) {
			in_order &= number > last;
			last = number;
			n_came++;
		} else if (sscanf(p, "halod: warning: %ld lines", &missing) == 1) {
			n_missing += missing;
		} else {
			in_order = false;
		}
	}
	ok(in_order, "lines are whole and in order");
	ok(n_missing > 0, "the log says that lines are missing");
	is_int(n_came + n_missing, n_written, "and how many");
	is_int((long)metric_get(METRIC_LOG_DROPPED), n_missing, "as do the metrics");
}

/* A reader that does not read: whoever logs goes on. */
static void test_unread(const char *what, bool is_socket)
{
	int ends[2];
	struct buf got = {0};
	char line[300];
	long n = 0;
	metrics_reset();
	if ((is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) != 0 ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
		exit(99);
	log_init(LOG_INFO, LOG_TEXT);
	alarm(60); /* one that waits for the reader is killed */
	for (; n < 5000; n++) {
		int len = snprintf(line, sizeof line, "{\"n\":%ld,\"x\":\"%0200d\"}", n, 0);
		log_json((struct str){line, (size_t)len});
	}
	ok(metric_get(METRIC_LOG_DROPPED) > 0, "%s that nobody reads: lines are dropped",
	   what);
	for (int i = 0; i < 100; i++) {
		drain(ends[0], &got);
		log_flush();
	}
	log_json(STR("{\"n\":5000,"));
	drain(ends[0], &got);
	check_all_told(&got, 5001);
	close(ends[0]);
	log_json(STR("{\"n\":5001,"));
	ok(true, "%s that is closed: nobody to tell", what);
	alarm(0);
	close(ends[1]);
	dup2(fileno(capture), STDERR_FILENO);
	log_init(LOG_INFO, LOG_TEXT);
	buf_deinit(&got);
}

int main(void)
{
	capture = tmpfile();
	if (!capture || dup2(fileno(capture), STDERR_FILENO) < 0)
		return 99;
	test_text();
	test_json();
	signal(SIGPIPE, SIG_IGN);
	test_unread("a pipe", false);
	test_unread("a socket", true);
	char big[9000];
	memset(big, 'x', sizeof big);
	big[sizeof big - 1] = '\0';
	log_init(LOG_INFO, LOG_TEXT);
	log_info("%s", big);
	ok(strlen(logged()) < 4100, "a message is bounded");
	return tap_done();
}
