/* SPDX-License-Identifier: Apache-2.0
 *
 * As image_processing_qwen2_vl.py and video_processing_qwen3_vl.py of Hugging Face Transformers:
 * smart_resize and patchify; and as image_processing_pixtral.py, image_processing_gemma3.py and
 * image_processing_pil_gemma4.py.
 */
#include "vision/vision_patches.h"

#include <math.h>

#include "base/alloc.h"

#define MAX_RATIO 200

static double at_least(double side, int32_t factor)
{
	return fmax(side, factor);
}

void vision_patches_limit(struct vision_config *c, int32_t max_tokens)
{
	int32_t f = c->patch * c->merge;
	int32_t n = (int32_t)sqrt(max_tokens); /* tokens along a side */
	c->max_pixels = MIN(c->max_pixels, (int64_t)max_tokens * f * f);
	c->min_pixels = MIN(c->min_pixels, c->max_pixels);
	c->video.patch_pixels = (int64_t)max_tokens * f * f;
	while (n > 1 && (int64_t)n * (n + c->n_gap) > max_tokens)
		n--;
	if (c->kind == VISION_PIXTRAL)
		c->max_side = MIN(c->max_side, n * f);
}

/* Scale the image down if a side is longer than max_side. Then round both sides up to whole
 * tokens. */
static void round_up(const struct vision_config *c, int32_t *io_width, int32_t *io_height)
{
	int32_t f = c->patch * c->merge;
	double shrink = fmax((double)*io_height / c->max_side, (double)*io_width / c->max_side);
	if (shrink > 1) {
		*io_width = (int32_t)floor(*io_width / shrink);
		*io_height = (int32_t)floor(*io_height / shrink);
	}
	*io_width = ROUND_UP(MAX(*io_width, 1), f);
	*io_height = ROUND_UP(MAX(*io_height, 1), f);
}

/* Choose the largest size of the image's shape with at most max_pixels, with sides rounded down
 * to whole tokens. */
static void vision_patches_fill(const struct vision_config *c, int32_t *io_width,
				int32_t *io_height)
{
	int32_t f = c->patch * c->merge, width = *io_width, height = *io_height;
	int32_t most = (int32_t)(c->max_pixels / f / f); /* tokens */
	double grow = sqrt((double)c->max_pixels / ((double)height * width));
	int32_t rows = (int32_t)(grow * height / f), cols = (int32_t)(grow * width / f);
	if (rows == 0 && cols == 0)
		rows = cols = 1; /* max_pixels allow only one token */
	else if (rows == 0)
		cols = MIN(width / height, most);
	else if (cols == 0)
		rows = MIN(height / width, most);
	*io_width = MAX(cols, 1) * f;
	*io_height = MAX(rows, 1) * f;
}

enum status vision_patches_size(const struct vision_config *c, int32_t width, int32_t height,
				int32_t *out_width, int32_t *out_height, struct fail *fail)
{
	int32_t f = c->patch * c->merge;
	if (MAX(width, height) > (int64_t)MAX_RATIO * MIN(width, height))
		return fail_set(fail, E_INVAL, "the image of %d x %d pixels is more than %d "
				"times as long as wide", (int)width, (int)height, MAX_RATIO);
	*out_width = width;
	*out_height = height;
	if (c->kind == VISION_SIGLIP) {
		*out_width = *out_height = c->max_side;
		return OK;
	}
	if (c->kind == VISION_PIXTRAL) {
		round_up(c, out_width, out_height);
		return OK;
	}
	if (vision_config_fills(c)) {
		vision_patches_fill(c, out_width, out_height);
		return OK;
	}
	double w = rint((double)width / f) * f, h = rint((double)height / f) * f;
	double pixels = (double)width * height;
	if (w * h > (double)c->max_pixels) {
		double shrink = sqrt(pixels / (double)c->max_pixels);
		w = at_least(floor(width / shrink / f) * f, f);
		h = at_least(floor(height / shrink / f) * f, f);
	} else if (w * h < (double)c->min_pixels) {
		double grow = sqrt((double)c->min_pixels / pixels);
		w = ceil(width * grow / f) * f;
		h = ceil(height * grow / f) * f;
	}
	*out_width = (int32_t)w;
	*out_height = (int32_t)h;
	return OK;
}

enum status vision_patches_video(const struct vision_config *c, const struct vision_frames *v,
				 int32_t *out_width, int32_t *out_height, struct fail *fail)
{
	const struct vision_video *video = &c->video;
	if (video->second > 0) { /* each frame as an image */
		struct vision_config own = *c;
		own.max_pixels = MIN(video->max_pixels, video->patch_pixels);
		own.min_pixels = MIN(video->min_pixels, own.max_pixels);
		return vision_patches_size(&own, v->width, v->height, out_width, out_height, fail);
	}
	double f = c->patch * c->merge, width = v->width, height = v->height;
	double n = MAX(v->n, c->frames), most = (double)video->max_pixels;
	double least = (double)video->min_pixels;
	if (height < f || width < f) {
		double grow = fmax(f / height, f / width);
		height = trunc(height * grow);
		width = trunc(width * grow);
	}
	if (fmax(width, height) > MAX_RATIO * fmin(width, height))
		return fail_set(fail, E_INVAL, "the frame of %d x %d pixels is more than %d "
				"times as long as wide", (int)v->width, (int)v->height, MAX_RATIO);
	double h = rint(height / f) * f, w = rint(width / f) * f;
	double t = rint(n / c->frames) * c->frames; /* 5 frames count as 4, and 7 as 8 */
	if (video->frame_tokens)
		most = n * fmax(fmin(video->frame_tokens * f * f, floor(most / n)),
				trunc(least * 1.05));
	most = fmin(most, (double)video->patch_pixels * fmin(n, t));
	if (t * h * w > most) {
		double shrink = sqrt(n * height * width / most);
		h = at_least(floor(height / shrink / f) * f, c->patch * c->merge);
		w = at_least(floor(width / shrink / f) * f, c->patch * c->merge);
	} else if (t * h * w < least) {
		double grow = sqrt(fmin(least, most) / (n * height * width));
		h = ceil(height * grow / f) * f;
		w = ceil(width * grow / f) * f;
	}
	*out_width = (int32_t)w;
	*out_height = (int32_t)h;
	return OK;
}

void vision_patches_place(const struct vision_config *c, int32_t n_cols, int32_t i,
			  int32_t *out_row, int32_t *out_col)
{
	int32_t m = c->merge, in = i % (m * m), block = i / (m * m);
	*out_row = block / (n_cols / m) * m + in / m;
	*out_col = block % (n_cols / m) * m + in % m;
}

/* Write one channel of one patch of one frame. */
static void write_channel(const struct vision_config *c, const uint8_t *at, size_t pitch,
			  const float *value, float *out)
{
	size_t p = (size_t)c->patch;
	for (size_t y = 0; y < p; y++)
		for (size_t x = 0; x < p; x++)
			out[y * p + x] = value[at[y * pitch + 3 * x]];
}

void vision_patches_write(const struct vision_config *c, const struct vision_pixels *p,
			  int32_t from, int32_t n, float *out)
{
	size_t pitch = 3 * (size_t)p->m->width, side = (size_t)c->patch, each = side * side;
	float value[3][256];
	for (int k = 0; k < 3; k++)
		for (int v = 0; v < 256; v++)
			value[k][v] = ((float)v - (float)c->mean[k] * 255) /
				      ((float)c->std[k] * 255);
	for (int32_t i = from; i < from + n; i++) {
		int32_t row, col;
		vision_patches_place(c, p->m->width / c->patch, i, &row, &col);
		size_t at = (size_t)row * side * pitch + 3 * (size_t)col * side;
		for (size_t k = 0; k < 3; k++)
			for (int frame = 0; frame < c->frames; frame++, out += each)
				if (frame < p->n_images)
					write_channel(c, p->m[frame].rgb + at + k, pitch,
						      value[k], out);
				else
					memcpy(out, out - each, each * sizeof *out);
	}
}
