/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the listening socket: TCP, a unix socket, or one that systemd passes. Made here so
 * that all three are served alike, and a failure is explained.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/http_private.h"

#define BACKLOG 511

/* Whether a socket could be made at path, as far as that shows without making it. */
static enum status look_unix(const char *path, struct fail *fail)
{
	struct stat st;
	const char *slash = strrchr(path, '/');
	char dir[sizeof((struct sockaddr_un){0}.sun_path)] = ".";
	if (slash)
		snprintf(dir, sizeof dir, "%.*s", (int)MAX(slash - path, 1), path);
	if (access(dir, W_OK | X_OK) != 0)
		return fail_set(fail, E_IO, "cannot listen on %s: %s", path, strerror(errno));
	if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return fail_set(fail, E_IO, "cannot listen on %s: it is there, and no socket",
				path);
	return OK;
}

static enum status listen_unix(const char *path, bool is_check, int *out_fd, struct fail *fail)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	if (strlen(path) >= sizeof a.sun_path)
		return fail_set(fail, E_CONFIG, "%s: longer than %zu bytes", path,
				sizeof a.sun_path - 1);
	enum status seen = look_unix(path, fail);
	if (seen != OK || is_check)
		return seen;
	memcpy(a.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail_set(fail, E_IO, "socket: %s", strerror(errno));
	/* The socket file of a dead server is removed. The file of a server that still
	 * answers is not. */
	if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    connect(fd, (struct sockaddr *)&a, sizeof a) < 0 &&
	    errno == ECONNREFUSED)
		unlink(path);
	if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
	    listen(fd, BACKLOG) == 0) {
		*out_fd = fd;
		return OK;
	}
	fail_set(fail, E_IO, "cannot listen on %s: %s", path, strerror(errno));
	close(fd);
	return E_IO;
}

static int listen_one(const struct addrinfo *a)
{
	int on = 1;
	int fd = socket(a->ai_family,
			a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
			a->ai_protocol);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* What to do about an error of bind; appended to the error's text. "": no advice. */
static const char *advice(int error, int port)
{
	if (error == EADDRINUSE)
		return "; end what listens there, or choose another port by --port";
	if (error == EACCES && port < 1024)
		return "; ports below 1024 need CAP_NET_BIND_SERVICE, so choose another by "
		       "--port";
	if (error == EADDRNOTAVAIL)
		return "; this machine does not have the address; --host 0.0.0.0 takes all";
	return "";
}

static enum status listen_tcp(const char *host, int port, bool is_check, int *out_fd,
			      struct fail *fail)
{
	struct addrinfo want = {.ai_socktype = SOCK_STREAM,
				.ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *all, *a;
	char service[16];
	int fd = -1;
	snprintf(service, sizeof service, "%d", port);
	int e = getaddrinfo(host, service, &want, &all);
	if (e != 0)
		return fail_set(fail, E_CONFIG, "cannot listen on %s: %s", host,
				gai_strerror(e));
	for (a = all; a && fd < 0 && !is_check; a = a->ai_next)
		fd = listen_one(a);
	freeaddrinfo(all);
	if (fd < 0 && !is_check)
		return fail_set(fail, E_IO, "cannot listen on %s port %d: %s%s", host,
				port, strerror(errno), advice(errno, port));
	*out_fd = fd;
	return OK;
}

static int port_of(int fd)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof a;
	if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
		return 0;
	if (a.ss_family == AF_INET)
		return ntohs(((struct sockaddr_in *)(void *)&a)->sin_port);
	if (a.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)(void *)&a)->sin6_port);
	return 0;
}

static enum status adopt(int given, int *out_fd, struct fail *fail)
{
	if (listen(given, BACKLOG) != 0 ||
	    fcntl(given, F_SETFL, fcntl(given, F_GETFL) | O_NONBLOCK) != 0)
		return fail_set(fail, E_IO, "descriptor %d is no socket to listen on: %s",
				given, strerror(errno));
	*out_fd = given;
	return OK;
}

enum status listen_open(const struct http_opts *o, int *out_fd, int *out_port,
			struct fail *fail)
{
	enum status status;
	if (o->listen_fd >= 0)
		status = adopt(o->listen_fd, out_fd, fail);
	else if (o->unix_path)
		status = listen_unix(o->unix_path, o->is_check, out_fd, fail);
	else if (o->host)
		status = listen_tcp(o->host, o->port, o->is_check, out_fd, fail);
	else
		status = fail_set(fail, E_CONFIG, "there is no address to listen on");
	if (status == OK && !o->is_check)
		*out_port = port_of(*out_fd);
	return status;
}

void listen_close(const struct http_opts *o, int fd)
{
	if (fd < 0)
		return;
	close(fd);
	if (o->listen_fd < 0 && o->unix_path)
		unlink(o->unix_path);
}
