/* SPDX-License-Identifier: Apache-2.0 */
#include "base/profile.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/metrics.h"

static const char *const names[] = {
#define X(ident, name) [PROFILE_##ident] = name,
	PROFILE_STAGES(X)
#undef X
};

/* Microseconds are too coarse: a norm of one token takes less. */
static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
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
	p->fresh = xcalloc(n_cells(p), sizeof *p->fresh);
	p->cap_marks = 16 * (n_layers + 2);
	p->marks = xcalloc((size_t)p->cap_marks, sizeof *p->marks);
	return p;
}

void profile_destroy(struct profile *p)
{
	if (!p)
		return;
	free(p->cells);
	free(p->fresh);
	free(p->marks);
	free(p);
}

void profile_reset(struct profile *p)
{
	memset(p->cells, 0, n_cells(p) * sizeof *p->cells);
	p->n_steps = p->n_tok = p->n_begun = 0;
}

/* Where layer i_layer (-1: none) and stage s stand in cells and fresh. */
static size_t place(const struct profile *p, int i_layer, enum profile_stage s)
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
		m->s = (double)(now_ns() - p->begin_ns) * 1e-9;
	else if (!p->device->mark(p->device->ctx, p->n_marks - 1))
		p->is_on = false;
}

bool profile_begin(struct profile *p)
{
	if (!p)
		return false;
	p->n_marks = 0;
	p->i_layer = -1;
	p->is_on = p->n_begun++ % p->every == 0;
	p->begin_ns = now_ns();
	if (p->is_on) {
		memset(p->fresh, 0, n_cells(p) * sizeof *p->fresh);
		profile_mark(p, PROFILE_EMBED);
	}
	return p->is_on;
}

/* The metrics get a sum a stage: to look a label up costs more than to add. */
static void take_over(struct profile *p)
{
	struct profile_cell sums[PROFILE_COUNT] = {{0, 0}};
	for (size_t i = 0; i < n_cells(p); i++) {
		const struct profile_cell *f = &p->fresh[i];
		struct profile_cell *sum = &sums[i % PROFILE_COUNT];
		p->cells[i].s += f->s;
		p->cells[i].bytes += f->bytes;
		sum->s += f->s;
		sum->bytes += f->bytes;
	}
	for (int s = 0; s < PROFILE_COUNT; s++) {
		metric_add_by(METRIC_STAGE_SECONDS, names[s], sums[s].s);
		metric_add_by(METRIC_STAGE_BYTES, names[s], sums[s].bytes);
	}
}

void profile_end(struct profile *p, int n_tok, bool is_good)
{
	if (!p || !p->is_on)
		return;
	profile_mark(p, PROFILE_HOST);
	int n = p->n_marks;
	if (p->is_on && is_good && p->device) {
		double *s = xmalloc((size_t)n * sizeof *s);
		is_good = p->device->times(p->device->ctx, n, s);
		for (int i = 0; i < n && is_good; i++)
			p->marks[i].s = s[i];
		free(s);
	}
	bool counts = p->is_on && is_good;
	p->is_on = false;
	if (!counts)
		return;
	for (int i = 0; i + 1 < n; i++) {
		const struct profile_mark *m = &p->marks[i];
		p->fresh[place(p, m->i_layer, m->stage)].s += MAX(m[1].s - m->s, 0);
	}
	/* What the device took is not the host's; the rest of the step is. */
	double rest = (double)(now_ns() - p->begin_ns) * 1e-9 - p->marks[n - 1].s;
	p->fresh[place(p, -1, PROFILE_HOST)].s += MAX(rest, 0);
	take_over(p);
	p->n_steps++;
	p->n_tok += n_tok;
	metric_add(METRIC_PROFILED_STEPS, 1);
	metric_add(METRIC_PROFILED_TOKENS, n_tok);
}

void profile_bytes(struct profile *p, enum profile_stage s, double n)
{
	if (p && p->is_on)
		p->fresh[place(p, p->i_layer, s)].bytes += n;
}

void profile_add(struct profile *p, enum profile_stage s, double seconds)
{
	if (!p || p->n_begun == 0 || (p->n_begun - 1) % p->every != 0)
		return;
	p->cells[place(p, -1, s)].s += seconds;
	metric_add_by(METRIC_STAGE_SECONDS, names[s], seconds);
}

struct profile_cell profile_sum(const struct profile *p, int i_layer, enum profile_stage s)
{
	if (i_layer >= 0)
		return p->cells[place(p, i_layer, s)];
	struct profile_cell sum = {0, 0};
	for (int i = 0; i <= p->n_layers; i++) {
		const struct profile_cell *c = &p->cells[(size_t)i * PROFILE_COUNT + s];
		sum.s += c->s;
		sum.bytes += c->bytes;
	}
	return sum;
}
