/* SPDX-License-Identifier: Apache-2.0 */
#include "video/video_wire.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum status video_wire_strange(struct fail *fail)
{
	return fail_set(fail, E_INVAL, "the video broke the program that reads it");
}

/* The decoders may have been taken over: their words must be letters, and end. */
static enum status video_wire_fault(const struct video_wire *w, struct fail *fail)
{
	size_t n = strnlen(w->text, sizeof w->text);
	bool is_plain = n > 0 && n < sizeof w->text;
	for (size_t i = 0; i < n && is_plain; i++)
		is_plain = w->text[i] >= ' ' && w->text[i] <= '~';
	if (!is_plain)
		return video_wire_strange(fail);
	return fail_set(fail, w->code == VIDEO_WIRE_LIMIT ? E_LIMIT : E_INVAL, "the video %s",
			w->text);
}

enum status video_wire_check(const struct video_wire *w, enum video_wire_code want,
			     const struct video_wire_limits *l, struct fail *fail)
{
	if (w->magic != VIDEO_WIRE_MAGIC)
		return video_wire_strange(fail);
	if (w->code == VIDEO_WIRE_FAULT || w->code == VIDEO_WIRE_LIMIT)
		return video_wire_fault(w, fail);
	bool is_sound = want == VIDEO_WIRE_SOUND;
	if (w->code != want || w->width < 1 || w->height < 1 || w->n < 0 ||
	    w->n > (is_sound ? VIDEO_WIRE_MAX_SAMPLES : VIDEO_WIRE_MAX_FRAMES) ||
	    !isfinite(w->rate) || w->rate < 0 || (is_sound && w->rate > VIDEO_WIRE_MAX_RATE))
		return video_wire_strange(fail);
	int64_t pixels = (int64_t)w->width * w->height;
	if ((l->max_side && MAX(w->width, w->height) > l->max_side) ||
	    (l->max_pixels && pixels > l->max_pixels))
		return fail_set(fail, E_LIMIT, "the video has %d x %d pixels: more than this "
				"server reads", (int)w->width, (int)w->height);
	if (want == VIDEO_WIRE_FOUND && w->n < 1)
		return video_wire_strange(fail);
	return OK;
}
