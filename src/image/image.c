/* SPDX-License-Identifier: Apache-2.0 */
#include "image/image.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "image/image_format.h"

enum status image_check_size(int64_t width, int64_t height, const struct image_limits *l,
			     struct fail *fail)
{
	if (width < 1 || height < 1)
		return fail_set(fail, E_INVAL, "the image has no pixels");
	if (l->max_side && (width > l->max_side || height > l->max_side))
		return fail_set(fail, E_LIMIT, "the image has %lld x %lld pixels, and a side "
				"may have %d", (long long)width, (long long)height,
				(int)l->max_side);
	if (l->max_pixels && width > l->max_pixels / height)
		return fail_set(fail, E_LIMIT, "the image has %lld x %lld pixels, more than "
				"%lld", (long long)width, (long long)height,
				(long long)l->max_pixels);
	return OK;
}

enum status image_pay(int64_t *worth, int64_t units, struct fail *fail)
{
	int64_t own = MIN(units, *worth);
	*worth -= own;
	if (work_spend(WORK_IMAGE, (size_t)(units - own)))
		return OK;
	return fail_set(fail, E_LIMIT, "the image has too many pixels for so small a file");
}

enum status image_alloc(struct image *m, int32_t width, int32_t height, int n_channels,
			struct fail *fail)
{
	size_t n = (size_t)width * (size_t)height;
	*m = (struct image){width, height, malloc(n * (size_t)n_channels)};
	return m->rgb ? OK : fail_set(fail, E_NOMEM, "no memory for an image of %d x %d "
				      "pixels", (int)width, (int)height);
}

void image_drop_alpha(struct image *m)
{
	size_t n = (size_t)m->width * (size_t)m->height;
	for (size_t i = 0; i < n; i++) {
		unsigned opacity = m->rgb[4 * i + 3];
		for (size_t c = 0; c < 3; c++) {
			unsigned v = m->rgb[4 * i + c] * opacity + 255 * (255 - opacity);
			m->rgb[3 * i + c] = (uint8_t)((v + 127) / 255);
		}
	}
}

enum status image_decode(struct str file, const struct image_limits *l, struct image *out,
			 struct fail *fail)
{
	*out = (struct image){0};
	if (l->max_bytes && file.n > (size_t)l->max_bytes)
		return fail_set(fail, E_LIMIT, "the image has %zu bytes, more than %lld",
				file.n, (long long)l->max_bytes);
	if (str_starts(file, STR("\xff\xd8\xff")))
		return image_jpeg_decode(file, l, out, fail);
	if (str_starts(file, STR("\x89PNG\r\n\x1a\n")))
		return image_png_decode(file, l, out, fail);
	if (str_starts(file, STR("RIFF")) && file.n >= 12 &&
	    memcmp(file.p + 8, "WEBP", 4) == 0)
		return image_webp_decode(file, l, out, fail);
	return fail_set(fail, E_INVAL, "the image is not a JPEG, PNG or WebP file");
}

void image_deinit(struct image *m)
{
	free(m->rgb);
	*m = (struct image){0};
}
