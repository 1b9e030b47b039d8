/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what halod-video writes. What is believed keeps to the limits; what is not has words
 * of plain letters.
 */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "video/video_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct video_wire_limits limits = {512, 1 << 16};
	struct video_wire w = {0};
	struct fail fail = {0};
	static const enum video_wire_code codes[] = {VIDEO_WIRE_SOUND, VIDEO_WIRE_FOUND,
						     VIDEO_WIRE_FRAME};
	enum video_wire_code want = codes[n % 3];
	memcpy(&w, data, MIN(n, sizeof w));
	enum status st = video_wire_check(&w, want, &limits, &fail);
	if (st != OK) {
		assert((st == E_INVAL || st == E_LIMIT) && fail.text[0]);
		for (const char *p = fail.text; *p; p++)
			assert(*p >= ' ' && *p <= '~');
		return 0;
	}
	assert(w.code == want && w.width >= 1 && w.width <= 512 && w.height >= 1 &&
	       w.height <= 512 && w.width * w.height <= 1 << 16);
	bool is_sound = want == VIDEO_WIRE_SOUND;
	assert(w.n >= 0 && w.n <= (is_sound ? VIDEO_WIRE_MAX_SAMPLES : VIDEO_WIRE_MAX_FRAMES));
	assert(w.rate >= 0 && w.rate <= (is_sound ? (double)VIDEO_WIRE_MAX_RATE : DBL_MAX));
	return 0;
}
