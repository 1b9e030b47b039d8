/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an image. What is read keeps to the limits and can be resized; what is
 * refused has words.
 */
#include <assert.h>

#include "base/alloc.h"
#include "image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_SIDE = 512, MAX_PIXELS = 1 << 16 };

static volatile unsigned char sum;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct image_limits limits = {1 << 20, MAX_SIDE, MAX_PIXELS};
	struct image m, small;
	struct fail fail = {0};
	enum status st = image_decode((struct str){(const char *)data, n}, &limits, &m, &fail);
	if (st != OK) {
		assert(fail.text[0] && !m.rgb);
		return 0;
	}
	assert(m.width >= 1 && m.width <= MAX_SIDE && m.height >= 1 && m.height <= MAX_SIDE);
	assert(m.width * m.height <= MAX_PIXELS);
	for (int32_t i = 0; i < 3 * m.width * m.height; i++)
		sum ^= m.rgb[i];
	if (image_resize(&m, 1 + m.height % 9, 1 + m.width % 7, m.width % 2, &small) == OK)
		sum ^= small.rgb[0];
	image_deinit(&small);
	image_deinit(&m);
	return 0;
}
