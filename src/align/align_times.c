/* SPDX-License-Identifier: Apache-2.0 */
#include "align/align_times.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { FEW = 2 }; /* so many become a neighbour */

/* Sets stays[i] for the times of the first longest row. */
static void find_row(const double *t, size_t n, bool *stays)
{
	int32_t *length = xcalloc(n, sizeof *length), *before = xcalloc(n, sizeof *before);
	size_t last = 0;
	for (size_t i = 0; i < n; i++) {
		length[i] = 1;
		before[i] = -1;
		for (size_t k = 0; k < i; k++) {
			if (t[k] > t[i] || length[k] < length[i])
				continue;
			length[i] = length[k] + 1;
			before[i] = (int32_t)k;
		}
		last = length[i] > length[last] ? i : last;
	}
	for (int32_t i = (int32_t)last; i >= 0; i = before[i])
		stays[i] = true;
	free(length);
	free(before);
}

/* Mends t[from] to t[to - 1], which do not stay; what is around them does, where it is there. */
static void mend(double *t, size_t from, size_t to, size_t n)
{
	size_t count = to - from;
	double left = from > 0 ? t[from - 1] : t[to];
	double right = to < n ? t[to] : left;
	double step = (right - left) / (double)(count + 1);
	for (size_t i = from; i < to; i++) {
		size_t behind = i + 1 - from; /* steps from what is before */
		if (count <= FEW)
			t[i] = behind <= to - i ? left : right;
		else
			t[i] = left + step * (double)behind;
	}
}

void align_times_mend(double *io, size_t n)
{
	if (n == 0)
		return;
	bool *stays = xcalloc(n, sizeof *stays);
	find_row(io, n, stays);
	for (size_t i = 0, to; i < n; i = to + 1) {
		for (to = i; to < n && !stays[to];)
			to++;
		if (to > i)
			mend(io, i, to, n);
	}
	for (size_t i = 0; i < n; i++)
		io[i] = trunc(io[i]);
	free(stays);
}
