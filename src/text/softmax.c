/* SPDX-License-Identifier: Apache-2.0
 *
 * A vocabulary has 150,000 entries and is walked once or twice for each token of
 * each stream, on the engine thread: scalar expf would cost more than half a
 * millisecond a token. So the passes run in four lanes (GCC vector types; plain
 * SSE2 or NEON, no dispatch).
 *
 * libm's expf differs between machines in the last bit, and a last bit is enough
 * to draw another token. exp4 is therefore built from additions,
 * multiplications and integer shifts alone, which IEEE fixes; the library is
 * compiled with -ffp-contract=off so that no compiler fuses them. Sums are in
 * double, one accumulator a lane, folded in a fixed order.
 */
#include "text/softmax.h"

#include <math.h>
#include <string.h>

#define LANES 4
#define CHUNK 1024 /* softmax_sum's scratch, floats */
#define Z_MIN (-87.0f) /* exp of it is the last normal float */

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef double v4d __attribute__((vector_size(32)));

static v4f load(const float *p)
{
	v4f v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* The last n < LANES values, filled up with `pad`. */
static v4f load_tail(const float *p, int32_t n, float pad)
{
	float t[LANES] = {pad, pad, pad, pad};
	memcpy(t, p, (size_t)n * sizeof *p);
	return load(t);
}

static v4f splat(float x)
{
	return (v4f){x, x, x, x};
}

static v4f select4(v4i mask, v4f yes, v4f no)
{
	return (v4f)((mask & (v4i)yes) | (~mask & (v4i)no));
}

/* exp for z <= 0: z = k ln 2 + r with |r| <= ln(2)/2, Taylor in r (the first
 * left-out term is below 1e-8), then k into the exponent. */
static v4f exp4(v4f z)
{
	const v4f magic = splat(12582912.0f); /* 1.5 * 2^23: rounds to integer */
	v4i gone = z < splat(Z_MIN);
	z = select4(gone, splat(Z_MIN), z);
	v4f t = z * splat(1.44269504f) + magic;
	v4i k = (v4i)t - (v4i)magic;
	v4f kf = t - magic;
	/* ln 2 in two parts: kf times the first is exact. */
	v4f r = z - kf * splat(0.693359375f);
	r = r - kf * splat(-2.12194440e-4f);
	v4f p = splat(1.0f / 5040);
	p = p * r + splat(1.0f / 720);
	p = p * r + splat(1.0f / 120);
	p = p * r + splat(1.0f / 24);
	p = p * r + splat(1.0f / 6);
	p = p * r + splat(0.5f);
	p = p * r + splat(1.0f);
	p = p * r + splat(1.0f);
	v4f y = p * (v4f)((k + 127) << 23);
	return select4(gone, splat(0), y);
}

bool softmax_max(const float *x, int32_t n, float *out_max)
{
	v4f best = splat(-INFINITY);
	v4i sane = {-1, -1, -1, -1};
	int32_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		v4f v = load(x + i);
		sane &= v == v;
		best = select4(v > best, v, best);
	}
	if (i < n) {
		v4f v = load_tail(x + i, n - i, -INFINITY);
		sane &= v == v;
		best = select4(v > best, v, best);
	}
	float max = -INFINITY;
	bool is_sane = true;
	for (int l = 0; l < LANES; l++) {
		max = best[l] > max ? best[l] : max;
		is_sane = is_sane && sane[l];
	}
	if (!is_sane || !isfinite(max))
		return false;
	*out_max = max;
	return true;
}

double softmax_weights(const float *x, int32_t n, float max, float inv_t,
		       float *out)
{
	v4d sum = {0, 0, 0, 0};
	int32_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		v4f w = exp4((load(x + i) - splat(max)) * splat(inv_t));
		memcpy(out + i, &w, sizeof w);
		sum += __builtin_convertvector(w, v4d);
	}
	if (i < n) {
		v4f z = load_tail(x + i, n - i, -INFINITY) - splat(max);
		v4f w = exp4(z * splat(inv_t));
		memcpy(out + i, &w, (size_t)(n - i) * sizeof *out);
		sum += __builtin_convertvector(w, v4d);
	}
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

double softmax_sum(const float *x, int32_t n, float max)
{
	float w[CHUNK];
	double sum = 0;
	for (int32_t i = 0; i < n; i += CHUNK)
		sum += softmax_weights(x + i, n - i < CHUNK ? n - i : CHUNK, max,
				       1.0f, w);
	return sum;
}
