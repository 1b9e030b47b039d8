/* SPDX-License-Identifier: Apache-2.0 */
#include "base/health.h"

const char *health_state_name(enum health_state s)
{
	switch (s) {
	case HEALTH_LOADING: return "loading";
	case HEALTH_READY: return "ready";
	case HEALTH_LEAVING: return "leaving";
	case HEALTH_DRAINING: return "draining";
	case HEALTH_FAILED: return "failed";
	}
	return "unknown";
}

const char *health_check_name(enum health_check c)
{
	switch (c) {
	case CHECK_PENDING: return "pending";
	case CHECK_OFF: return "off";
	case CHECK_SKIPPED: return "skipped";
	case CHECK_PASSED: return "passed";
	case CHECK_FAILED: return "failed";
	}
	return "unknown";
}

const char *health_load_name(enum health_load l)
{
	switch (l) {
	case LOAD_MAPPING: return "mapping";
	case LOAD_READING: return "reading";
	case LOAD_PACKING: return "packing";
	case LOAD_UPLOADING: return "uploading";
	case LOAD_CHECKING: return "checking";
	case LOAD_DONE: return "done";
	}
	return "unknown";
}

bool health_is_stalled(const struct health *h, int64_t now_us, int64_t stall_us)
{
	if (atomic_load_explicit(&h->state, memory_order_relaxed) == HEALTH_LOADING)
		return false;
	int64_t beat =
		atomic_load_explicit(&h->heartbeat_us, memory_order_relaxed);
	return beat && now_us - beat > stall_us;
}
