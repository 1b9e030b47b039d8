/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame is 400 samples under a periodic Hann window. Its power at each of 201 frequencies goes
 * through triangular filters, spaced as Slaney's Auditory Toolbox (1998) spaces them, and becomes
 * a logarithm. What is 80 dB below the loudest value of the whole is raised to there.
 *
 * The transform splits 400 = 20 * 20 (Cooley and Tukey, 1965): sample 20 a + b, frequency
 * c + 20 d. With w = exp(-2 pi i / 400):
 *
 *   X[c + 20 d] = sum over b of (w^20)^(b d) * w^(b c) * sum over a of (w^20)^(a c) * x[20 a + b]
 *
 * Samples are real, so c = 0 to 10 suffices: X[400 - k] is the conjugate of X[k]. All is in
 * double: a float's rounding would show in frames with 80 dB between loud and quiet.
 */
#include "audio/mel.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { SPAN = 400, N = 20, N_BINS = SPAN / 2 + 1, HALF = N / 2 + 1 };

/* --- tables, made once ------------------------------------------------------- */

static struct {
	double window[SPAN];
	double cos20[N], sin20[N];             /* (w^20)^i = cos20 + i sin20 */
	double twist_re[N][HALF], twist_im[N][HALF]; /* w^(b c) */
} table;

static void make_table(void)
{
	for (int i = 0; i < SPAN; i++)
		table.window[i] = 0.5 - 0.5 * cos(2 * M_PI * i / SPAN);
	for (int i = 0; i < N; i++) {
		table.cos20[i] = cos(2 * M_PI * i / N);
		table.sin20[i] = -sin(2 * M_PI * i / N);
		for (int c = 0; c < HALF; c++) {
			table.twist_re[i][c] = cos(2 * M_PI * i * c / SPAN);
			table.twist_im[i][c] = -sin(2 * M_PI * i * c / SPAN);
		}
	}
}

/* --- filters ------------------------------------------------------------------ */

struct filter {
	int first, n;           /* frequencies that it hears */
	double weights[N_BINS]; /* (n) */
};

/* Linear up to 1000 Hz, then logarithmic. */
static double hz_of_mel(double mel)
{
	return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

static void make_filters(struct filter *out, int n)
{
	double top = 15 + 27 * log(AUDIO_RATE / 2 / 1000.0) / log(6.4);
	for (int i = 0; i < n; i++) {
		double low = hz_of_mel(top * i / (n + 1));
		double mid = hz_of_mel(top * (i + 1) / (n + 1));
		double high = hz_of_mel(top * (i + 2) / (n + 1));
		struct filter *f = &out[i];
		*f = (struct filter){0};
		for (int k = 0; k < N_BINS; k++) {
			double hz = (double)k * AUDIO_RATE / SPAN;
			double w = MIN((hz - low) / (mid - low), (high - hz) / (high - mid));
			if (w <= 0)
				continue;
			if (f->n == 0)
				f->first = k;
			f->weights[f->n++] = w * 2 / (high - low);
		}
	}
}

/* --- a frame -------------------------------------------------------------------- */

/* The inner sums, turned by w^(b c). */
static void sum_inner(const double *x, double re[N][HALF], double im[N][HALF])
{
	for (int c = 0; c < HALF; c++) {
		double r[N] = {0}, m[N] = {0};
		for (int a = 0; a < N; a++) {
			double cos_ac = table.cos20[a * c % N], sin_ac = table.sin20[a * c % N];
			for (int b = 0; b < N; b++) {
				r[b] += cos_ac * x[N * a + b];
				m[b] += sin_ac * x[N * a + b];
			}
		}
		for (int b = 0; b < N; b++) {
			double tr = table.twist_re[b][c], ti = table.twist_im[b][c];
			re[b][c] = r[b] * tr - m[b] * ti;
			im[b][c] = r[b] * ti + m[b] * tr;
		}
	}
}

/* x: (SPAN) samples under the window. power: (N_BINS) |X|^2. */
static void transform(const double *x, double *power)
{
	double re[N][HALF], im[N][HALF];
	sum_inner(x, re, im);
	for (int d = 0; d < N; d++) {
		double r[HALF] = {0}, m[HALF] = {0};
		for (int b = 0; b < N; b++) {
			double cos_bd = table.cos20[b * d % N], sin_bd = table.sin20[b * d % N];
			for (int c = 0; c < HALF; c++) {
				r[c] += re[b][c] * cos_bd - im[b][c] * sin_bd;
				m[c] += re[b][c] * sin_bd + im[b][c] * cos_bd;
			}
		}
		for (int c = 0; c < HALF; c++) {
			int k = c + N * d;
			power[k < N_BINS ? k : SPAN - k] = r[c] * r[c] + m[c] * m[c];
		}
	}
}

/* Sample i, mirrored at both ends of the audio: -1 is sample 1. */
static double sample_at(const struct audio *a, int64_t i)
{
	i = i < 0 ? -i : i;
	return a->samples[i < a->n ? i : 2 * (a->n - 1) - i];
}

static void read_frame(const struct audio *a, int64_t frame, double *x)
{
	int64_t from = frame * MEL_HOP - SPAN / 2;
	if (from >= 0 && from + SPAN <= a->n)
		for (int i = 0; i < SPAN; i++)
			x[i] = table.window[i] * a->samples[from + i];
	else
		for (int i = 0; i < SPAN; i++)
			x[i] = table.window[i] * sample_at(a, from + i);
}

/* Writes frame t, as logarithms. Returns the largest. */
static float add_frame(const struct mel *m, const struct filter *filters, const double *power,
		       int32_t t)
{
	float most = -INFINITY;
	for (int32_t i = 0; i < m->n_bands; i++) {
		const struct filter *f = &filters[i];
		double sum = 0;
		for (int k = 0; k < f->n; k++)
			sum += f->weights[k] * power[f->first + k];
		float v = (float)log10(MAX(sum, 1e-10));
		m->rows[(size_t)i * (size_t)m->n_frames + (size_t)t] = v;
		most = MAX(most, v);
	}
	return most;
}

enum status mel_compute(const struct audio *a, int32_t n_bands, struct mel *out,
			struct fail *fail)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_table);
	*out = (struct mel){.n_bands = n_bands, .n_frames = (int32_t)(a->n / MEL_HOP)};
	size_t n = (size_t)n_bands * (size_t)out->n_frames;
	struct filter *filters = xmalloc((size_t)n_bands * sizeof *filters);
	if (audio_hold(a->held, (int64_t)(n * sizeof *out->rows))) {
		out->held = (int64_t)(n * sizeof *out->rows);
		out->rows = alloc_try(NULL, n * sizeof *out->rows);
	}
	if (!out->rows) {
		mel_deinit(out);
		free(filters);
		return fail_set(fail, E_NOMEM, "no memory for the audio now: try again later");
	}
	make_filters(filters, n_bands);
	float most = -INFINITY;
	for (int32_t t = 0; t < out->n_frames; t++) {
		double x[SPAN], power[N_BINS];
		read_frame(a, t, x);
		transform(x, power);
		most = MAX(most, add_frame(out, filters, power, t));
	}
	for (size_t i = 0; i < n; i++)
		out->rows[i] = (MAX(out->rows[i], most - 8) + 4) / 4;
	free(filters);
	return OK;
}

void mel_deinit(struct mel *m)
{
	audio_let(m->held);
	free(m->rows);
	*m = (struct mel){0};
}
