/* SPDX-License-Identifier: Apache-2.0
 *
 * Where log lines leave the process: stderr, without ever waiting for its reader.
 * Thread: any.
 */
#pragma once
#include "base/buf.h"

/* Look at what stderr is. Before threads start; again when it has changed. */
void log_sink_open(void);
/* Write a whole line, or keep it where stderr takes nothing at the moment, or drop it
 * where much is kept already. errno may change. */
void log_sink_write(struct str line);
/* Write what is kept, as far as it goes. */
void log_sink_flush(void);
/* The last line of a process that dies; async-signal-safe, without the lock. */
void log_sink_write_last(const char *p, size_t n);
/* Makes the line that tells how many were dropped. */
typedef void (*log_sink_notice_fn)(struct buf *line, long n);
void log_sink_set_notice(log_sink_notice_fn fn);
