/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of video by libav, inside of halod-video. A fault is a text that continues "the video".
 * Thread: the only one. Nothing is freed: the process ends.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct AVCodecContext;
struct AVFormatContext;
struct AVPacket;
struct SwsContext;

struct reel_input {
	const uint8_t *p;
	int64_t n, at;
};

struct reel {
	struct reel_input in;
	struct AVFormatContext *format;
	struct AVCodecContext *decoder;
	struct SwsContext *scaler;
	int stream;
	int turns;              /* quarters of a turn to the right that show it upright */
	int32_t width, height;  /* as it is shown */
	double fps;             /* 0: not known */
	struct reel_packets {
		struct AVPacket **p;
		int64_t n;
	} packets, sounds;      /* of pictures and of sound, in the order of decoding */
	int sound;              /* its stream; below 0: none, or none is wanted */
	struct AVCodecContext *ear;
	int rate;               /* samples of sound in a second, once it is heard */
	int64_t *times;         /* (n_frames) when each frame is shown, in the order of showing */
	int64_t n_frames;
	uint8_t *coded, *shown; /* pixels of a frame, before and after its turns */
};

/* hears: reel_hear follows. Returns the fault; NULL: none. */
const char *reel_open(struct reel *r, const uint8_t *file, int64_t n, int64_t max_pixels,
		      bool hears);
/* Gives emit the mean of the channels of all samples, up to VIDEO_WIRE_MAX_SAMPLES at a time. A
 * file without sound has none. */
const char *reel_hear(struct reel *r,
		      void (*emit)(const struct reel *r, const float *samples, int n));
/* Gives emit the pixels (height, width, 3) of each of the frames, which ascend. */
const char *reel_play(struct reel *r, const int64_t *frames, int n,
		      void (*emit)(const struct reel *r, int i, const uint8_t *rgb));
