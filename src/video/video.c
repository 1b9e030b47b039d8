/* SPDX-License-Identifier: Apache-2.0 */
#include "video/video.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "video/video_helper.h"
#include "video/video_wire.h"

#define MIN_FPS 1e-3
#define MAX_FPS 1e5

struct video {
	struct video_limits limits;
	struct video_found found;
	struct video_helper helper;
	int fd; /* the file, in memory */
	struct buf chosen; /* as halod-video reads it */
	int n_chosen, n_read;
	int64_t n_samples; /* that follow before the next message */
};

enum status video_check(const struct video_limits *l, struct fail *fail)
{
	return video_helper_is_there(l->program)
		       ? OK : fail_set(fail, E_UNSUPPORTED, "this halod reads no files of video: "
				       "halod-video is not installed");
}

/* A file in memory that nobody can change. */
static enum status video_keep(struct str file, int *out, struct fail *fail)
{
	int fd = memfd_create("video", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool is_kept = fd >= 0 && file_write_all(fd, file) &&
		       fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW |
			     F_SEAL_WRITE) == 0;
	int error = errno;
	if (!is_kept && fd >= 0)
		close(fd);
	*out = fd;
	return is_kept ? OK : fail_set(fail, E_NOMEM, "no memory for a video: %s",
				       strerror(error));
}

enum task { COUNT, COUNT_AND_HEAR, SHOW };

static enum status video_start(struct video *v, enum task task, const _Atomic bool *is_gone,
			       struct fail *fail)
{
	const struct video_limits *l = &v->limits;
	char side[24], pixels[24], seconds[24], width[24], height[24];
	snprintf(side, sizeof side, "%d", (int)l->max_side);
	snprintf(pixels, sizeof pixels, "%lld", (long long)l->max_pixels);
	snprintf(seconds, sizeof seconds, "%lld", (long long)(l->max_us / 1000000 + 1));
	snprintf(width, sizeof width, "%d", (int)v->found.width);
	snprintf(height, sizeof height, "%d", (int)v->found.height);
	char *args[] = {"halod-video", side, pixels, seconds, NULL, NULL, NULL, NULL};
	if (task == COUNT_AND_HEAR)
		args[4] = "sound";
	if (task == SHOW) {
		args[4] = width;
		args[5] = height;
		args[6] = v->chosen.p;
	}
	lseek(v->fd, 0, SEEK_SET); /* for whoever reads it, and does not map it */
	return video_helper_start(&v->helper, l->program, args, v->fd, l->max_us, is_gone, fail);
}

static enum status video_receive(struct video *v, enum video_wire_code want,
				 struct video_wire *out, const _Atomic bool *is_gone,
				 struct fail *fail)
{
	const struct video_wire_limits limits = {v->limits.max_side, v->limits.max_pixels};
	enum status st = video_helper_read(&v->helper, out, sizeof *out, is_gone, fail);
	return st == OK ? video_wire_check(out, want, &limits, fail) : st;
}

/* The head of the sound's next piece. The last, which has no samples, ends the program. */
static enum status video_receive_sound(struct video *v, int32_t *rate,
				       const _Atomic bool *is_gone, struct fail *fail)
{
	struct video_wire w;
	enum status st = video_receive(v, VIDEO_WIRE_SOUND, &w, is_gone, fail);
	if (st == OK) {
		v->n_samples = w.n;
		*rate = (int32_t)w.rate;
	}
	if (st != OK || w.n == 0)
		video_helper_stop(&v->helper);
	return st;
}

static enum status video_count(struct video *v, bool hears, const _Atomic bool *is_gone,
			       struct fail *fail)
{
	struct video_wire w;
	int32_t rate = 0;
	enum status st = video_start(v, hears ? COUNT_AND_HEAR : COUNT, is_gone, fail);
	if (st == OK)
		st = video_receive(v, VIDEO_WIRE_FOUND, &w, is_gone, fail);
	if (st == OK && hears)
		st = video_receive_sound(v, &rate, is_gone, fail);
	if (st != OK || !hears)
		video_helper_stop(&v->helper);
	if (st != OK)
		return st;
	bool is_known = w.rate >= MIN_FPS && w.rate <= MAX_FPS;
	v->found = (struct video_found){w.width, w.height, w.n, is_known ? w.rate : 0,
					v->n_samples > 0 ? rate : 0};
	return OK;
}

enum status video_open(struct str file, bool hears, const struct video_limits *l,
		       const _Atomic bool *is_gone, struct video **out, struct fail *fail)
{
	*out = NULL;
	enum status st = video_check(l, fail);
	if (st != OK)
		return st;
	if (l->max_bytes && file.n > (size_t)l->max_bytes)
		return fail_set(fail, E_LIMIT, "the video has %zu bytes, more than %lld "
				"(max_video_bytes)", file.n, (long long)l->max_bytes);
	if (file.n == 0)
		return fail_set(fail, E_INVAL, "the video has no bytes");
	struct video *v = xcalloc(1, sizeof *v);
	v->limits = *l;
	st = video_keep(file, &v->fd, fail);
	if (st != OK) {
		free(v);
		return st;
	}
	st = video_count(v, hears, is_gone, fail);
	if (st != OK)
		video_close(v);
	else
		*out = v;
	return st;
}

const struct video_found *video_found(const struct video *v)
{
	return &v->found;
}

enum status video_hear(struct video *v, const _Atomic bool *is_gone, float *out, size_t n,
		       size_t *out_n, struct fail *fail)
{
	int32_t rate = v->found.rate;
	enum status st = OK;
	*out_n = 0;
	if (v->n_samples == 0 && v->helper.is_on)
		st = video_receive_sound(v, &rate, is_gone, fail);
	if (st == OK && rate != v->found.rate)
		st = fail_set(fail, E_INVAL, "the video changes the rate of its sound");
	n = MIN(n, (size_t)v->n_samples);
	if (st == OK && n > 0)
		st = video_helper_read(&v->helper, out, n * sizeof *out, is_gone, fail);
	if (st != OK)
		return st;
	v->n_samples -= (int64_t)n;
	*out_n = n;
	return OK;
}

void video_choose(struct video *v, const int64_t *at, int n)
{
	video_helper_stop(&v->helper);
	for (int i = 0; i < n; i++)
		buf_addf(&v->chosen, "%s%lld", i ? "," : "", (long long)at[i]);
	v->n_chosen = n;
}

enum status video_read(struct video *v, const _Atomic bool *is_gone, struct buf *out,
		       struct fail *fail)
{
	size_t n = 3 * (size_t)v->found.width * (size_t)v->found.height;
	struct video_wire w;
	enum status st = v->helper.is_on ? OK : video_start(v, SHOW, is_gone, fail);
	if (st == OK)
		st = video_receive(v, VIDEO_WIRE_FRAME, &w, is_gone, fail);
	if (st == OK && (w.width != v->found.width || w.height != v->found.height ||
			 w.n != v->n_read))
		st = video_wire_strange(fail);
	if (st == OK && !buf_try(out, n))
		st = fail_set(fail, E_NOMEM, "no memory for a frame of %d x %d pixels",
			      (int)w.width, (int)w.height);
	if (st == OK)
		st = video_helper_read(&v->helper, out->p + out->n, n, is_gone, fail);
	if (st == OK)
		out->n += n;
	v->n_read++;
	if (st != OK || v->n_read == v->n_chosen)
		video_helper_stop(&v->helper);
	return st;
}

void video_close(struct video *v)
{
	if (!v)
		return;
	video_helper_stop(&v->helper);
	close(v->fd);
	buf_deinit(&v->chosen);
	free(v);
}
