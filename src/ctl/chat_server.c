/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/chat_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/chat_client.h"
#include "ctl/progress.h"

#define POLL_US 50000

static void become_halod(const struct own_server *s, const char *program, char *const *argv,
			 int n, pid_t parent)
{
	char *all[32] = {(char *)program, "--config", "/dev/null", "--unix-socket",
			 (char *)s->socket};
	int at = 5;
	for (int i = 0; i < n && at < 31; i++)
		all[at++] = argv[i];
	int log = open(s->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the chat is killed, the server ends too */
	setpgid(0, 0);                    /* Ctrl-C must stop an answer, not the server */
	if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0 ||
	    getppid() != parent)
		_exit(127);
	execvp(program, all);
	_exit(127);
}

/* Fails with the server's last error from its log, or the log's last line. */
static enum status tell_end(const struct own_server *s, struct fail *fail)
{
	struct buf text = {0};
	struct fail ignored;
	if (file_read(s->log, 1 << 20, &text, &ignored) != OK || text.n == 0) {
		buf_deinit(&text);
		return fail_set(fail, E_MISSING, "halod does not start. Is it installed?");
	}
	char *line = text.p, *last = text.p;
	for (char *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (*line && (strstr(line, "error:") || !strstr(last, "error:")))
			last = line;
	}
	fail_set(fail, E_IO, "%.300s", last);
	buf_deinit(&text);
	return E_IO;
}

static enum status wait_ready(struct own_server *s, struct fail *fail)
{
	const struct chat_server server = {"http://halod", s->socket, NULL};
	for (bool is_ready = false; !is_ready;) {
		json_t *health;
		if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
			s->pid = 0;
			progress_end();
			return tell_end(s, fail);
		}
		if (chat_get(&server, "/health", &health) > 0) {
			double load = json_number_value(json_object_get(health, "load"));
			is_ready = json_is_true(json_object_get(health, "ready"));
			progress_show("loading the model", (int64_t)(1000 * load), 1000);
		}
		json_decref(health);
		if (!is_ready)
			usleep(POLL_US);
	}
	progress_end();
	return OK;
}

enum status chat_server_start(char *const *argv, int n, struct own_server *out,
			      struct fail *fail)
{
	static const char *const places[] = {"halod", "../sbin/halod"};
	*out = (struct own_server){.dir = "/tmp/haloctl-chat-XXXXXX"};
	if (!mkdtemp(out->dir)) {
		*out->dir = '\0';
		return fail_set(fail, E_IO, "/tmp: %s", strerror(errno));
	}
	snprintf(out->socket, sizeof out->socket, "%s/socket", out->dir);
	snprintf(out->log, sizeof out->log, "%s/log", out->dir);
	char *program = file_beside_program(places, ARRAY_LEN(places));
	pid_t self = getpid();
	out->pid = fork();
	if (out->pid == 0)
		become_halod(out, program ? program : "halod", argv, n, self);
	free(program);
	if (out->pid < 0)
		return fail_set(fail, E_IO, "cannot start halod: %s", strerror(errno));
	return wait_ready(out, fail);
}

void chat_server_stop(struct own_server *s)
{
	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (!*s->dir)
		return;
	unlink(s->socket);
	unlink(s->log);
	rmdir(s->dir);
	*s = (struct own_server){0};
}
