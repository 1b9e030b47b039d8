/* SPDX-License-Identifier: Apache-2.0
 *
 * The log-mel spectrogram that models of speech see, as the feature extractor of Whisper makes
 * it (Radford et al., 2022, section 2.2). Thread: any.
 */
#pragma once
#include "audio/audio.h"

enum { MEL_HOP = 160 };

/* The owner frees rows. */
struct mel {
	int32_t n_bands, n_frames; /* a frame is MEL_HOP samples; a rest of fewer is not seen */
	float *rows;               /* (n_bands, n_frames), most of them in -1 to 1.5 */
	int64_t held;              /* as in struct audio */
};

/* n_bands: 1 or more. E_NOMEM, as of audio_decode. */
enum status mel_compute(const struct audio *a, int32_t n_bands, struct mel *out,
			struct fail *fail) MUST_USE;
void mel_deinit(struct mel *m);
