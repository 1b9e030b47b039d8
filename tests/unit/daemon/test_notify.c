/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/tap.h"

/* What the socket that plays systemd got, "" when nothing. */
static const char *received(int fd)
{
	static char text[1000];
	ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void test_send(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	strcpy(at.sun_path, name);
	if (*name == '@')
		at.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0)
		exit(99);
	setenv("NOTIFY_SOCKET", name, 1);
	notify_sendf("READY=1\nSTATUS=Loading %d %%", 42);
	is_str(received(fd), "READY=1\nSTATUS=Loading 42 %", "arrives at %c…", *name);
	unsetenv("NOTIFY_SOCKET");
	notify_sendf("READY=1");
	is_str(received(fd), "", "nothing without NOTIFY_SOCKET");
	close(fd);
	if (*name == '/')
		unlink(name);
}

static void test_watchdog(void)
{
	char pid[32];
	is_int(notify_watchdog_us(), 0, "no watchdog");
	setenv("WATCHDOG_USEC", "30000000", 1);
	is_int(notify_watchdog_us(), 30000000, "watchdog");
	setenv("WATCHDOG_PID", "1", 1);
	is_int(notify_watchdog_us(), 0, "another process's watchdog");
	snprintf(pid, sizeof pid, "%d", getpid());
	setenv("WATCHDOG_PID", pid, 1);
	is_int(notify_watchdog_us(), 30000000, "ours");
}

static void test_socket(void)
{
	char pid[32];
	int fd = 7;
	struct fail fail;
	snprintf(pid, sizeof pid, "%d", getpid());
	is_int(notify_take_socket(&fd, &fail), OK, "no socket unit");
	is_int(fd, -1, "no socket");

	dup2(0, 3); /* libsystemd looks whether the descriptors are open */
	dup2(0, 4);
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_PID", "1", 1);
	is_int(notify_take_socket(&fd, &fail), OK, "another process's socket");
	is_int(fd, -1, "is not taken");
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_PID", pid, 1);
	is_int(notify_take_socket(&fd, &fail), OK, "a socket");
	is_int(fd, 3, "is the first after stderr");
	ok(!getenv("LISTEN_FDS"), "the variables are gone");
	setenv("LISTEN_FDS", "2", 1);
	setenv("LISTEN_PID", pid, 1);
	is_int(notify_take_socket(&fd, &fail), E_CONFIG, "two are one too many");
}

int main(void)
{
	char name[64];
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("LISTEN_FDS");
	notify_sendf("READY=1");
	snprintf(name, sizeof name, "/tmp/halod-notify-%d", getpid());
	test_send(name);
	snprintf(name, sizeof name, "@halod-notify-%d", getpid());
	test_send(name);
	test_watchdog();
	test_socket();
	return tap_done();
}
