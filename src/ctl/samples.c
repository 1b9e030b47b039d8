/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/samples.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

void samples_add(struct samples *s, double v)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->p = xrealloc(s->p, s->cap * sizeof *s->p);
	}
	s->p[s->n++] = v;
}

void samples_deinit(struct samples *s)
{
	free(s->p);
	*s = (struct samples){0};
}

double samples_mean(const struct samples *s)
{
	double sum = 0;
	for (size_t i = 0; i < s->n; i++)
		sum += s->p[i];
	return s->n ? sum / (double)s->n : NAN;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

double samples_quantile(struct samples *s, double q)
{
	if (!s->n)
		return NAN;
	qsort(s->p, s->n, sizeof *s->p, by_value);
	double at = q * (double)(s->n - 1);
	size_t below = (size_t)at, above = MIN(below + 1, s->n - 1);
	return s->p[below] + (at - (double)below) * (s->p[above] - s->p[below]);
}

void samples_add_json(struct samples *s, const char *name, struct buf *out)
{
	static const struct {
		const char *name;
		double q;
	} quantiles[] = {{"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
	buf_addf(out, "\"mean_%s\":", name);
	buf_add_json_num(out, samples_mean(s));
	for (size_t i = 0; i < ARRAY_LEN(quantiles); i++) {
		buf_addf(out, ",\"%s_%s\":", quantiles[i].name, name);
		buf_add_json_num(out, samples_quantile(s, quantiles[i].q));
	}
}
