/* SPDX-License-Identifier: Apache-2.0
 *
 * A suspended connection is out of libmicrohttpd's sight: a client that hangs up while
 * its request waits or is in prefill would be noticed at the next write only, and the
 * engine would work for nobody. So the sockets of running requests are also in an epoll
 * set of our own, for hanging up alone; what else arrives stays for libmicrohttpd.
 *
 * A client that shuts down only its sending side (RFC 9293's half-close) looks the same
 * as one that is gone, until something is sent to it. It is taken for gone: no HTTP
 * client that waits for an answer does it, and a wrong guess the other way costs
 * minutes of engine time. Pages (/health, /metrics) are answered before anyone looks.
 *
 * A descriptor must leave the set before libmicrohttpd closes it, else its number
 * would soon name another client: conn_release sees to it.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "http/conn.h"

enum status watch_open(struct http *h, struct fail *fail)
{
	h->watch_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->watch_fd < 0)
		return fail_set(fail, E_IO, "epoll_create1: %s", strerror(errno));
	return OK;
}

void watch_close(struct http *h)
{
	if (h->watch_fd >= 0)
		close(h->watch_fd);
	h->watch_fd = -1;
}

void watch_add(struct conn *c)
{
	/* EPOLLERR and EPOLLHUP come without asking. */
	struct epoll_event ev = {.events = EPOLLRDHUP, .data.ptr = c};
	if (c->is_watched || !c->sock)
		return;
	/* Without room in the set the client is noticed at the next write. */
	c->is_watched = epoll_ctl(c->http->watch_fd, EPOLL_CTL_ADD, c->sock->fd,
				  &ev) == 0;
}

void watch_remove(struct conn *c)
{
	if (!c->is_watched)
		return;
	epoll_ctl(c->http->watch_fd, EPOLL_CTL_DEL, c->sock->fd, NULL);
	c->is_watched = false;
}

void watch_poll(struct http *h)
{
	struct epoll_event ev[64];
	int n = epoll_wait(h->watch_fd, ev, 64, 0);
	for (int i = 0; i < n; i++) {
		struct conn *c = ev[i].data.ptr;
		watch_remove(c);
		conn_drop(c, END_CLIENT);
	}
}
