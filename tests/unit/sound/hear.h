/* SPDX-License-Identifier: Apache-2.0
 *
 * A clip of make_omni.py, heard by a tower.
 */
#pragma once
#include "sound/sound.h"
#include "tests/unit/vision/golden.h"

static struct tower_view *hear(struct sound *s, int32_t n)
{
	struct fail fail = {0};
	struct tower_view *w = NULL;
	float *mel = golden_mel(n);
	if (sound_hear(s, &(struct sound_clip){.mel = mel, .n_frames = n}, &w, &fail) != OK)
		ok(false, "%d frames: %s", (int)n, fail.text);
	free(mel);
	return w;
}
