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

/*   LOADING ──► READY ──► LEAVING ──► DRAINING
 *      └──────────┴──────────┴───────────┴──► FAILED
 * LEAVING: SIGTERM came, and drain_delay runs: load balancers are told to send requests
 * elsewhere, and requests that still come are served. FAILED: the engine gave up; the process
 * will exit. */
enum health_state {
	HEALTH_LOADING, HEALTH_READY, HEALTH_LEAVING, HEALTH_DRAINING, HEALTH_FAILED
};

/* The stages of loading. Files are mapped or read. Weights are packed (CPU) or uploaded (GPU).
 * LOAD_CHECKING computes the self-check on halo-tiny before the model loads, and one token of
 * the model after it. */
enum health_load {
	LOAD_MAPPING, LOAD_READING, LOAD_PACKING, LOAD_UPLOADING, LOAD_CHECKING, LOAD_DONE
};

/* Result of the self-check at the start. PENDING: not finished yet; OFF: not asked for;
 * SKIPPED: could not be made. */
enum health_check { CHECK_PENDING, CHECK_OFF, CHECK_SKIPPED, CHECK_PASSED, CHECK_FAILED };

struct health {
	_Atomic int state;            /* enum health_state */
	/* engine thread's last sign of life (clock_monotonic); 0: no model is in memory */
	_Atomic int64_t heartbeat_us;
	_Atomic int load_permille;    /* of the whole load, while LOADING */
	_Atomic int load_stage;       /* enum health_load */
	_Atomic int64_t load_done, load_total; /* bytes of this stage: done, and in all */
	_Atomic int self_check;       /* enum health_check */
	/* Of the self-check: mean and largest difference of log-probabilities (1e9: not a
	 * number), and the seconds it took. */
	_Atomic double check_mean, check_max, check_s;
	_Atomic bool is_device_lost;  /* FAILED because the GPU was lost: a restart may help */
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
const char *health_check_name(enum health_check c); /* as in "passed" */
const char *health_load_name(enum health_load l);   /* as in "packing" */
/* True if the engine thread gave no sign of life for more than stall_us. Always false
 * while LOADING, which reports its own progress, and while no engine is there. */
bool health_is_stalled(const struct health *h, int64_t now_us, int64_t stall_us);
