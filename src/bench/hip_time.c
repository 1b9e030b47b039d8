/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/hip_time.h"

#include "backend/hip/hip_launch.h"
#include "base/alloc.h"
#include "ctl/samples.h"

/* Fills *fail with the runtime's error, or the reason why an operation was refused. */
static enum status say(struct hip *h, enum status st, struct fail *fail)
{
	if (st == OK)
		return OK;
	return fail_set(fail, st, "%s: %s", h->base.device,
			h->has_failed ? h->failure : backend_why(&h->base, st));
}

struct events {
	hip_event begin, end;
};

static enum status events_create(struct hip *h, struct events *e)
{
	*e = (struct events){0};
	enum status st = hip_check(h, h->api.hipEventCreateWithFlags(&e->begin, 0), "event");
	return st == OK ? hip_check(h, h->api.hipEventCreateWithFlags(&e->end, 0), "event")
			: st;
}

static void events_destroy(struct hip *h, struct events *e)
{
	if (e->begin)
		h->api.hipEventDestroy(e->begin);
	if (e->end)
		h->api.hipEventDestroy(e->end);
}

/* Milliseconds between the events begin and end, which must have been recorded. */
static enum status events_wait(struct hip *h, struct events *e, double *out_ms)
{
	float ms = 0;
	enum status st = hip_check(h, h->api.hipEventSynchronize(e->end), "waiting");
	if (st == OK)
		st = hip_check(h, h->api.hipEventElapsedTime(&ms, e->begin, e->end), "time");
	*out_ms = ms;
	return st;
}

static enum status record(struct hip *h, hip_event e)
{
	return hip_check(h, h->api.hipEventRecord(e, h->stream), "event");
}

static enum status capture(struct hip *h, hip_time_queue queue, void *ctx, int n_runs,
			   hip_graph_exec *out)
{
	hip_graph graph = NULL;
	enum status st = hip_check(h, h->api.hipStreamBeginCapture(
			h->stream, HIP_CAPTURE_THREAD_LOCAL), "recording a graph");
	if (st != OK)
		return st;
	for (int i = 0; i < n_runs && st == OK; i++)
		st = queue(ctx, i);
	int error = h->api.hipStreamEndCapture(h->stream, &graph);
	if (st == OK)
		st = hip_check(h, error, "recording a graph");
	if (st == OK)
		st = hip_check(h, h->api.hipGraphInstantiate(out, graph, NULL, NULL, 0),
			       "a graph");
	if (graph)
		h->api.hipGraphDestroy(graph);
	return st;
}

/* Milliseconds of one run, which is not the first. */
static enum status time_run(struct hip *h, hip_time_queue queue, void *ctx, struct events *e,
			    double *out_ms)
{
	enum status st = record(h, e->begin);
	if (st == OK)
		st = queue(ctx, 0);
	if (st == OK)
		st = record(h, e->end);
	return st == OK ? events_wait(h, e, out_ms) : st;
}

/* Adds a sample for each launch of the graph. Those before number 0 do not count. */
static enum status time_launches(struct hip *h, hip_graph_exec graph, int from, int n_graphs,
				 struct events *e, struct samples *ms)
{
	enum status st = OK;
	for (int i = from; i < n_graphs && st == OK; i++) {
		double t;
		st = record(h, e->begin);
		if (st == OK)
			st = hip_check(h, h->api.hipGraphLaunch(graph, h->stream), "graph");
		if (st == OK)
			st = record(h, e->end);
		if (st == OK)
			st = events_wait(h, e, &t);
		if (st == OK && i >= 0)
			samples_add(ms, t);
	}
	return st;
}

enum status hip_time_graph(struct hip *h, hip_time_queue queue, void *ctx, int n_runs,
			   int n_graphs, double *out_us, struct fail *fail)
{
	/* What takes so long is timed as well by one run: gaps around it do not matter. */
	enum { LONG_MS = 10 };
	struct events e;
	struct samples ms = {0};
	hip_graph_exec graph = NULL;
	double run_ms = 0;
	bool is_long;
	enum status st = events_create(h, &e);
	/* Once outside of a graph: kernels are found and faults are seen. */
	if (st == OK)
		st = queue(ctx, 0);
	if (st == OK)
		st = hip_sync(&h->base, NULL);
	if (st == OK)
		st = time_run(h, queue, ctx, &e, &run_ms);
	is_long = run_ms > LONG_MS;
	if (is_long)
		n_runs = 1;
	if (st == OK)
		st = capture(h, queue, ctx, n_runs, &graph);
	if (st == OK)
		st = time_launches(h, graph, is_long ? 0 : -1, n_graphs, &e, &ms);
	if (st == OK)
		*out_us = samples_quantile(&ms, 0.5) * 1e3 / n_runs;
	if (graph)
		h->api.hipGraphExecDestroy(graph);
	events_destroy(h, &e);
	samples_deinit(&ms);
	return say(h, st, fail);
}

/* One sample. A step runs before the clock starts, so that the device is busy and waits for no
 * launch. */
static enum status time_step(struct hip *h, hip_graph_exec step, struct events *e,
			     int n_runs, double *out_ms)
{
	enum status st = OK;
	for (int i = -1; i < n_runs && st == OK; i++) {
		if (i == 0)
			st = record(h, e->begin);
		if (st == OK)
			st = hip_check(h, h->api.hipGraphLaunch(step, h->stream), "a step");
	}
	if (st == OK)
		st = record(h, e->end);
	return st == OK ? events_wait(h, e, out_ms) : st;
}

enum status hip_time_step(struct hip *h, int n_runs, int n_samples, double *out_us,
			  struct fail *fail)
{
	struct events e;
	struct samples ms = {0};
	if (!h->replayed)
		return fail_set(fail, E_MISSING, "%s: no step has been replayed",
				h->base.device);
	enum status st = events_create(h, &e);
	for (int i = 0; i < n_samples && st == OK; i++) {
		double t;
		st = time_step(h, h->replayed->exec, &e, n_runs, &t);
		if (st == OK)
			samples_add(&ms, t);
	}
	if (st == OK)
		*out_us = samples_quantile(&ms, 0.5) * 1e3 / n_runs;
	events_destroy(h, &e);
	samples_deinit(&ms);
	return say(h, st, fail);
}

/* --- memory -------------------------------------------------------------------- */

enum { READ_THREADS = 256, READ_GROUPS = 16 /* per compute unit */, READ_RUNS = 4 };

struct timed_stream {
	struct hip *h;
	char *from, *to; /* device memory */
	size_t n_bytes, n_parts; /* reading: run i reads part i, of n_bytes */
	int n_samples;
	bool copies;
};

static enum status queue_read(void *ctx, int i)
{
	struct timed_stream *s = ctx;
	int32_t n_groups = s->h->device.n_cu * READ_GROUPS;
	const void *p = s->from + (size_t)i % s->n_parts * s->n_bytes;
	size_t n = s->n_bytes / 16;
	uint32_t width = (uint32_t)n_groups * READ_THREADS;
	uint32_t *out = s->h->counters;
	return LAUNCH(s->h, PLAIN("bandwidth_read_kernel"),
		      ((struct hip_grid){n_groups, 1, READ_THREADS, 0}), ARG(p), ARG(n),
		      ARG(width), ARG(out));
}

static enum status queue_copy(void *ctx, int i)
{
	struct timed_stream *s = ctx;
	(void)i;
	return hip_check(s->h, s->h->api.hipMemcpyAsync(s->to, s->from, s->n_bytes,
							HIP_DEVICE_TO_DEVICE,
							s->h->stream), "copying");
}

/* Microseconds to read a part, or to copy. */
static enum status time_stream(struct timed_stream *s, double *out_us, struct fail *fail)
{
	struct hip *h = s->h;
	size_t n = s->n_bytes * s->n_parts;
	enum status st = hip_alloc(&h->base, n, (void **)&s->from);
	if (st == OK && s->copies)
		st = hip_alloc(&h->base, s->n_bytes, (void **)&s->to);
	/* Not zeros: zeros are said to move faster. */
	if (st == OK)
		st = hip_check(h, h->api.hipMemsetAsync(s->from, 0xA5, n, h->stream),
			       "clearing");
	if (st == OK)
		st = hip_time_graph(h, s->copies ? queue_copy : queue_read, s,
				    MAX((int)s->n_parts, READ_RUNS), s->n_samples, out_us,
				    fail);
	hip_free(&h->base, s->from);
	hip_free(&h->base, s->to);
	return say(h, st, fail);
}

static enum status time_rate(struct timed_stream *s, double *out_gbs, struct fail *fail)
{
	double us;
	enum status st = time_stream(s, &us, fail);
	if (st == OK)
		*out_gbs = (double)s->n_bytes * (s->copies ? 2 : 1) / us * 1e-3;
	return st;
}

enum status hip_time_read(struct hip *h, size_t n_bytes, int n_samples, double *out_gbs,
			  struct fail *fail)
{
	struct timed_stream s = {
		.h = h, .n_bytes = n_bytes, .n_parts = 1, .n_samples = n_samples};
	return time_rate(&s, out_gbs, fail);
}

enum status hip_time_copy(struct hip *h, size_t n_bytes, int n_samples, double *out_gbs,
			  struct fail *fail)
{
	struct timed_stream s = {.h = h, .n_bytes = n_bytes, .n_parts = 1,
				 .n_samples = n_samples, .copies = true};
	return time_rate(&s, out_gbs, fail);
}

enum status hip_time_part(struct hip *h, size_t n_bytes, size_t cold_bytes, int n_samples,
			  double *out_us, struct fail *fail)
{
	enum { MOST = 256 };
	n_bytes = MAX(n_bytes / 16 * 16, 16);
	struct timed_stream s = {.h = h, .n_bytes = n_bytes, .n_samples = n_samples,
				 .n_parts = MAX(MIN(cold_bytes / n_bytes, MOST), 1)};
	return time_stream(&s, out_us, fail);
}
