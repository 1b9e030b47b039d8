/* SPDX-License-Identifier: Apache-2.0
 *
 * A vocabulary has 150,000 entries. The engine thread walks it once or twice for each token
 * of each stream. Scalar expf would cost more than half a millisecond a token. So the
 * passes run in four lanes (GCC vector types; plain SSE2 or NEON, no dispatch).
 *
 * libm's expf differs between machines in the last bit, and a last bit is enough
 * to draw another token. vec4_exp is therefore built from additions,
 * multiplications and integer shifts alone, which IEEE fixes; the library is
 * compiled with -ffp-contract=off so that no compiler fuses them. Sums are in
 * double, one accumulator a lane, folded in a fixed order.
 */
#include "sampler/softmax.h"

#include <math.h>
#include <string.h>

#include "base/vec4.h"

#define LANES 4
#define CHUNK 1024 /* floats of softmax_sum's scratch memory */
#define Z_MIN (-87.0f) /* exp(Z_MIN) is about the smallest normal float */

typedef double vec4d __attribute__((vector_size(32)));

/* The last n < LANES values, filled up with `pad`. */
static vec4 load_tail(const float *p, int32_t n, float pad)
{
	float t[LANES] = {pad, pad, pad, pad};
	memcpy(t, p, (size_t)n * sizeof *p);
	return vec4_load(t);
}

/* exp for z <= 0. Below Z_MIN the weight is 0: such a token can never be drawn. */
static vec4 softmax_weigh(vec4 z)
{
	return vec4_select(z < vec4_all(Z_MIN), vec4_all(0), vec4_exp(z));
}

bool softmax_max(const float *x, int32_t n, float *out_max)
{
	vec4 best = vec4_all(-INFINITY);
	vec4i sane = {-1, -1, -1, -1};
	int32_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		vec4 v = vec4_load(x + i);
		sane &= v == v;
		best = vec4_select(v > best, v, best);
	}
	if (i < n) {
		vec4 v = load_tail(x + i, n - i, -INFINITY);
		sane &= v == v;
		best = vec4_select(v > best, v, best);
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
	vec4d sum = {0, 0, 0, 0};
	int32_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		vec4 w = softmax_weigh((vec4_load(x + i) - vec4_all(max)) * vec4_all(inv_t));
		memcpy(out + i, &w, sizeof w);
		sum += __builtin_convertvector(w, vec4d);
	}
	if (i < n) {
		vec4 z = load_tail(x + i, n - i, -INFINITY) - vec4_all(max);
		vec4 w = softmax_weigh(z * vec4_all(inv_t));
		memcpy(out + i, &w, (size_t)(n - i) * sizeof *out);
		sum += __builtin_convertvector(w, vec4d);
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
