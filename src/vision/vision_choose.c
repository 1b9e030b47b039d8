/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: sample_frames of video_processing_qwen3_vl.py and of video_processing_qwen2_vl.py,
 * which Qwen3-Omni has, of Hugging Face Transformers. A video of one frame, which the latter
 * refuses, is that frame.
 */
#include "vision/vision_choose.h"

#include <math.h>

#include "base/alloc.h"

#define PLAIN_FPS 24.0 /* of a file that does not say it */
#define SLOWEST_FPS 0.01 /* as of a list of frames */

/* Qwen3-VL: evenly from the first frame to the last. */
static int64_t choose_even(const struct vision_video *v, struct vision_choice *io)
{
	int64_t n = io->want_n;
	if (!n) {
		double wanted = (double)io->n_frames / io->fps * io->want_fps;
		n = (int64_t)MIN(wanted, (double)VISION_MAX_CHOSEN);
		n = MIN(MIN(MAX(n, v->min_frames), v->max_frames), io->n_frames);
	}
	double step = n > 1 ? (double)(io->n_frames - 1) / (double)(n - 1) : 0;
	for (int64_t i = 0; i < n; i++)
		io->at[i] = n > 1 && i == n - 1 ? io->n_frames - 1
						: (int64_t)rint((double)i * step);
	return n;
}

/* Qwen3-Omni: whole pairs, each frame the first of its share. */
static int64_t choose_pairs(const struct vision_config *c, struct vision_choice *io)
{
	const struct vision_video *v = &c->video;
	int64_t pair = c->frames, n;
	if (io->want_n) {
		n = MAX((int64_t)rint((double)io->want_n / (double)pair) * pair, pair);
	} else {
		double most = (double)(MIN(v->max_frames, io->n_frames) / pair * pair);
		double wanted = (double)io->n_frames / io->fps * io->want_fps;
		wanted = MIN(MIN(MAX(wanted, v->min_frames), most), (double)io->n_frames);
		n = MAX((int64_t)(wanted / (double)pair) * pair, 1);
	}
	double step = (double)io->n_frames / (double)n;
	for (int64_t i = 0; i < n && n <= io->n_frames; i++)
		io->at[i] = MIN((int64_t)(float)((double)i * step), io->n_frames - 1);
	return n;
}

enum status vision_choose(const struct vision_config *c, struct vision_choice *io,
			  struct fail *fail)
{
	bool is_paired = c->video.second > 0;
	double own = io->want_fps > 0 ? io->want_fps : c->video.fps;
	if (io->fps <= 0)
		io->fps = PLAIN_FPS;
	io->want_fps = own;
	int64_t n = is_paired ? choose_pairs(c, io) : choose_even(&c->video, io);
	if (is_paired && n > io->n_frames)
		return fail_set(fail, E_INVAL, "the video has %lld frames, fewer than the %lld "
				"that are asked for", (long long)io->n_frames, (long long)n);
	io->n = (int32_t)n;
	/* Bounds make the frames lie further apart, or closer, than was asked for. */
	double seconds = (double)io->n_frames / io->fps;
	bool is_bounded = io->want_n || fabs(seconds * own - (double)n) >= (double)c->frames;
	io->rate = MAX(is_bounded ? (double)n / seconds : own, SLOWEST_FPS);
	return OK;
}
