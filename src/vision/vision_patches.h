/* SPDX-License-Identifier: Apache-2.0
 *
 * Pixels as the tower reads them. Thread: any.
 *
 * A patch is a square of pixels. merge x merge neighbouring patches stand together, row after
 * row of them, since they become one token; and the squares that they form come row after row
 * of the image.
 */
#pragma once
#include "image/image.h"
#include "vision/vision_config.h"

/* Makes images smaller, so that none has more than max_tokens tokens. */
void vision_patches_limit(struct vision_config *c, int32_t max_tokens);

/* The size at which an image is looked at: near its own, each side a multiple of what becomes
 * a token. VISION_QWEN: between min_pixels and max_pixels. VISION_PIXTRAL: no side longer
 * than max_side. VISION_SIGLIP: max_side both ways. vision_config_fills: as near to max_pixels
 * as it can be. E_INVAL for one that is too long. */
enum status vision_patches_size(const struct vision_config *c, int32_t width, int32_t height,
				int32_t *out_width, int32_t *out_height,
				struct fail *fail) MUST_USE;

/* Row and column of patch i of an image that is n_cols patches wide. */
void vision_patches_place(const struct vision_config *c, int32_t n_cols, int32_t i,
			  int32_t *out_row, int32_t *out_col);

/* Patches [from, from + n) of an image of that size: (n, 3, frames, patch, patch), each
 * number (pixel / 255 - mean) / std. */
void vision_patches_write(const struct vision_config *c, const struct image *m, int32_t from,
			  int32_t n, float *out);
