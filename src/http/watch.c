/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "http/http_private.h"

struct watch {
	uv_poll_t poll;
	void (*fn)(void *ctx, int events);
	int events; /* that libuv watches for */
};

struct watch *watch_open(uv_loop_t *loop, int fd, void (*fn)(void *ctx, int events), void *ctx)
{
	struct watch *w = xcalloc(1, sizeof *w);
	if (uv_poll_init(loop, &w->poll, fd) != 0) {
		free(w);
		return NULL;
	}
	w->poll.data = ctx;
	w->fn = fn;
	return w;
}

static void on_poll(uv_poll_t *p, int status, int events)
{
	struct watch *w = (struct watch *)p;
	if (status < 0)
		w->events = 0; /* libuv has stopped */
	w->fn(p->data, status < 0 ? 0 : events);
}

void watch_for(struct watch *w, int events)
{
	if (!w || events == w->events)
		return;
	w->events = events;
	int rc = uv_poll_start(&w->poll, events, on_poll);
	assert(rc == 0); /* its only errors are mistakes of its caller */
}

void watch_close(struct watch **w)
{
	if (*w)
		uv_close((uv_handle_t *)*w, (uv_close_cb)free);
	*w = NULL;
}
