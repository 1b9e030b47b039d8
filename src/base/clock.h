/* SPDX-License-Identifier: Apache-2.0
 *
 * A clock that callers pass in, so that the scheduler's tests can set the time by hand.
 * Thread: any.
 */
#pragma once
#include <stdint.h>

struct clock {
	int64_t (*now_us)(void *ctx); /* returns microseconds of a monotonic clock */
	void *ctx;
};

extern const struct clock clock_monotonic; /* reads CLOCK_MONOTONIC */

static inline int64_t clock_now_us(const struct clock *c)
{
	return c->now_us(c->ctx);
}

int64_t clock_monotonic_ns(void); /* for what takes less than a microsecond */
int64_t clock_wall_s(void); /* seconds since 1970, for `created` and logs */
