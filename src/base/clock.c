/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

int64_t clock_monotonic_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t monotonic_now_us(void *ctx)
{
	(void)ctx;
	return clock_monotonic_ns() / 1000;
}

const struct clock clock_monotonic = {monotonic_now_us, 0};

int64_t clock_wall_s(void) { return (int64_t)time(0); }
