/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows on one line of stderr how far a command is. Only on a terminal, because carriage
 * returns spoil a log. Thread: main.
 */
#pragma once
#include <stdint.h>

/* Show "WHAT 42 %", where 42 % is done / total. Updated at most ten times a second, but always
 * when `what` is new or done equals total. */
void progress_show(const char *what, int64_t done, int64_t total);
/* Erase the line, so that other output begins in column 0. */
void progress_end(void);
