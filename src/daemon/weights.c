/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/weights.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/mapped.h"

struct weights {
	struct weights_opts o;
	uv_fs_event_t *files[MAPPED_MAX];
	int n_files;
	bool is_busy, is_asked; /* a job runs; one more must run after it */
	enum status found;
	struct fail fail;
};

static void weights_look(void *arg)
{
	struct weights *w = arg;
	w->found = mapped_check(&w->fail);
}

static void ask(struct weights *w);

static void on_looked(void *arg)
{
	struct weights *w = arg;
	w->is_busy = false;
	if (w->found != OK)
		w->o.on_change(w->o.ctx, w->fail.text);
	else if (w->is_asked)
		ask(w);
}

static void ask(struct weights *w)
{
	w->is_asked = w->is_busy;
	if (!w->is_busy)
		workers_run(w->o.workers, weights_look, on_looked, w);
	w->is_busy = true;
}

static void on_event(uv_fs_event_t *e, const char *name, int events, int status)
{
	(void)name, (void)events, (void)status;
	ask(e->data);
}

static void on_closed(uv_handle_t *h) { free(h); }

static void unwatch(struct weights *w)
{
	for (int i = 0; i < w->n_files; i++)
		uv_close((uv_handle_t *)w->files[i], on_closed);
	w->n_files = 0;
}

void weights_again(struct weights *w)
{
	char path[MAPPED_PATH_BYTES];
	unwatch(w);
	for (int i = 0; i < MAPPED_MAX; i++) {
		if (!mapped_path(i, path))
			continue;
		uv_fs_event_t *e = xcalloc(1, sizeof *e);
		int rc = uv_fs_event_init(w->o.loop, e);
		if (rc != 0) {
			free(e);
			continue;
		}
		e->data = w;
		rc = uv_fs_event_start(e, on_event, path, 0);
		if (rc != 0)
			log_debug("%s: a change is not noticed: %s", path, uv_strerror(rc));
		w->files[w->n_files++] = e;
	}
	ask(w); /* also tells of changes since a file was mapped */
}

struct weights *weights_create(const struct weights_opts *o)
{
	struct weights *w = xcalloc(1, sizeof *w);
	w->o = *o;
	weights_again(w);
	return w;
}

void weights_destroy(struct weights *w)
{
	if (w)
		unwatch(w);
	free(w);
}
