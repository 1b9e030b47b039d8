/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of the daemon: listen, load, serve, drain, stop. Thread: main, which
 * becomes io.
 */
#pragma once
#include "daemon/config.h"
#include "daemon/exit.h"

struct loop_opts {
	const struct config *config;
	/* What config_load was called with: on SIGHUP the file is compared with the settings. */
	int argc;
	char *const *argv;
	const char *default_file;
	/* Look at all that the settings name, as a start does, and log the faults. Nothing is
	 * loaded, and nothing listens. */
	bool is_check;
};

/* Returns when the daemon is over, or leaves through _exit where a thread can no
 * longer be waited for. */
enum exit_code loop_run(const struct loop_opts *o);
