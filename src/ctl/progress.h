/* SPDX-License-Identifier: Apache-2.0
 *
 * One line on stderr that tells how far a command is. It is there on a terminal only: a
 * log wants no carriage returns. Thread: main.
 */
#pragma once
#include <stdint.h>

/* Show "WHAT 42 %", where 42 % is done of total. At most ten times a second, but always
 * when `what` is new or done is total. */
void progress_show(const char *what, int64_t done, int64_t total);
/* Take the line away, so that other output begins in column 0. */
void progress_end(void);
