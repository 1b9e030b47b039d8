/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files of video (MP4, WebM, Matroska; H.264, HEVC, VP8, VP9, AV1, Motion JPEG) as their
 * frames. Files may come from anyone, so their decoders run in a process that can harm nothing
 * (video_helper.h). Nothing is read ahead: one frame at a time is in memory. Thread: one at a time,
 * and not the io thread: it waits.
 */
#pragma once
#include "base/buf.h"

/* 0: no limit. */
struct video_limits {
	int64_t max_bytes; /* of the file */
	int32_t max_side;  /* pixels of the width, and of the height */
	int64_t max_pixels;
	int64_t max_us;      /* how long reading one may take, of its process; never 0 */
	const char *program; /* halod-video; NULL: as it was installed */
};

struct video;

struct video_found {
	int32_t width, height; /* as it is shown: turned as the file says */
	int64_t n;             /* frames */
	double fps;            /* of them in a second, on the average; 0: not known */
	int32_t rate;          /* samples of its sound in a second; 0: it has none */
};

/* Can files of video be read? E_UNSUPPORTED: halod-video is not installed. */
enum status video_check(const struct video_limits *l, struct fail *fail) MUST_USE;
/* Counts the frames of a file, and decodes none. The file is copied. hears: its sound is wanted,
 * too (AAC, Opus, Vorbis, MP3, FLAC, PCM); else found.rate is 0. E_INVAL: no video of these
 * formats, or a broken one; E_LIMIT: beyond a limit. E_UNSUPPORTED: halod-video does not start.
 * E_CANCELLED: *is_gone is true; NULL: it never is. E_NOMEM. */
enum status video_open(struct str file, bool hears, const struct video_limits *l,
		       const _Atomic bool *is_gone, struct video **out,
		       struct fail *fail) MUST_USE;
const struct video_found *video_found(const struct video *v);
/* Reads up to n samples of the sound, the mean of its channels: any numbers. *out_n 0: the end.
 * Only where found.rate is not 0, and before video_choose. Errors as of video_open. */
enum status video_hear(struct video *v, const _Atomic bool *is_gone, float *out, size_t n,
		       size_t *out_n, struct fail *fail) MUST_USE;
/* Chooses the frames that video_read gives: n of them, ascending, each below found.n; once. */
void video_choose(struct video *v, const int64_t *at, int n);
/* Appends the pixels (height, width, 3) of the next chosen frame. Errors as of video_open. */
enum status video_read(struct video *v, const _Atomic bool *is_gone, struct buf *out,
		       struct fail *fail) MUST_USE;
void video_close(struct video *v); /* NULL is fine */
