/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of each format against Pillow's pixels (tests/golden/images), and what is refused:
 * before its pixels have memory, and cut anywhere.
 */
#include <build-config.h>

#include "image/image.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/work.h"
#include "tests/tap.h"

static const struct image_limits wide = {.max_bytes = 1 << 20, .max_side = 4096,
					 .max_pixels = 1 << 20};

static void read_golden(const char *name, struct buf *out)
{
	char *path = xasprintf("%s/tests/golden/images/%s", getenv("HALOD_SRCDIR") ?: ".",
			       name);
	struct fail fail;
	if (file_read(path, 1 << 20, out, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	free(path);
}

/* P6, width, height, 255. */
static uint8_t *read_ppm(const char *name, struct buf *b, int *w, int *h)
{
	int at = 0;
	read_golden(name, b);
	if (sscanf(b->p, "P6 %d %d 255%n", w, h, &at) != 2)
		return NULL;
	return (uint8_t *)b->p + at + 1;
}

/* The largest difference of two images, 256 where their sizes differ. */
static int difference(const struct image *m, const char *ppm)
{
	struct buf b = {0};
	int w = 0, h = 0, most = 0;
	const uint8_t *want = read_ppm(ppm, &b, &w, &h);
	if (!want || w != m->width || h != m->height)
		most = 256;
	for (size_t i = 0; most < 256 && i < 3 * (size_t)w * (size_t)h; i++)
		most = MAX(most, abs(want[i] - m->rgb[i]));
	buf_deinit(&b);
	return most;
}

static const struct {
	const char *name, *ext;
	int may; /* libraries of other versions round differently */
} files[] = {
#ifdef HAVE_LIBJPEG
	{"baseline", "jpg", 1}, {"progressive", "jpg", 1}, {"gray", "jpg", 1},
	{"cmyk", "jpg", 2}, {"turned2", "jpg", 1}, {"turned3", "jpg", 1},
	{"turned4", "jpg", 1}, {"turned5", "jpg", 1}, {"turned6", "jpg", 1},
	{"turned7", "jpg", 1}, {"turned8", "jpg", 1},
#endif
#ifdef HAVE_LIBPNG
	{"rgb", "png", 0}, {"wide", "png", 0}, {"rgba", "png", 1}, {"luma", "png", 0},
	{"palette", "png", 0}, {"holes", "png", 0}, {"deep", "png", 0}, {"interlaced", "png", 0},
#endif
#ifdef HAVE_LIBWEBP
	{"lossy", "webp", 1}, {"lossless", "webp", 0}, {"alpha", "webp", 1},
#endif
	{NULL, NULL, 0},
};

/* Every third cut of the file must be refused, with words. */
static bool refuses_cuts(struct str file)
{
	for (size_t n = 0; n + 2 < file.n; n += 3) {
		struct image m;
		struct fail fail = {0};
		struct str cut = {xmalloc(n + 1), n}; /* a reader that runs over is seen */
		memcpy((char *)cut.p, file.p, n);
		enum status st = image_decode(cut, &wide, &m, &fail);
		free((char *)cut.p);
		if (st == OK)
			image_deinit(&m);
		/* Ends of PNG and JPEG files that hold no pixels may be missing. */
		if (st == OK ? n + 16 < file.n : !fail.text[0])
			return false;
	}
	return true;
}

static void test_file(const char *name, const char *ext, int may)
{
	struct buf b = {0};
	struct image m;
	struct fail fail = {0};
	char *path = xasprintf("%s.%s", name, ext);
	char *ppm = xasprintf("%s.ppm", name);
	read_golden(path, &b);
	enum status st = image_decode(buf_str(&b), &wide, &m, &fail);
	if (ok(st == OK, "%s is read: %s", path, fail.text)) {
		int d = difference(&m, ppm);
		ok(d <= may, "%s differs from Pillow's pixels by %d, at most %d", path, d, may);
		image_deinit(&m);
	}
	ok(refuses_cuts(buf_str(&b)), "%s is refused wherever it is cut", path);
	free(path);
	free(ppm);
	buf_deinit(&b);
}

static void test_limits(const char *name, enum status want, const struct image_limits *l,
			const char *what)
{
	struct buf b = {0};
	struct image m;
	struct fail fail = {0};
	read_golden(name, &b);
	enum status st = image_decode(buf_str(&b), l, &m, &fail);
	ok(st == want && fail.text[0], "%s: %s: %s", name, what, fail.text);
	if (st == OK)
		image_deinit(&m);
	buf_deinit(&b);
}

static void test_refused(void)
{
	struct image m;
	struct fail fail = {0};
	ok(image_decode(STR(""), &wide, &m, &fail) == E_INVAL, "nothing is no image");
	ok(image_decode(STR("GIF89a"), &wide, &m, &fail) == E_INVAL, "nor is a GIF");
	ok(image_decode(STR("RIFF1234WAVE"), &wide, &m, &fail) == E_INVAL, "nor a WAVE");
#ifdef HAVE_LIBPNG
	test_limits("huge.png", E_LIMIT, &wide, "60000 pixels a side");
	test_limits("huge.png", E_LIMIT,
		    &(struct image_limits){.max_pixels = 1 << 20}, "3.6 thousand million pixels");
	test_limits("rgb.png", E_LIMIT, &(struct image_limits){.max_bytes = 100}, "bytes");
	test_limits("rgb.png", E_LIMIT, &(struct image_limits){.max_pixels = 37 * 23 - 1},
		    "one pixel less");
	test_limits("rgb.png", E_LIMIT, &(struct image_limits){.max_side = 36}, "its width");
#endif
#ifdef HAVE_LIBJPEG
	test_limits("gray.jpg", E_LIMIT, &(struct image_limits){.max_side = 36}, "its width");
#endif
#ifdef HAVE_LIBWEBP
	test_limits("lossy.webp", E_LIMIT, &(struct image_limits){.max_side = 36}, "its width");
	test_limits("moving.webp", E_UNSUPPORTED, &wide, "animated");
#endif
}

/* Units of a request's budget that are left of n behind this file; -1: it was refused. */
static long left_of(const char *name, size_t n)
{
	struct buf b = {0};
	struct image m;
	struct fail fail = {0};
	struct work_budget w;
	read_golden(name, &b);
	work_begin(&w, n);
	enum status st = image_decode(buf_str(&b), &(struct image_limits){0}, &m, &fail);
	work_end();
	if (st == OK)
		image_deinit(&m);
	else
		ok(st == E_LIMIT && w.is_over, "%s: beyond the budget: %s", name, fail.text);
	buf_deinit(&b);
	return st == OK ? (long)w.left : -1;
}

static void test_budget(void)
{
#ifdef HAVE_LIBPNG
	is_int(left_of("huge.png", 75000000), -1, "3.6 thousand million pixels in few bytes");
	is_int(left_of("rgb.png", 1000), 1000, "a file with as many bytes as pixels costs nothing");
#endif
#ifdef HAVE_LIBJPEG
	is_int(left_of("progressive.jpg", 1000), 1000, "nor does a photo");
#endif
#ifdef HAVE_LIBWEBP
	is_int(left_of("lossless.webp", 1000), 1000, "nor a WebP");
#endif
}

static void test_resize(void)
{
	struct buf b = {0}, list = {0};
	int w, h, n = 0;
	uint8_t *rgb = read_ppm("rgb.ppm", &b, &w, &h);
	const struct image m = {w, h, rgb};
	read_golden("resize.tsv", &list);
	for (const char *line = list.p; *line; line = strchr(line, '\n') + 1) {
		char name[64];
		struct image to;
		if (sscanf(line, "%d %d %63s", &w, &h, name) != 3)
			break;
		enum image_filter filter = strstr(name, "bilinear") ? IMAGE_BILINEAR
								    : IMAGE_BICUBIC;
		ok(image_resize(&m, w, h, filter, &to) == OK, "resized to %d x %d", w, h);
		is_int(difference(&to, name), 0, "%s has Pillow's bits", name);
		image_deinit(&to);
		n++;
	}
	ok(n >= 14, "%d sizes", n);
	buf_deinit(&b);
	buf_deinit(&list);
}

int main(void)
{
	for (size_t i = 0; files[i].name; i++)
		test_file(files[i].name, files[i].ext, files[i].may);
	test_refused();
	test_budget();
	test_resize();
	return tap_done();
}
