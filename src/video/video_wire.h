/* SPDX-License-Identifier: Apache-2.0
 *
 * What halod-video writes. Arguments: most pixels of a side, most pixels of a frame, seconds of
 * processor time. The file is on standard input, as something that can be mapped. Without further
 * arguments it writes one VIDEO_WIRE_FOUND. With "sound" it then writes one VIDEO_WIRE_SOUND or
 * more, and behind each n samples: floats, the mean of the channels. The last has n 0; of a file
 * without sound it is the only one. With "WIDTH HEIGHT N,N,..." it writes a VIDEO_WIRE_FRAME for
 * each of these frames, in their order, and behind each its pixels: rows from the top, of width
 * times red, green and blue. A VIDEO_WIRE_FAULT ends it in place of any of them.
 */
#pragma once
#include "base/buf.h"

enum { VIDEO_WIRE_MAGIC = 0x56444c48, VIDEO_WIRE_TEXT = 96, VIDEO_WIRE_MAX_FRAMES = 1 << 20,
       VIDEO_WIRE_MAX_SAMPLES = 1 << 14, VIDEO_WIRE_MAX_RATE = 1 << 20 };
enum video_wire_code { VIDEO_WIRE_FOUND = 1, VIDEO_WIRE_FRAME, VIDEO_WIRE_FAULT, VIDEO_WIRE_LIMIT,
		       VIDEO_WIRE_SOUND };

struct video_wire {
	uint32_t magic, code;
	int32_t width, height;
	/* Frames in the file; of a frame: which of those asked for; of sound: samples. */
	int64_t n;
	double rate; /* frames in a second, on the average; 0: not known. Of sound: samples */
	char text[VIDEO_WIRE_TEXT]; /* of a fault: what is wrong with the video; ends in NUL */
};

/* 0: no limit. */
struct video_wire_limits {
	int32_t max_side;
	int64_t max_pixels;
};

/* E_INVAL: halod-video ended, or wrote what it never writes. */
enum status video_wire_strange(struct fail *fail) MUST_USE;
/* Checks what was read as anyone's bytes: what is OK keeps to the limits. E_INVAL, E_LIMIT: the
 * fault that it tells, in plain letters, or that it is no such message. Thread: any. */
enum status video_wire_check(const struct video_wire *w, enum video_wire_code want,
			     const struct video_wire_limits *l, struct fail *fail) MUST_USE;
