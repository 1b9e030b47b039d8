/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured values and their statistics. Thread: one at a time.
 */
#pragma once
#include "base/buf.h"

struct samples {
	double *p;
	size_t n, cap;
};
void samples_add(struct samples *s, double v);
void samples_deinit(struct samples *s);
double samples_mean(const struct samples *s);
/* The value that share q (0..1) of the values does not exceed, interpolated between neighbours;
 * 0.5 gives the median. NAN if there are no values. Sorts them. */
double samples_quantile(struct samples *s, double q);
/* Append "mean_<name>":…,"median_<name>":…,"p90_<name>":…,"p99_<name>":… */
void samples_add_json(struct samples *s, const char *name, struct buf *out);
