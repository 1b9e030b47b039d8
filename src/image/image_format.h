/* SPDX-License-Identifier: Apache-2.0
 *
 * What image.c and the readers of its formats share. Thread: any.
 */
#pragma once
#include "base/work.h"
#include "image/image.h"

/* Readers of the formats. The caller has checked that the file begins like one of the format. */
enum status image_jpeg_decode(struct str file, const struct image_limits *l,
			      struct image *out, struct fail *fail) MUST_USE;
enum status image_png_decode(struct str file, const struct image_limits *l,
			     struct image *out, struct fail *fail) MUST_USE;
enum status image_webp_decode(struct str file, const struct image_limits *l,
			      struct image *out, struct fail *fail) MUST_USE;

/* Checks an image's size against the limits. E_LIMIT; E_INVAL for a side of 0. */
enum status image_check_size(int64_t width, int64_t height, const struct image_limits *l,
			     struct fail *fail) MUST_USE;
/* Pays for decoding: so many units of base/work.h. *worth, what the file's bytes are worth, goes
 * first, so a photo costs its request nothing. E_LIMIT. */
enum status image_pay(int64_t *worth, int64_t units, struct fail *fail) MUST_USE;
static inline int64_t image_worth(struct str file)
{
	return (int64_t)file.n * WORK_BYTE;
}
/* Memory for the pixels, n_channels bytes each. E_NOMEM. */
enum status image_alloc(struct image *m, int32_t width, int32_t height, int n_channels,
			struct fail *fail) MUST_USE;
/* Pixels of four bytes, the last of them the opacity, become three, over white. */
void image_drop_alpha(struct image *m);

/* The orientation (1 to 8) in the Exif data of an APP1 segment; 1 where there is none. */
int image_exif_orientation(struct str segment);
/* Turns and mirrors m as the orientation says. E_NOMEM. */
enum status image_orient(struct image *m, int orientation, struct fail *fail) MUST_USE;
