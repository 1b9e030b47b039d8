/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses libsystemd where the build has it. Otherwise makes the same three calls itself: the
 * protocol is one datagram and a few variables (sd_notify(3), sd_listen_fds(3)).
 */
#include <build-config.h>

#include "daemon/notify.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

static void send_text(const char *text) { sd_notify(0, text); }

int64_t notify_watchdog_us(void)
{
	uint64_t us = 0;
	return sd_watchdog_enabled(0, &us) > 0 ? (int64_t)us : 0;
}

static int count_sockets(void) { return sd_listen_fds(1); }

#else
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void send_text(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t n = path ? strlen(path) : 0;
	if (n < 2 || n > sizeof to.sun_path || (*path != '/' && *path != '@'))
		return;
	memcpy(to.sun_path, path, n);
	if (*path == '@')
		to.sun_path[0] = '\0'; /* a name in the abstract namespace */
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	close(fd);
}

/* True: the variable `pid` is absent or names this process. */
static bool is_for_us(const char *pid)
{
	const char *v = getenv(pid);
	return !v || strtol(v, NULL, 10) == getpid();
}

int64_t notify_watchdog_us(void)
{
	const char *v = getenv("WATCHDOG_USEC");
	return v && is_for_us("WATCHDOG_PID") ? strtoll(v, NULL, 10) : 0;
}

static int count_sockets(void)
{
	const char *v = getenv("LISTEN_FDS");
	int n = v && getenv("LISTEN_PID") && is_for_us("LISTEN_PID") ? atoi(v) : 0;
	for (int fd = 3; fd < 3 + n && fd < 1024; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	return n;
}
#endif

void notify_sendf(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n >= 0)
		send_text(text);
	free(n >= 0 ? text : NULL);
}

enum status notify_take_socket(int *out_fd, struct fail *fail)
{
	int n = count_sockets();
	if (n > 1)
		return fail_set(fail, E_CONFIG, "the socket unit passes %d sockets; "
				"halod takes one", n);
	*out_fd = n == 1 ? 3 : -1; /* SD_LISTEN_FDS_START */
	return OK;
}
