/* SPDX-License-Identifier: Apache-2.0
 *
 * What audio.c and the readers of its formats share. Thread: any.
 */
#pragma once
#include <errno.h>

#include "audio/audio.h"
#include "audio/audio_lib.h"

/* An open file: what a reader sets. */
struct audio_file {
	const struct audio_lib *lib;
	int rate, channels; /* as the file says: not checked */
	/* Reads up to n frames to out (n, channels). *out_n 0: the end. E_INVAL, E_NOMEM. */
	enum status (*read)(struct audio_file *f, float *out, size_t n, size_t *out_n,
			    struct fail *fail);
	void (*close)(struct audio_file *f);
	void *state; /* the reader's own */
};

/* Libraries report what malloc could not give as they report a broken file. Before a call of theirs
 * errno is 0; behind one that failed this says which it was. */
static inline bool audio_lacks_memory(struct fail *fail)
{
	if (errno == ENOMEM)
		fail_set(fail, E_NOMEM, "no memory to read the audio");
	return errno == ENOMEM;
}

/* Opens the bytes, which outlive *out. E_INVAL, E_NOMEM. */
enum status audio_sndfile_open(const struct audio_lib *lib, struct str file,
			       struct audio_file *out, struct fail *fail) MUST_USE;
enum status audio_mp3_open(const struct audio_lib *lib, struct str file,
			   struct audio_file *out, struct fail *fail) MUST_USE;
