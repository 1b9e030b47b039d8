/* SPDX-License-Identifier: Apache-2.0
 *
 * One line per event on stderr. Thread: any. Nobody waits for who reads it: see
 * log_sink.c. What stderr does not take at once is kept for log_flush or the next line;
 * where too much is kept, lines are dropped, counted in halod_log_lines_dropped_total
 * and told of in the log when it is read again.
 *
 * Text format: with systemd's "<N>" priority prefix when stderr is the journal
 * (JOURNAL_STREAM names its device and inode), else "halod: …". JSON format: one
 * object a line, {"ts":…,"level":…,"msg":…}. Libraries do not log above debug:
 * they return. sched, http, daemon and ctl log, once, with the request id.
 */
#pragma once
#include "base/buf.h"

enum log_level { LOG_ERROR = 3, LOG_WARN = 4, LOG_INFO = 6, LOG_DEBUG = 7 };
enum log_format { LOG_TEXT, LOG_JSON };

/* Before threads start. */
void log_init(enum log_level max, enum log_format format);
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Append the time as logs spell it: UTC, "2026-11-21T06:38:27.784Z". */
void log_add_time(struct buf *b);
/* A finished JSON object of the access log; written as it is, plus newline. */
void log_json(struct str object);
/* Bytes as they are, for a terminal. */
void log_raw(struct str s);
/* An error, its text in parts up to NULL: from a signal handler, just before the end.
 * Characters that JSON or a terminal would take amiss become "?". */
void log_from_signal(const char *const *parts);
/* Write what is kept, as far as it goes; from time to time, and at the end. */
void log_flush(void);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
