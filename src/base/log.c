/* SPDX-License-Identifier: Apache-2.0
 *
 * Each line is formatted in a buffer and leaves in one piece (log_sink.c), so lines of
 * several threads never mix. Signal handlers must not call this code: the daemon handles
 * its signals in the main loop.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log_sink.h"
#include "base/utf8.h"

/* Longer messages are cut, so that a client cannot fill the journal. */
#define MESSAGE_MAX 4000

static struct {
	enum log_level max;
	enum log_format format;
	bool is_journal;
} conf = {LOG_INFO, LOG_TEXT, false};

/* JOURNAL_STREAM holds the device and inode of the pipe that systemd reads our stderr
 * from. A child with another stderr inherits the variable but not the pipe. */
static bool stderr_is_journal(void)
{
	const char *v = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;
	return v && sscanf(v, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}

bool log_enabled(enum log_level level) { return level <= conf.max; }

static void write_line(struct buf *line)
{
	buf_add_c(line, '\n');
	log_sink_write(buf_str(line));
}

static const char *level_name(enum log_level level)
{
	switch (level) {
	case LOG_ERROR: return "error";
	case LOG_WARN: return "warning";
	case LOG_INFO: return "info";
	case LOG_DEBUG: return "debug";
	}
	return "info";
}

/* Replace control characters: they could fake a second line or steer a terminal. */
static void add_printable(struct buf *line, struct str msg)
{
	struct buf clean = {0};
	utf8_add_clean(&clean, msg);
	for (size_t i = 0; i < clean.n; i++) {
		unsigned char c = (unsigned char)clean.p[i];
		if (c < 0x20 || c == 0x7F)
			buf_addf(line, "\\x%02x", c);
		else
			buf_add_c(line, (char)c);
	}
	buf_deinit(&clean);
}

static void format_text(struct buf *line, enum log_level level, struct str msg)
{
	if (conf.is_journal)
		buf_addf(line, "<%d>", level);
	else if (level == LOG_INFO)
		buf_add_z(line, "halod: ");
	else
		buf_addf(line, "halod: %s: ", level_name(level));
	add_printable(line, msg);
}

void log_add_time(struct buf *b)
{
	struct timespec t;
	struct tm tm;
	char ts[32];
	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	strftime(ts, sizeof ts, "%Y-%m-%dT%H:%M:%S", &tm);
	buf_addf(b, "%s.%03ldZ", ts, t.tv_nsec / 1000000);
}

static void format_json(struct buf *line, enum log_level level, struct str msg)
{
	buf_add_z(line, "{\"ts\":\"");
	log_add_time(line);
	buf_addf(line, "\",\"level\":\"%s\",\"msg\":", level_name(level));
	buf_add_json(line, msg);
	buf_add_c(line, '}');
}

static void format(struct buf *line, enum log_level level, struct str msg)
{
	if (conf.format == LOG_JSON)
		format_json(line, level, msg);
	else
		format_text(line, level, msg);
}

/* The line that log_sink.c writes when lines were dropped. */
static void add_notice(struct buf *line, long n)
{
	char msg[100];
	snprintf(msg, sizeof msg, "%ld lines of this log are missing here: nobody read it",
		 n);
	format(line, LOG_WARN, str_of(msg));
	buf_add_c(line, '\n');
}

/* Uses neither buf nor printf: signal-safety(7) allows neither in a signal handler. */
void log_from_signal(const char *const *parts)
{
	static char line[1024];
	static const char json[] = "{\"level\":\"error\",\"msg\":\"";
	const char *before = conf.format == LOG_JSON ? json
			     : conf.is_journal ? "<3>" : "halod: error: ";
	const char *after = conf.format == LOG_JSON ? "\"}\n" : "\n";
	size_t n = strlen(before), room = sizeof line - strlen(after);
	memcpy(line, before, n);
	for (; *parts; parts++)
		for (const char *p = *parts; *p && n < room; p++) {
			bool is_odd = (unsigned char)*p < 0x20 || *p == 0x7F ||
				      *p == '"' || *p == '\\';
			line[n++] = is_odd ? '?' : *p;
		}
	memcpy(line + n, after, strlen(after));
	n += strlen(after);
	log_sink_write_last(line, n);
}

void log_init(enum log_level max, enum log_format format)
{
	conf.max = max;
	conf.format = format;
	conf.is_journal = stderr_is_journal();
	log_sink_set_notice(add_notice);
	log_sink_open();
}

void log_write(enum log_level level, const char *fmt, ...)
{
	if (!log_enabled(level))
		return;
	int saved = errno;
	char msg[MESSAGE_MAX];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	struct str s = {msg, n < 0 ? 0 : MIN((size_t)n, sizeof msg - 1)};
	struct buf line = {0};
	format(&line, level, s);
	write_line(&line);
	buf_deinit(&line);
	errno = saved;
}

void log_json(struct str object)
{
	int saved = errno;
	struct buf line = {0};
	buf_add_str(&line, object);
	write_line(&line);
	buf_deinit(&line);
	errno = saved;
}

void log_raw(struct str s)
{
	int saved = errno;
	log_sink_write(s);
	errno = saved;
}

void log_flush(void) { log_sink_flush(); }
