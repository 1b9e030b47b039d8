/* SPDX-License-Identifier: Apache-2.0
 *
 * First every row is resized, then every column. A pixel of the result is a weighted sum of the
 * source pixels near it. BICUBIC: within two pixels of the smaller picture, weighted by Keys'
 * cubic (Cubic Convolution Interpolation, 1981, with a = -0.5). BILINEAR: within one such
 * pixel, weighted by a triangle. Weights are integers of WEIGHT_BITS bits. Each of the two
 * sums is rounded to a byte. So results have the bits of Pillow's Image.resize.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "image/image_format.h"

enum { WEIGHT_BITS = 22 };

/* The source pixels and weights of each result pixel, along one axis. */
struct taps {
	int32_t n_max;
	int32_t *first, *n; /* (size of the result) */
	int32_t *weight;    /* (size of the result, n_max) */
};

static double cubic(double x)
{
	const double a = -0.5;
	x = fabs(x);
	if (x < 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	if (x < 2)
		return (((x - 5) * x + 8) * x - 4) * a;
	return 0;
}

static double triangle(double x)
{
	return fmax(1 - fabs(x), 0);
}

static const struct filter {
	double support; /* reach of the weights in pixels of the smaller picture */
	double (*at)(double x);
} filters[] = {[IMAGE_BICUBIC] = {2, cubic}, [IMAGE_BILINEAR] = {1, triangle}};

static int32_t to_fixed(double w)
{
	return (int32_t)(w * (1 << WEIGHT_BITS) + (w < 0 ? -0.5 : 0.5));
}

static void make_taps(int32_t from, int32_t to, const struct filter *f, struct taps *t)
{
	double scale = (double)from / to, stretch = fmax(scale, 1);
	double reach = f->support * stretch;
	t->n_max = (int32_t)ceil(reach) * 2 + 1;
	t->first = xmalloc((size_t)to * sizeof *t->first);
	t->n = xmalloc((size_t)to * sizeof *t->n);
	t->weight = xcalloc((size_t)to * (size_t)t->n_max, sizeof *t->weight);
	double *w = xmalloc((size_t)t->n_max * sizeof *w);
	for (int32_t i = 0; i < to; i++) {
		double center = (i + 0.5) * scale, sum = 0, per = 1 / stretch;
		int32_t first = MAX((int32_t)(center - reach + 0.5), 0);
		int32_t n = MIN((int32_t)(center + reach + 0.5), from) - first;
		for (int32_t k = 0; k < n; k++)
			sum += w[k] = f->at((k + first - center + 0.5) * per);
		for (int32_t k = 0; k < n; k++)
			t->weight[(size_t)i * (size_t)t->n_max + (size_t)k] =
				to_fixed(sum != 0 ? w[k] / sum : w[k]);
		t->first[i] = first;
		t->n[i] = n;
	}
	free(w);
}

static void free_taps(struct taps *t)
{
	free(t->first);
	free(t->n);
	free(t->weight);
}

/* The weighted sum of n pixels of one channel, `pitch` bytes apart. */
static uint8_t image_resize_weigh(const uint8_t *p, size_t pitch, const int32_t *weight, int32_t n)
{
	int32_t sum = 1 << (WEIGHT_BITS - 1);
	for (int32_t k = 0; k < n; k++)
		sum += p[(size_t)k * pitch] * weight[k];
	sum >>= WEIGHT_BITS;
	return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void run_rows(const struct image *m, const struct taps *t, struct image *out)
{
	for (size_t y = 0; y < (size_t)m->height; y++)
		for (size_t x = 0; x < (size_t)out->width; x++)
			for (size_t c = 0; c < 3; c++)
				out->rgb[3 * (y * (size_t)out->width + x) + c] = image_resize_weigh(
					m->rgb + 3 * (y * (size_t)m->width +
						      (size_t)t->first[x]) + c,
					3, t->weight + x * (size_t)t->n_max, t->n[x]);
}

static void run_columns(const struct image *m, const struct taps *t, struct image *out)
{
	size_t pitch = 3 * (size_t)m->width;
	for (size_t y = 0; y < (size_t)out->height; y++)
		for (size_t i = 0; i < pitch; i++)
			out->rgb[y * pitch + i] = image_resize_weigh(
				m->rgb + (size_t)t->first[y] * pitch + i, pitch,
				t->weight + y * (size_t)t->n_max, t->n[y]);
}

/* Resizes *m along one axis. *m is replaced, and its old pixels are freed. */
static enum status run_axis(struct image *m, int32_t size, bool is_width,
			    const struct filter *f)
{
	int32_t from = is_width ? m->width : m->height;
	struct image to;
	struct taps t;
	if (from == size)
		return OK;
	enum status st = image_alloc(&to, is_width ? size : m->width,
				     is_width ? m->height : size, 3, NULL);
	if (st != OK)
		return st;
	make_taps(from, size, f, &t);
	is_width ? run_rows(m, &t, &to) : run_columns(m, &t, &to);
	free_taps(&t);
	image_deinit(m);
	*m = to;
	return OK;
}

enum status image_resize(const struct image *m, int32_t width, int32_t height,
			 enum image_filter filter, struct image *out)
{
	enum status st = image_alloc(out, m->width, m->height, 3, NULL);
	if (st != OK)
		return st;
	memcpy(out->rgb, m->rgb, 3 * (size_t)m->width * (size_t)m->height);
	st = run_axis(out, width, true, &filters[filter]);
	if (st == OK)
		st = run_axis(out, height, false, &filters[filter]);
	if (st != OK)
		image_deinit(out);
	return st;
}
