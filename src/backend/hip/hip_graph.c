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
 *
 * A copy to the device, of a state from disk or of an expert, may leave old bytes in the chip's
 * caches. A kernel that is launched by itself begins by invalidating these. Whether a graph's
 * first kernel does is up to the runtime, so a small kernel is launched between.
 *
 * A graph is a convenience. Where a step cannot be recorded, nothing has run, and it is launched
 * kernel by kernel, as all later ones. What may have run in part, a launch of a graph that fails,
 * ends the process like any fault of the device. If it ends so twice at the same place, it
 * starts without graphs.
 */
#include "backend/hip/hip_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/hip/hip_slots.h"
#include "base/alloc.h"
#include "base/file.h"
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

/* --- notes of ends ------------------------------------------------------------------ */

/* A line of the file is the runtime's version and where the process ended. While the first step
 * is recorded and replayed, the last line says so: a runtime may end the process there. */
#define TRIAL "the first step as a graph"

static void note_line(const struct hip *h, const char *where, char *out, size_t size)
{
	int version = 0;
	h->api.hipRuntimeGetVersion(&version);
	snprintf(out, size, "%d %s\n", version, where);
}

static void note(struct hip *h, const char *where)
{
	char line[300];
	if (!h->graph_notes)
		return;
	note_line(h, where, line, sizeof line);
	FILE *f = fopen(h->graph_notes, "ae");
	bool is_good = f && fputs(line, f) >= 0 && fflush(f) == 0 && fdatasync(fileno(f)) == 0;
	if (f)
		fclose(f);
	if (!is_good)
		log_debug("hip: %s cannot be written", h->graph_notes);
}

/* Takes the last line back, which note has written. */
static void forget_note(struct hip *h, const char *where)
{
	char line[300];
	struct stat at;
	note_line(h, where, line, sizeof line);
	if (stat(h->graph_notes, &at) == 0 && at.st_size >= (off_t)strlen(line) &&
	    truncate(h->graph_notes, at.st_size - (off_t)strlen(line)) != 0)
		log_debug("hip: %s cannot be written", h->graph_notes);
}

void hip_graph_notes_open(struct hip *h, const char *path)
{
	struct buf text = {0};
	static bool is_told; /* a process may have several backends */
	const char *last = NULL, *before = NULL;
	char line[300];
	metric_set(METRIC_GRAPHS_OFF, h->no_graphs);
	if (!path || !*path || h->no_graphs)
		return;
	h->graph_notes = xstrdup(path);
	if (file_read(path, 1 << 20, &text, NULL) == OK)
		buf_add_z(&text, "");
	for (char *rest = text.p, *at; rest && (at = strsep(&rest, "\n"));)
		if (*at) {
			before = last;
			last = at;
		}
	note_line(h, "", line, sizeof line);
	h->no_graphs = before && strcmp(last, before) == 0 &&
		       strncmp(last, line, strlen(line) - 1) == 0;
	metric_set(METRIC_GRAPHS_OFF, h->no_graphs);
	if (h->no_graphs && !is_told)
		log_warn("hip: the process ended twice at the same place (%s), so each kernel is "
			 "launched by itself; remove %s to try graphs again",
			 strchr(last, ' ') + 1, path);
	is_told |= h->no_graphs;
	buf_deinit(&text);
}

static void trial_begins(struct hip *h)
{
	if (h->is_graph_tried || h->base.n_replays)
		return;
	note(h, TRIAL);
	h->is_graph_tried = h->graph_notes != NULL;
}

void hip_graph_ran(struct hip *h)
{
	if (!h->is_graph_tried)
		return;
	forget_note(h, TRIAL);
	h->is_graph_tried = false;
}

/* --- steps ----------------------------------------------------------------------------- */

/* Behind this, kernels see what was copied to the device. */
static enum status settle_copies(struct hip *h)
{
	const struct copy_words_args one = {1, h->one_each, h->one_each};
	return h->has_copied ? hip_copy_words(&h->base, &one) : OK;
}

static enum status hip_graph_replay(struct hip *h, struct hip_graph_slot *s)
{
	enum status st = settle_copies(h);
	if (st != OK)
		return st;
	h->step_launches = 0;
	metric_add(METRIC_GRAPH_REPLAYS, 1);
	h->base.n_replays++;
	h->replayed = s;
	h->base.n_step_launches = s->n_launches;
	int error = h->api.hipGraphLaunch(s->exec, h->stream);
	if (error == HIP_SUCCESS)
		return OK;
	/* A device that is well has no part in it. Some kernels may have run, so the step
	 * cannot be repeated. */
	hip_graph_ran(h);
	if (h->api.hipStreamSynchronize(h->stream) == HIP_SUCCESS)
		note(h, "a launch of a graph");
	return hip_check(h, error, "a step's graph");
}

/* Graphs only save time. Where the runtime cannot record a step, kernels are launched one by one
 * from now on. */
static void give_up(struct hip *h, int error)
{
	log_warn("hip: recording a step: %s; from now on each kernel is launched by itself",
		 h->api.hipGetErrorName(error));
	metric_add(METRIC_GRAPH_FAILURES, 1);
	metric_set(METRIC_GRAPHS_OFF, 1);
	h->no_graphs = true;
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
		return hip_graph_replay(h, s);
	}
	if (!s->is_seen) {
		s->is_seen = true;
		return OK;
	}
	h->step_is_broken = false;
	h->step_error = HIP_SUCCESS;
	trial_begins(h);
	/* What was queued before has to be over if renew_stream takes another stream. */
	enum status st = hip_check(h, h->api.hipStreamSynchronize(h->stream),
				   "waiting for the device");
	if (st != OK)
		return st;
	int error = h->api.hipStreamBeginCapture(h->stream, HIP_CAPTURE_THREAD_LOCAL);
	if (error == HIP_SUCCESS)
		h->step = s;
	else
		give_up(h, error);
	return OK;
}

/* A stream whose capture did not end well may go on to record. Nothing is queued on it. */
static enum status renew_stream(struct hip *h)
{
	h->api.hipStreamDestroy(h->stream);
	h->stream = NULL;
	return hip_check(h, h->api.hipStreamCreateWithFlags(&h->stream, HIP_STREAM_NON_BLOCKING),
			 "a stream");
}

/* End the capture, make s->exec of it, and launch it. */
static enum status keep_graph(struct hip *h, struct hip_graph_slot *s, bool *out_again)
{
	hip_graph g = NULL;
	int error = h->api.hipStreamEndCapture(h->stream, &g);
	if (error != HIP_SUCCESS && renew_stream(h) != OK)
		return E_DEVICE;
	if (h->step_error != HIP_SUCCESS)
		error = h->step_error;
	bool is_broken = h->step_is_broken;
	if (error == HIP_SUCCESS && !is_broken)
		error = h->api.hipGraphInstantiate(&s->exec, g, NULL, NULL, 0);
	if (g)
		h->api.hipGraphDestroy(g);
	if (is_broken)
		return OK; /* the operation that broke the capture has returned an error */
	if (error != HIP_SUCCESS) {
		s->exec = NULL;
		h->step_launches = 0;
		*out_again = true;
		give_up(h, error);
		return OK;
	}
	s->n_launches = h->step_launches;
	metric_add(METRIC_GRAPH_CAPTURES, 1);
	h->base.n_captures++;
	log_debug("hip: a step of %d launches is recorded", s->n_launches);
	return hip_graph_replay(h, s);
}

enum status hip_step_end(struct backend *b, bool *out_again)
{
	struct hip *h = hip_of(b);
	struct hip_graph_slot *s = h->step;
	*out_again = false;
	h->step = NULL;
	if (s)
		return keep_graph(h, s, out_again);
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
