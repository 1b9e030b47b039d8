/* SPDX-License-Identifier: Apache-2.0
 *
 * WebP by libwebp, lossy and lossless, but not animated.
 */
#include <build-config.h>

#include "image/image_format.h"

#ifdef HAVE_LIBWEBP
#include <webp/decode.h>

enum status image_webp_decode(struct str file, const struct image_limits *l,
			      struct image *out, struct fail *fail)
{
	const uint8_t *p = (const uint8_t *)file.p;
	WebPBitstreamFeatures f;
	int64_t worth = image_worth(file);
	if (WebPGetFeatures(p, file.n, &f) != VP8_STATUS_OK)
		return fail_set(fail, E_INVAL, "the WebP image cannot be read");
	if (f.has_animation)
		return fail_set(fail, E_UNSUPPORTED, "the WebP image is animated");
	enum status st = image_check_size(f.width, f.height, l, fail);
	if (st == OK)
		st = image_pay(&worth, 2 * (int64_t)f.width * f.height, fail);
	if (st == OK)
		st = image_alloc(out, f.width, f.height, f.has_alpha ? 4 : 3, fail);
	if (st != OK)
		return st;
	size_t pitch = (size_t)f.width * (f.has_alpha ? 4 : 3);
	size_t n = pitch * (size_t)f.height;
	const uint8_t *done =
		f.has_alpha ? WebPDecodeRGBAInto(p, file.n, out->rgb, n, (int)pitch)
			    : WebPDecodeRGBInto(p, file.n, out->rgb, n, (int)pitch);
	if (!done) {
		image_deinit(out);
		return fail_set(fail, E_INVAL, "the WebP image cannot be read");
	}
	if (f.has_alpha)
		image_drop_alpha(out);
	return OK;
}

#else

enum status image_webp_decode(struct str file, const struct image_limits *l,
			      struct image *out, struct fail *fail)
{
	return fail_set(fail, E_UNSUPPORTED, "this halod was built without libwebp");
}
#endif
