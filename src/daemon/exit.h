/* SPDX-License-Identifier: Apache-2.0
 *
 * What each exit status of halod means. man/halod.8.in and systemd/halod.service.in say the
 * same; tests/daemon/test_docs checks that they do.
 */
#pragma once

enum exit_code {
	EXIT_CODE_OK = 0,      /* stopped by a signal; or --help and similar */
	EXIT_CODE_RUNTIME = 1, /* a failure while serving */
	EXIT_CODE_CONFIG = 2,  /* wrong flag or setting: a restart will not help */
	EXIT_CODE_MODEL = 3,   /* the model cannot be loaded, or its files changed while serving */
	EXIT_CODE_LISTEN = 4,  /* the address is in use or cannot be bound */
	EXIT_CODE_STALLED = 5, /* the engine or its device does not answer */
	EXIT_CODE_ABORTED = 6, /* a second signal cut the drain short */
	EXIT_CODE_CHECK = 7,   /* the self-check failed: this machine computes wrong numbers */
};
