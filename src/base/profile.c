/* SPDX-License-Identifier: Apache-2.0 */
#include "base/profile.h"

#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "base/alloc.h"
#include "base/clock.h"
#include "base/metrics.h"

static const char *const names[] = {
#define X(ident, name) [PROFILE_##ident] = name,
	PROFILE_STAGES(X)
#undef X
};

/* True if the processor's counter runs at a constant rate, whatever the clock frequency. */
static bool has_counter(void)
{
#ifdef __x86_64__
	unsigned a, b, c, d;
	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#else
	return false;
#endif
}

/* Reads the processor's counter, or nanoseconds without one. take_over finds the counter's rate
 * from the clock at the step's begin and end. */
static inline uint64_t counter(const struct profile *p)
{
#ifdef __x86_64__
	if (p->has_counter)
		return __rdtsc();
#endif
	(void)p;
	return (uint64_t)clock_monotonic_ns();
}

const char *profile_name(enum profile_stage s)
{
	return names[s];
}

static size_t n_cells(const struct profile *p)
{
	return ((size_t)p->n_layers + 1) * PROFILE_COUNT;
}

struct profile *profile_create(int n_layers, int every)
{
	struct profile *p = xcalloc(1, sizeof *p);
	p->n_layers = n_layers;
	p->every = MAX(every, 1);
	p->i_layer = -1;
	p->cells = xcalloc(n_cells(p), sizeof *p->cells);
	p->cap_marks = p->cap_reads = 16 * (n_layers + 2);
	p->marks = xcalloc((size_t)p->cap_marks, sizeof *p->marks);
	p->reads = xcalloc((size_t)p->cap_reads, sizeof *p->reads);
	p->has_counter = has_counter();
	return p;
}

void profile_destroy(struct profile *p)
{
	if (!p)
		return;
	free(p->cells);
	free(p->marks);
	free(p->reads);
	free(p);
}

void profile_reset(struct profile *p)
{
	memset(p->cells, 0, n_cells(p) * sizeof *p->cells);
	p->n_steps = p->n_tok = p->n_begun = 0;
}

/* Where layer i_layer (-1: none) and stage s stand in cells. */
static size_t profile_place(const struct profile *p, int i_layer, enum profile_stage s)
{
	int row = i_layer < 0 ? p->n_layers : i_layer;
	return (size_t)row * PROFILE_COUNT + s;
}

/* --- a step ------------------------------------------------------------------------ */

void profile_mark(struct profile *p, enum profile_stage s)
{
	if (p->n_marks == p->cap_marks) {
		p->cap_marks *= 2;
		p->marks = xrealloc(p->marks, (size_t)p->cap_marks * sizeof *p->marks);
	}
	struct profile_mark *m = &p->marks[p->n_marks++];
	*m = (struct profile_mark){s, p->i_layer, 0};
	if (!p->device)
		m->at = counter(p);
	else if (!p->device->mark(p->device->ctx, p->n_marks - 1))
		p->is_on = false;
}

bool profile_begin(struct profile *p)
{
	if (!p)
		return false;
	p->n_marks = p->n_reads = 0;
	p->i_layer = -1;
	p->is_on = p->n_begun++ % p->every == 0;
	if (!p->is_on)
		return false;
	p->begin_ns = clock_monotonic_ns();
	p->begin_at = counter(p);
	profile_mark(p, PROFILE_EMBED);
	return p->is_on;
}

static void add_cell(struct profile *p, struct profile_cell *sums, enum profile_stage stage,
		     int i_layer, double s, double bytes)
{
	struct profile_cell *c = &p->cells[profile_place(p, i_layer, stage)];
	c->s += s;
	c->bytes += bytes;
	sums[stage].s += s;
	sums[stage].bytes += bytes;
}

/* Seconds of the device's clock from mark 0 to each mark, malloc'ed; NULL: the device has no
 * times. */
static double *device_times(const struct profile *p)
{
	double *s = xmalloc((size_t)p->n_marks * sizeof *s);
	if (p->device->times(p->device->ctx, p->n_marks, s))
		return s;
	free(s);
	return NULL;
}

/* Add the step's times and bytes to the cells, and a sum for each stage to the metrics. device:
 * its times of the marks, or NULL. The time of the step that no mark covers is the host's. */
static void take_over(struct profile *p, const double *device)
{
	struct profile_cell sums[PROFILE_COUNT] = {{0, 0}};
	const struct profile_mark *m = p->marks;
	int n = p->n_marks;
	double all = (double)(clock_monotonic_ns() - p->begin_ns) * 1e-9;
	double unit = all / (double)MAX(counter(p) - p->begin_at, UINT64_C(1));
	for (int i = 0; i + 1 < n; i++) {
		double s = device ? device[i + 1] - device[i]
				  : (double)(int64_t)(m[i + 1].at - m[i].at) * unit;
		add_cell(p, sums, m[i].stage, m[i].i_layer, MAX(s, 0), 0);
	}
	double last = device ? device[n - 1] : (double)(m[n - 1].at - p->begin_at) * unit;
	add_cell(p, sums, PROFILE_HOST, -1, MAX(all - last, 0), 0);
	for (int i = 0; i < p->n_reads; i++)
		add_cell(p, sums, p->reads[i].stage, p->reads[i].i_layer, 0, p->reads[i].bytes);
	for (int s = 0; s < PROFILE_COUNT; s++) {
		if (sums[s].s > 0)
			metric_add_nth(METRIC_STAGE_SECONDS, s, sums[s].s);
		if (sums[s].bytes > 0)
			metric_add_nth(METRIC_STAGE_BYTES, s, sums[s].bytes);
	}
}

void profile_end(struct profile *p, int n_tok, bool is_good)
{
	if (!p || !p->is_on)
		return;
	profile_mark(p, PROFILE_HOST);
	bool counts = p->is_on && is_good;
	double *device = counts && p->device ? device_times(p) : NULL;
	p->is_on = false;
	if (!counts || (p->device && !device))
		return;
	take_over(p, device);
	free(device);
	p->n_steps++;
	p->n_tok += n_tok;
	metric_add(METRIC_PROFILED_STEPS, 1);
	metric_add(METRIC_PROFILED_TOKENS, n_tok);
}

void profile_bytes(struct profile *p, enum profile_stage s, double n)
{
	if (!p || !p->is_on)
		return;
	if (p->n_reads == p->cap_reads) {
		p->cap_reads *= 2;
		p->reads = xrealloc(p->reads, (size_t)p->cap_reads * sizeof *p->reads);
	}
	p->reads[p->n_reads++] = (struct profile_read){s, p->i_layer, n};
}

void profile_add(struct profile *p, enum profile_stage s, double seconds)
{
	if (!p || p->n_begun == 0 || (p->n_begun - 1) % p->every != 0)
		return;
	p->cells[profile_place(p, -1, s)].s += seconds;
	metric_add_nth(METRIC_STAGE_SECONDS, s, seconds);
}

struct profile_cell profile_sum(const struct profile *p, int i_layer, enum profile_stage s)
{
	if (i_layer >= 0)
		return p->cells[profile_place(p, i_layer, s)];
	struct profile_cell sum = {0, 0};
	for (int i = 0; i <= p->n_layers; i++) {
		const struct profile_cell *c = &p->cells[(size_t)i * PROFILE_COUNT + s];
		sum.s += c->s;
		sum.bytes += c->bytes;
	}
	return sum;
}
