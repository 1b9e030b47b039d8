/* SPDX-License-Identifier: Apache-2.0 */
#include "audio/audio_cut.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

enum {
	AROUND = 5 * AUDIO_RATE,
	SPAN = AUDIO_RATE / 10, /* samples whose sizes are summed */
};

struct audio_cut audio_cut_rule(int64_t most_us)
{
	int64_t most = most_us * AUDIO_RATE / 1000000, usual = most * 3 / 5;
	return (struct audio_cut){most, usual, MIN(AROUND, MIN(most - usual, usual / 2))};
}

/* A sample's size as a whole number, so that a sum which moves on stays exact: silence is 0. Those
 * of a span of the largest samples fit. */
static int64_t size_of(float sample)
{
	return (int64_t)(fabs((double)sample) * (1 << 30));
}

/* The first sample of the quietest span of samples [left, right). */
static int64_t quietest(const struct audio *a, int64_t left, int64_t right)
{
	int64_t sum = 0, least, at = left;
	for (int64_t i = left; i < left + SPAN; i++)
		sum += size_of(a->samples[i]);
	least = sum;
	for (int64_t i = left + SPAN; i < right; i++) {
		sum += size_of(a->samples[i]) - size_of(a->samples[i - SPAN]);
		if (sum < least) {
			least = sum;
			at = i - SPAN + 1;
		}
	}
	return at;
}

int64_t audio_cut_end(const struct audio *a, const struct audio_cut *rule, int64_t from)
{
	if (a->n - from <= rule->most)
		return a->n;
	int64_t left = from + rule->usual - rule->around;
	int64_t right = from + rule->usual + rule->around;
	if (right - left <= SPAN)
		return from + rule->usual;
	int64_t span = quietest(a, left, right), best = span;
	for (int64_t i = span + 1; i < span + SPAN; i++)
		if (fabsf(a->samples[i]) < fabsf(a->samples[best]))
			best = i;
	return best;
}

enum status audio_cut_copy(const struct audio *a, int64_t from, int64_t n, struct audio *out,
			   struct fail *fail)
{
	size_t n_bytes = (size_t)n * sizeof *out->samples;
	*out = (struct audio){.n = n};
	if (audio_hold(a->held, (int64_t)n_bytes)) {
		out->held = (int64_t)n_bytes;
		out->samples = alloc_try(NULL, n_bytes);
	}
	if (!out->samples) {
		audio_deinit(out);
		return fail_set(fail, E_NOMEM, "no memory for the audio now: try again later");
	}
	memcpy(out->samples, a->samples + from, n_bytes);
	return OK;
}
