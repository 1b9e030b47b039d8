/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of the daemon: listen, load, serve, drain, stop. Thread: main, which
 * becomes io.
 */
#pragma once
#include "daemon/config.h"
#include "daemon/exit.h"

/* Returns when the daemon is over, or leaves through _exit where a thread can no
 * longer be waited for. */
enum exit_code loop_run(const struct config *c);
