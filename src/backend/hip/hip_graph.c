/* SPDX-License-Identifier: Apache-2.0
 *
 * Records a step's launches as a graph.
 *
 * A decode step is some hundred launches of a few microseconds each. Between steps only
 * device memory differs. The first step of a key runs normally (kernels are looked up).
 * The second is captured, launched as a graph and kept. From the third on, one call
 * queues all of it. Capturing does not execute anything, so operations that would copy,
 * wait or allocate within a step are refused.
 *
 * Graphs hold addresses of buffers, so freeing memory discards all graphs.
 */
#include "backend/hip/hip_graph.h"

#include <stdlib.h>

#include "backend/hip/hip_slots.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"

static void forget(struct hip *h, struct hip_graph_slot *s)
{
	if (s->exec)
		h->api.hipGraphExecDestroy(s->exec);
	if (h->replayed == s)
		h->replayed = NULL;
	*s = (struct hip_graph_slot){0};
}

void hip_graph_clear(struct hip *h)
{
	for (size_t i = 0; i < ARRAY_LEN(h->graphs); i++)
		forget(h, &h->graphs[i]);
}

/* The slot of a key. A new key takes the least recently used slot. */
static struct hip_graph_slot *slot_of(struct hip *h, uint64_t key)
{
	struct hip_graph_slot *oldest = &h->graphs[0];
	for (size_t i = 0; i < ARRAY_LEN(h->graphs); i++) {
		if (h->graphs[i].key == key)
			return &h->graphs[i];
		if (h->graphs[i].used < oldest->used)
			oldest = &h->graphs[i];
	}
	forget(h, oldest);
	oldest->key = key;
	return oldest;
}

static enum status replay(struct hip *h, struct hip_graph_slot *s)
{
	metric_add(METRIC_GRAPH_REPLAYS, 1);
	h->base.n_replays++;
	h->replayed = s;
	h->base.n_step_launches = s->n_launches;
	return hip_check(h, h->api.hipGraphLaunch(s->exec, h->stream), "a step's graph");
}

enum status hip_step_begin(struct backend *b, uint64_t key, bool *out_run)
{
	struct hip *h = hip_of(b);
	*out_run = true;
	h->step = NULL;
	h->step_launches = 0;
	h->n_begun++;
	if (h->has_failed)
		return E_DEVICE;
	if (h->slots && !h->slots->has_all) /* the host has to see each layer's choice */
		return OK;
	if (key == 0 || h->no_graphs || h->on_launch)
		return OK;
	struct hip_graph_slot *s = slot_of(h, key);
	s->used = ++h->n_steps;
	if (s->exec) {
		*out_run = false;
		return replay(h, s);
	}
	if (!s->is_seen) {
		s->is_seen = true;
		return OK;
	}
	h->step_is_broken = false;
	enum status st = hip_check(h, h->api.hipStreamBeginCapture(
			h->stream, HIP_CAPTURE_THREAD_LOCAL), "recording a step");
	if (st == OK)
		h->step = s;
	return st;
}

/* End the capture, make s->exec of it, and launch it. */
static enum status keep(struct hip *h, struct hip_graph_slot *s)
{
	hip_graph g = NULL;
	int error = h->api.hipStreamEndCapture(h->stream, &g);
	bool is_broken = h->step_is_broken;
	if (error == HIP_SUCCESS && !is_broken)
		error = h->api.hipGraphInstantiate(&s->exec, g, NULL, NULL, 0);
	if (g)
		h->api.hipGraphDestroy(g);
	if (is_broken)
		return OK; /* the operation that broke the capture has returned an error */
	if (error != HIP_SUCCESS)
		return hip_check(h, error, "recording a step");
	s->n_launches = h->step_launches;
	metric_add(METRIC_GRAPH_CAPTURES, 1);
	h->base.n_captures++;
	log_debug("hip: a step of %d launches is recorded", s->n_launches);
	return replay(h, s);
}

enum status hip_step_end(struct backend *b)
{
	struct hip *h = hip_of(b);
	struct hip_graph_slot *s = h->step;
	h->step = NULL;
	if (s)
		return keep(h, s);
	if (h->step_launches)
		b->n_step_launches = h->step_launches;
	return OK;
}

bool hip_graph_is_open(struct hip *h, const char *what)
{
	if (!h->step)
		return false;
	h->step_is_broken = true;
	hip_refuse(h, "%s inside of a step that is recorded", what);
	return true;
}
