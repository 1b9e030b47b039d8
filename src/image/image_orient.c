/* SPDX-License-Identifier: Apache-2.0
 *
 * A camera stores pixels as its sensor is held, and in Exif how to turn them for viewing.
 * Source: Exif 2.32, sections 4.5.2 (the TIFF header and its first directory) and 4.6.4
 * (Orientation).
 *
 *   1 as it is   2 mirrored   3 turned by 180   4 mirrored, and by 180
 *   5 transposed 6 by 90      7 transposed, and by 180   8 by 270, all clockwise
 */
#include <stdlib.h>

#include "image/image_format.h"

enum { TAG_ORIENTATION = 0x112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

struct tiff {
	const uint8_t *p;
	size_t n;
	bool is_big; /* true: big-endian */
};

/* The number of n_bytes at offset `at`; 0 beyond the end. */
static uint32_t number(const struct tiff *t, size_t at, size_t n_bytes)
{
	uint32_t v = 0;
	if (at > t->n || n_bytes > t->n - at)
		return 0;
	for (size_t i = 0; i < n_bytes; i++)
		v = v << 8 | t->p[at + (t->is_big ? i : n_bytes - 1 - i)];
	return v;
}

int image_exif_orientation(struct str segment)
{
	enum { HEAD = 6 }; /* "Exif" and two zeros */
	if (segment.n < HEAD + 8 || memcmp(segment.p, "Exif\0\0", HEAD) != 0)
		return 1;
	struct tiff t = {(const uint8_t *)segment.p + HEAD, segment.n - HEAD,
			 segment.p[HEAD] == 'M'};
	size_t dir = number(&t, 4, 4);
	size_t n = number(&t, dir, 2);
	for (size_t i = 0; i < n; i++) {
		size_t at = dir + 2 + i * ENTRY_BYTES;
		if (number(&t, at, 2) != TAG_ORIENTATION)
			continue;
		uint32_t v = number(&t, at + 8, 2);
		bool is_known = number(&t, at + 2, 2) == TYPE_SHORT && v >= 1 && v <= 8;
		return is_known ? (int)v : 1;
	}
	return 1;
}

enum status image_orient(struct image *m, int orientation, struct fail *fail)
{
	bool is_transposed = orientation >= 5;
	bool flips_x = orientation == 2 || orientation == 3 || orientation == 7 ||
		       orientation == 8;
	bool flips_y = orientation == 3 || orientation == 4 || orientation == 6 ||
		       orientation == 7;
	struct image to;
	if (orientation == 1)
		return OK;
	enum status st = image_alloc(&to, is_transposed ? m->height : m->width,
				     is_transposed ? m->width : m->height, 3, fail);
	if (st != OK)
		return st;
	for (int32_t y = 0; y < to.height; y++)
		for (int32_t x = 0; x < to.width; x++) {
			int32_t from_x = is_transposed ? y : x;
			int32_t from_y = is_transposed ? x : y;
			from_x = flips_x ? m->width - 1 - from_x : from_x;
			from_y = flips_y ? m->height - 1 - from_y : from_y;
			memcpy(to.rgb + 3 * ((size_t)y * (size_t)to.width + (size_t)x),
			       m->rgb + 3 * ((size_t)from_y * (size_t)m->width +
					     (size_t)from_x), 3);
		}
	image_deinit(m);
	*m = to;
	return OK;
}
