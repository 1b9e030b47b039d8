/* SPDX-License-Identifier: Apache-2.0
 *
 * What /health, the watchdog and the metrics say of this process, in atomics, so
 * that nobody has to ask a thread that may be stuck. Thread: any.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* LOADING ──► READY ──► DRAINING
 *    └──────────┴──────────┴──► FAILED  (engine gave up; the process will exit) */
enum health_state { HEALTH_LOADING, HEALTH_READY, HEALTH_DRAINING, HEALTH_FAILED };

struct health {
	_Atomic int state;            /* enum health_state */
	_Atomic int64_t heartbeat_us; /* clock_monotonic, by the engine thread */
	_Atomic int load_permille;    /* of the weights, while LOADING */
	_Atomic bool is_device_lost;  /* why FAILED: a restart may find it again */
};

static inline void health_beat(struct health *h, int64_t now_us)
{
	atomic_store_explicit(&h->heartbeat_us, now_us, memory_order_relaxed);
}
/* Whether it has beaten since the last call; *seen_us is this function's, 0 at first. */
static inline bool health_has_beaten(const struct health *h, int64_t *seen_us)
{
	int64_t beat = atomic_load_explicit(&h->heartbeat_us, memory_order_relaxed);
	bool is_new = beat != *seen_us;
	*seen_us = beat;
	return is_new;
}
const char *health_state_name(enum health_state s); /* "ready" */
/* The engine thread has shown no sign of life for longer than stall_us. Always
 * false while LOADING (loading has its own progress). */
bool health_is_stalled(const struct health *h, int64_t now_us, int64_t stall_us);
