/* SPDX-License-Identifier: Apache-2.0
 *
 * One line per event on stderr. Thread: any.
 *
 * Logging never waits for the reader of stderr (log_sink.c). Bytes that stderr does not
 * take at once are kept for the next line or log_flush. When too much is kept, lines are
 * dropped and counted in halod_log_lines_dropped_total. A later line reports the number.
 *
 * Text format: "halod: …", or systemd's "<N>" priority prefix if stderr is the journal
 * (JOURNAL_STREAM names its device and inode). JSON format: one object a line,
 * {"ts":…,"level":…,"msg":…}.
 *
 * Library code logs at most at debug level and returns errors. The folders sched, http,
 * daemon and ctl log an error once, with the request id.
 */
#pragma once
#include "base/buf.h"

enum log_level { LOG_ERROR = 3, LOG_WARN = 4, LOG_INFO = 6, LOG_DEBUG = 7 };
enum log_format { LOG_TEXT, LOG_JSON };

/* Call before threads start. */
void log_init(enum log_level max, enum log_format format);
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Append the time as logs spell it: UTC, "2026-11-21T06:38:27.784Z". */
void log_add_time(struct buf *b);
/* Write a finished JSON object of the access log unchanged, plus a newline. */
void log_json(struct str object);
/* Write bytes unchanged, for a terminal. */
void log_raw(struct str s);
/* Log an error from a signal handler, just before the process ends. parts ends in NULL. A
 * character that is unsafe in JSON or on a terminal becomes "?". */
void log_from_signal(const char *const *parts);
/* Write the kept bytes as far as stderr takes them. Call it now and then, and at the end. */
void log_flush(void);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/* What "request" in "3 requests" ends with. */
static inline const char *log_plural(int n)
{
	return n == 1 ? "" : "s";
}
