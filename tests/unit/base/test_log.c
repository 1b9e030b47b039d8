/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

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

int main(void)
{
	capture = tmpfile();
	if (!capture || dup2(fileno(capture), STDERR_FILENO) < 0)
		return 99;
	test_text();
	test_json();
	char big[9000];
	memset(big, 'x', sizeof big);
	big[sizeof big - 1] = '\0';
	log_init(LOG_INFO, LOG_TEXT);
	log_info("%s", big);
	ok(strlen(logged()) < 4100, "a message is bounded");
	return tap_done();
}
