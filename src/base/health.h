/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of this process as /health, the watchdog and the metrics report it. All
 * fields are atomics, so that no reader has to ask a thread that may be stuck. Thread:
 * any.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*   LOADING ──► READY ──► DRAINING
 *      └──────────┴──────────┴──► FAILED  (engine gave up; the process will exit) */
enum health_state { HEALTH_LOADING, HEALTH_READY, HEALTH_DRAINING, HEALTH_FAILED };

struct health {
	_Atomic int state;            /* enum health_state */
	_Atomic int64_t heartbeat_us; /* engine thread's last sign of life (clock_monotonic) */
	_Atomic int load_permille;    /* share of the weights loaded so far, while LOADING */
	_Atomic bool is_device_lost;  /* FAILED since the GPU was lost: restart may help */
};

static inline void health_beat(struct health *h, int64_t now_us)
{
	atomic_store_explicit(&h->heartbeat_us, now_us, memory_order_relaxed);
}
/* True if heartbeat_us changed since the last call. *seen_us belongs to this function;
 * the caller sets it to 0 at first. */
static inline bool health_has_beaten(const struct health *h, int64_t *seen_us)
{
	int64_t beat = atomic_load_explicit(&h->heartbeat_us, memory_order_relaxed);
	bool is_new = beat != *seen_us;
	*seen_us = beat;
	return is_new;
}
const char *health_state_name(enum health_state s); /* as in "ready" */
/* True if the engine thread gave no sign of life for more than stall_us. Always false
 * while LOADING, which reports its own progress. */
bool health_is_stalled(const struct health *h, int64_t now_us, int64_t stall_us);
