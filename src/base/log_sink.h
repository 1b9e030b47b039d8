/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends log lines to stderr without ever waiting for the reader. Thread: any.
 */
#pragma once
#include "base/buf.h"

/* Find out what kind of file stderr is. Call before threads start, and again after stderr
 * changed. */
void log_sink_open(void);
/* Write a whole line. If stderr takes nothing now, keep the line; if too much is kept
 * already, drop it. errno may change. */
void log_sink_write(struct str line);
/* Write the kept bytes as far as stderr takes them. */
void log_sink_flush(void);
/* Write the last line of a dying process: async-signal-safe, takes no lock. */
void log_sink_write_last(const char *p, size_t n);
/* Writes the notice that n lines were dropped. */
typedef void (*log_sink_notice_fn)(struct buf *line, long n);
void log_sink_set_notice(log_sink_notice_fn fn);
