/* SPDX-License-Identifier: Apache-2.0
 *
 * What systemd and this process tell each other. Without systemd (or without its
 * variables in the environment) every call does nothing. Thread: any.
 */
#pragma once
#include "base/status.h"

/* Send lines such as "READY=1\nSTATUS=…" (sd_notify(3)). */
void notify_sendf(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* WatchdogSec of the unit, in us: "WATCHDOG=1" must be sent more often. 0: no watchdog. */
int64_t notify_watchdog_us(void);
/* The socket that a .socket unit passes, or -1. E_CONFIG: it passes several. Call once: the
 * variables are removed. */
enum status notify_take_socket(int *out_fd, struct fail *fail) MUST_USE;
