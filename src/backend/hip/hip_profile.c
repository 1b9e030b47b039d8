/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's clock for a profile: an event where a stage begins. A measured step is launched
 * kernel by kernel and not as a graph, because only single launches note their stages.
 */
#include "backend/hip/hip_profile.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Event i, created when it is first needed and kept for later steps. */
static bool event_of(struct hip *h, int i)
{
	for (; h->n_events <= i; h->n_events++) {
		h->events = xrealloc(h->events, ((size_t)h->n_events + 1) * sizeof(hip_event));
		if (h->api.hipEventCreateWithFlags(&h->events[h->n_events], 0) != HIP_SUCCESS)
			return false;
	}
	return true;
}

static bool mark(void *ctx, int i)
{
	struct hip *h = ctx;
	return event_of(h, i) &&
	       h->api.hipEventRecord(h->events[i], h->stream) == HIP_SUCCESS;
}

static bool times(void *ctx, int n, double *out_s)
{
	struct hip *h = ctx;
	bool good = h->api.hipEventSynchronize(h->events[n - 1]) == HIP_SUCCESS;
	double sum = 0;
	out_s[0] = 0;
	/* Each time is counted from the event before: a float from the first event would
	 * lose digits. */
	for (int i = 1; i < n && good; i++) {
		float ms = 0;
		good = h->api.hipEventElapsedTime(&ms, h->events[i - 1], h->events[i]) ==
		       HIP_SUCCESS;
		out_s[i] = sum += (double)ms * 1e-3;
	}
	return good;
}

const struct profile_device *hip_profile_device(struct backend *b)
{
	struct hip *h = hip_of(b);
	h->clock = (struct profile_device){mark, times, h};
	return &h->clock;
}

enum profile_stage hip_profile_stage(struct hip *h, enum profile_stage of_kernel)
{
	enum profile_stage now = profile_now(h->base.profile);
	return now == PROFILE_SHARED || of_kernel == PROFILE_COUNT ? now : of_kernel;
}

void hip_profile_free(struct hip *h)
{
	for (int i = 0; i < h->n_events; i++)
		h->api.hipEventDestroy(h->events[i]);
	free(h->events);
}
