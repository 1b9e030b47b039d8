/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels as the tower reads them. Thread: any.
 *
 * A patch is a square of pixels. A square of merge x merge patches becomes one token, so its
 * patches stand together, in rows. These squares follow each other in rows of the image.
 */
#pragma once
#include "image/image.h"
#include "vision/vision_config.h"

/* Lowers the limits of the size, so that no image has more than max_tokens tokens. */
void vision_patches_limit(struct vision_config *c, int32_t max_tokens);

/* The size to which an image is scaled for the tower: near its own, each side a multiple of a
 * token's side. VISION_QWEN: between min_pixels and max_pixels. VISION_PIXTRAL: no side longer
 * than max_side. VISION_SIGLIP: both sides max_side. vision_config_fills: as near to max_pixels
 * as possible. E_INVAL if one side is more than 200 times the other. */
enum status vision_patches_size(const struct vision_config *c, int32_t width, int32_t height,
				int32_t *out_width, int32_t *out_height,
				struct fail *fail) MUST_USE;

/* The size to which the n frames of a video are scaled. All have the size width x height. The
 * pixels of the result are within c->video's bounds. E_INVAL as above. */
struct vision_frames {
	int n;
	int32_t width, height;
};
enum status vision_patches_video(const struct vision_config *c, const struct vision_frames *f,
				 int32_t *out_width, int32_t *out_height,
				 struct fail *fail) MUST_USE;

/* Row and column of patch i of an image that is n_cols patches wide. */
void vision_patches_place(const struct vision_config *c, int32_t n_cols, int32_t i,
			  int32_t *out_row, int32_t *out_col);

/* Patches [from, from + n) of an image of that size: (n, 3, frames, patch, patch), each
 * number (pixel / 255 - mean) / std. m: n_images of them, of one size, at most c->frames: an
 * image, or neighbouring frames of a video. The last one stands for those that are missing. */
struct vision_pixels {
	const struct image *m;
	int n_images;
};
void vision_patches_write(const struct vision_config *c, const struct vision_pixels *p,
			  int32_t from, int32_t n, float *out);
