/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG by libjpeg-turbo. Its errors come by longjmp. A progressive file may have any number
 * of scans over all pixels, each of which costs time: MAX_SCANS bounds that.
 */
#include <build-config.h>

#include "image/image_format.h"

#ifdef HAVE_LIBJPEG
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <jerror.h>

enum { MAX_SCANS = 100, PIXELS_A_UNIT = 4, EXIF_BYTES = 65533 };

struct jpeg_reader {
	struct jpeg_decompress_struct jpeg;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf on_error;
	char text[JMSG_LENGTH_MAX];
	struct image *out;
	int64_t worth;
	int n_paid; /* scans */
	int orientation;
};

_Noreturn static void stop(j_common_ptr c)
{
	struct jpeg_reader *r = c->client_data;
	c->err->format_message(c, r->text);
	longjmp(r->on_error, 1);
}

/* A file that ends early would give an image whose rest is grey, so it is refused. Other
 * warnings are about damage that every viewer tolerates. */
static void warn(j_common_ptr c, int level)
{
	if (level < 0 && c->err->msg_code == JWRN_JPEG_EOF)
		stop(c);
}

static int64_t pixels_of(const struct jpeg_reader *r)
{
	return (int64_t)r->jpeg.image_width * r->jpeg.image_height;
}

static void count_scans(j_common_ptr c)
{
	struct jpeg_reader *r = c->client_data;
	while (r->n_paid < r->jpeg.input_scan_number) {
		r->n_paid++;
		if (image_pay(&r->worth, pixels_of(r) / PIXELS_A_UNIT, NULL) != OK)
			r->n_paid = MAX_SCANS + 1;
	}
	if (r->n_paid <= MAX_SCANS)
		return;
	snprintf(r->text, sizeof r->text, "it has too many scans");
	longjmp(r->on_error, 1);
}

static int orientation_of(const struct jpeg_reader *r)
{
	int found = 1;
	for (const struct jpeg_marker_struct *s = r->jpeg.marker_list; s && found == 1;
	     s = s->next)
		found = image_exif_orientation(
			(struct str){(const char *)s->data, s->data_length});
	return found;
}

/* Convert a pixel's four inks to three colours, in place. Adobe's files store inks inverted. */
static void drop_inks(const struct jpeg_reader *r, uint8_t *row)
{
	for (size_t x = 0; x < r->jpeg.output_width; x++) {
		unsigned flip = r->jpeg.saw_Adobe_marker ? 0 : 255;
		unsigned k = row[4 * x + 3] ^ flip;
		for (size_t c = 0; c < 3; c++)
			row[3 * x + c] = (uint8_t)(((row[4 * x + c] ^ flip) * k + 127) / 255);
	}
}

/* Read the pixels. The header has been read, and the size is allowed. */
static enum status read_rows(struct jpeg_reader *r, struct fail *fail)
{
	struct jpeg_decompress_struct *j = &r->jpeg;
	bool has_inks = j->num_components == 4;
	j->out_color_space = has_inks ? JCS_CMYK : JCS_RGB;
	jpeg_start_decompress(j);
	/* With four bytes a pixel, a row extends into the next row's place, which is written
	 * later. */
	enum status st = image_alloc(r->out, (int32_t)j->output_width,
				     (int32_t)j->output_height, has_inks ? 4 : 3, fail);
	while (st == OK && j->output_scanline < j->output_height) {
		uint8_t *row = r->out->rgb + 3 * (size_t)j->output_scanline * j->output_width;
		jpeg_read_scanlines(j, &row, 1);
		if (has_inks)
			drop_inks(r, row);
	}
	if (st == OK)
		jpeg_finish_decompress(j);
	return st;
}

static enum status image_jpeg_run(struct jpeg_reader *r, struct str file,
				  const struct image_limits *l, struct fail *fail)
{
	struct jpeg_decompress_struct *j = &r->jpeg;
	if (setjmp(r->on_error))
		return fail_set(fail, E_INVAL, "the JPEG image cannot be read: %s", r->text);
	jpeg_create_decompress(j);
	j->client_data = r;
	j->progress = &r->progress;
	jpeg_mem_src(j, (const unsigned char *)file.p, file.n);
	jpeg_save_markers(j, JPEG_APP0 + 1, EXIF_BYTES);
	jpeg_read_header(j, TRUE);
	r->orientation = orientation_of(r);
	enum status st = image_check_size(j->image_width, j->image_height, l, fail);
	if (st == OK)
		st = image_pay(&r->worth, 2 * pixels_of(r), fail);
	return st == OK ? read_rows(r, fail) : st;
}

enum status image_jpeg_decode(struct str file, const struct image_limits *l,
			      struct image *out, struct fail *fail)
{
	struct jpeg_reader r = {.out = out, .worth = image_worth(file)};
	r.jpeg.err = jpeg_std_error(&r.errors);
	r.errors.error_exit = stop;
	r.errors.emit_message = warn;
	r.progress.progress_monitor = count_scans;
	r.jpeg.client_data = &r;
	enum status st = image_jpeg_run(&r, file, l, fail);
	jpeg_destroy_decompress(&r.jpeg);
	if (st == OK)
		st = image_orient(out, r.orientation, fail);
	if (st != OK)
		image_deinit(out);
	return st;
}

#else

enum status image_jpeg_decode(struct str file, const struct image_limits *l,
			      struct image *out, struct fail *fail)
{
	return fail_set(fail, E_UNSUPPORTED, "this halod was built without libjpeg");
}
#endif
