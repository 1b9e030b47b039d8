/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a halod for this command alone, on a unix socket that only this user can reach. A chat
 * thus runs the same code as a client's requests: template, prefix cache, drafts. Thread: main.
 */
#pragma once
#include <sys/types.h>

#include "base/status.h"

struct own_server {
	pid_t pid;
	char dir[32];     /* a temporary folder for this server */
	char socket[48];  /* path of the socket, in dir */
	char log[48];     /* path of halod's log, in dir */
};

/* Start halod, which lies beside this program or in PATH, with these arguments, and wait
 * until it is ready, showing its progress. E_MISSING: there is no halod; E_IO: it ended, and
 * the message is its last error. It ends when this process ends, in any case. */
enum status chat_server_start(char *const *argv, int n, struct own_server *out,
			     struct fail *fail) MUST_USE;
void chat_server_stop(struct own_server *s);
