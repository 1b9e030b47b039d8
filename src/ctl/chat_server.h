/* SPDX-License-Identifier: Apache-2.0
 *
 * A halod of our own, on a unix socket that only we can reach. A conversation with a model
 * thus runs what a client would meet: template, prefix cache, drafts. Thread: main.
 */
#pragma once
#include <sys/types.h>

#include "base/status.h"

struct own_server {
	pid_t pid;
	char dir[32];     /* a folder of its own */
	char socket[48];  /* in it */
	char log[48];     /* what halod says */
};

/* Start halod, which lies beside this program or in PATH, with these arguments, and wait
 * until it is ready, showing its progress. E_MISSING: there is no halod; E_IO: it ended,
 * and its last words. Ends with this process in any case. */
enum status chat_server_start(char *const *argv, int n, struct own_server *out,
			     struct fail *fail) MUST_USE;
void chat_server_stop(struct own_server *s);
