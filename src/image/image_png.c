/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG by libpng. Its errors come by longjmp. Colours are taken as they stand, as Pillow
 * takes them: gamma and colour profiles are not applied. Chunks other than pixels may need
 * memory of their own: CHUNK_BYTES bounds each chunk, CHUNKS their number.
 */
#include <build-config.h>

#include "image/image_format.h"

#ifdef HAVE_LIBPNG
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <png.h>

enum { CHUNK_BYTES = 1 << 20, CHUNKS = 256 };

struct png_reader {
	struct str left;
	int64_t worth;
	char text[100];
	struct image *out;
	png_bytep *rows;
};

static void stop(png_structp p, png_const_charp text)
{
	struct png_reader *r = png_get_error_ptr(p);
	snprintf(r->text, sizeof r->text, "%s", text);
	png_longjmp(p, 1);
}

static void warn(png_structp p, png_const_charp text)
{
}

static void image_png_take(png_structp p, png_bytep to, size_t n)
{
	struct png_reader *r = png_get_io_ptr(p);
	if (n > r->left.n)
		png_error(p, "the file ends early");
	memcpy(to, r->left.p, n);
	r->left = (struct str){r->left.p + n, r->left.n - n};
}

/* Makes libpng give any kind of PNG as eight bits of red, green, blue and, if the file has it,
 * opacity. */
static int set_format(png_structp p, png_infop info)
{
	png_set_expand(p);
	png_set_strip_16(p);
	png_set_gray_to_rgb(p);
	png_set_interlace_handling(p);
	png_read_update_info(p, info);
	return png_get_channels(p, info);
}

/* Each pixel is unfolded and scaled, and each byte of the file's rows is inflated and filtered.
 * Interlaced rows are filtered and unfolded once more for each of seven passes. */
static int64_t units_of(png_structp p, png_infop info)
{
	int64_t width = png_get_image_width(p, info), height = png_get_image_height(p, info);
	int64_t n_bytes = (int64_t)png_get_rowbytes(p, info) * height;
	bool is_interlaced = png_get_interlace_type(p, info) != PNG_INTERLACE_NONE;
	return (width * height + n_bytes / 2) * (is_interlaced ? 2 : 1);
}

static enum status image_png_run(png_structp p, png_infop info, struct png_reader *r,
				 const struct image_limits *l, struct fail *fail)
{
	if (setjmp(png_jmpbuf(p)))
		return fail_set(fail, E_INVAL, "the PNG image cannot be read: %s", r->text);
	png_set_user_limits(p, INT32_MAX, INT32_MAX);
	png_set_chunk_malloc_max(p, CHUNK_BYTES);
	png_set_chunk_cache_max(p, CHUNKS);
	png_set_read_fn(p, r, image_png_take);
	png_read_info(p, info);
	uint32_t width = png_get_image_width(p, info), height = png_get_image_height(p, info);
	enum status st = image_check_size(width, height, l, fail);
	if (st != OK)
		return st;
	st = image_pay(&r->worth, units_of(p, info), fail);
	if (st != OK)
		return st;
	int n_channels = set_format(p, info);
	if (n_channels != 3 && n_channels != 4)
		png_error(p, "an unknown kind of colour");
	st = image_alloc(r->out, (int32_t)width, (int32_t)height, n_channels, fail);
	if (st != OK)
		return st;
	r->rows = malloc(height * sizeof *r->rows);
	if (!r->rows)
		return fail_set(fail, E_NOMEM, "no memory for a PNG image");
	for (size_t y = 0; y < height; y++)
		r->rows[y] = r->out->rgb + y * width * (size_t)n_channels;
	png_read_image(p, r->rows);
	png_read_end(p, NULL);
	if (n_channels == 4)
		image_drop_alpha(r->out);
	return OK;
}

enum status image_png_decode(struct str file, const struct image_limits *l,
			     struct image *out, struct fail *fail)
{
	struct png_reader r = {.left = file, .worth = image_worth(file), .out = out};
	png_structp p = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, stop, warn);
	png_infop info = p ? png_create_info_struct(p) : NULL;
	enum status st = info ? image_png_run(p, info, &r, l, fail)
			      : fail_set(fail, E_NOMEM, "no memory for a PNG image");
	png_destroy_read_struct(&p, &info, NULL);
	free(r.rows);
	if (st != OK)
		image_deinit(out);
	return st;
}

#else

enum status image_png_decode(struct str file, const struct image_limits *l,
			     struct image *out, struct fail *fail)
{
	return fail_set(fail, E_UNSUPPORTED, "this halod was built without libpng");
}
#endif
