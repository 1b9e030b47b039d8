/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes WAV, MP3, FLAC and Ogg Opus files to samples as models take them: one
 * channel, 16,000 samples a second. Files may come from anyone. What they ask for is bounded
 * while it is made: a header may lie. Thread: any.
 */
#pragma once
#include "base/buf.h"

enum { AUDIO_RATE = 16000 };

/* 0: no limit. */
struct audio_limits {
	int64_t max_bytes; /* of the file */
	int64_t max_us;    /* duration */
};

/* The owner frees samples. Full scale is -1 to 1; files of floats may go beyond. */
struct audio {
	int64_t n; /* at least a tenth of a second */
	float *samples;
	int64_t held; /* bytes, as of audio_hold */
};

/* Samples and spectrograms of all requests together are bounded: a file of silence has few bytes
 * for hours. Counts `more` bytes for a request that already has `own`. False: others hold too
 * much. One alone may have more than the bound. */
#define AUDIO_HELD_MAX ((int64_t)512 << 20)
bool audio_hold(int64_t own, int64_t more);
void audio_let(int64_t bytes);

/* Channels become their mean. Another rate is resampled by soxr in its high quality, as
 * librosa's load does. E_INVAL: no audio of these formats, a broken one, or one that is too
 * short. E_LIMIT: beyond a limit. E_UNSUPPORTED: as of audio_check. E_NOMEM: also where others
 * hold too much (audio_hold). */
enum status audio_decode(struct str file, const struct audio_limits *l, struct audio *out,
			 struct fail *fail) MUST_USE;
void audio_deinit(struct audio *a);
/* Samples of one channel that somebody else decodes, who need not be believed. */
struct audio_source {
	int rate;
	int64_t n_bytes; /* of the file that they are in */
	/* Reads up to n samples. *out_n 0: the end. Its errors are those of audio_take. */
	enum status (*read)(void *ctx, float *out, size_t n, size_t *out_n, struct fail *fail);
	void *ctx;
};
/* Reads all of them, resampled as of audio_decode. Errors as there. */
enum status audio_take(const struct audio_source *s, const struct audio_limits *l,
		       struct audio *out, struct fail *fail) MUST_USE;
/* Adds zeros, so that there are at least so many samples. E_NOMEM. */
enum status audio_fill(struct audio *a, int64_t least, struct fail *fail) MUST_USE;
/* Can audio be read? E_UNSUPPORTED names what is missing. */
enum status audio_check(struct fail *fail) MUST_USE;
static inline int64_t audio_us(const struct audio *a)
{
	return a->n * 1000000 / AUDIO_RATE;
}
