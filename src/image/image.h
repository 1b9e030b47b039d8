/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes JPEG, PNG and WebP files to pixels, and scales pixels to another size. Files may come
 * from anyone. Limits are checked against the file's header before any pixel has memory, and
 * decoding takes at most ten bytes a pixel. Thread: any.
 */
#pragma once
#include "base/buf.h"

/* 0: no limit. */
struct image_limits {
	int64_t max_bytes;  /* of the file */
	int32_t max_side;   /* pixels of the width, and of the height */
	int64_t max_pixels;
};

/* Row after row from the top. rgb: (height, width, 3), the owner frees it. */
struct image {
	int32_t width, height;
	uint8_t *rgb;
};

/* Where an image is transparent, white shows. A JPEG is turned as its Exif orientation
 * says. E_INVAL: no image of these formats, or a broken one. E_LIMIT: beyond a limit.
 * E_UNSUPPORTED: animated, or built without the format's library. E_NOMEM. */
enum status image_decode(struct str file, const struct image_limits *l, struct image *out,
			 struct fail *fail) MUST_USE;
void image_deinit(struct image *m);

enum image_filter {
	IMAGE_BICUBIC,  /* a = -0.5 */
	IMAGE_BILINEAR,
};
/* Scales the picture to another size. Each new pixel is a mean over the area that it covers,
 * with the same bits as Pillow's resize. *out is new. Sizes are 1 to 65535. E_NOMEM. */
enum status image_resize(const struct image *m, int32_t width, int32_t height,
			 enum image_filter filter, struct image *out) MUST_USE;
