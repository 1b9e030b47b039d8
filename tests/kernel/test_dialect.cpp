/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect of the kernels against plain arithmetic in double. Built twice from one
 * source: for fibers (make check), and for an NVIDIA GPU by
 *   nvcc -x cu -arch=sm_90 -std=c++17 -I. -Isrc \
 *       -DDIALECT='"tests/hip-on-cuda/dialect_cuda.h"' tests/kernel/test_dialect.cpp
 * Numbers include subnormal halves, powers of two far apart and outliers.
 */
#include "tests/kernel/dialect_kernels.hip"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __CUDACC__
#define RUN(grid, threads, kernel, ...) \
	(kernel<<<grid, threads>>>(__VA_ARGS__), cudaDeviceSynchronize() != cudaSuccess \
		? (printf("Bail out! %s\n", cudaGetErrorString(cudaGetLastError())), \
		   abort()) : (void)0)
static void *take(size_t n_bytes)
{
	void *p;
	if (cudaMallocManaged(&p, n_bytes) != cudaSuccess)
		abort();
	memset(p, 0, n_bytes);
	return p;
}
static const char *const where = "GPU";
#else
#include "tests/hip-on-cpu/fiber.h"
#include <vector>

template <class F> static void enter(void *f)
{
	(*(F *)f)();
}

static bool is_reversed;

template <class F> static void run(uint32_t grid, uint32_t threads, F f)
{
	struct fiber_launch l = {grid, 1, threads, 0, is_reversed, enter<F>, &f};
	fiber_run(&l);
}
#define RUN(grid, threads, kernel, ...) run(grid, threads, [&] { kernel(__VA_ARGS__); })
static std::vector<void *> taken;
static void *take(size_t n_bytes)
{
	taken.push_back(calloc(1, n_bytes));
	return taken.back();
}
static const char *const where = "fibers";
#endif

static int n_done, n_bad;

static void ok(bool pass, const char *what, double worst)
{
	printf("%sok %d - %s: %s: worst %.1e\n", pass ? "" : "not ", ++n_done, where,
	       what, worst);
	n_bad += !pass;
}

static uint64_t noise_state = 20240229;

static uint32_t noise_bits()
{
	noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(noise_state >> 33);
}

/* -1..1, some of them 2^-20 to 2^4 times that. */
static float noise(int i)
{
	float x = (float)noise_bits() * 0x1p-30f - 1;
	return i % 7 == 3 ? ldexpf(x, (int)(noise_bits() % 25) - 20) : x;
}

/* --- halves on the host, by definition ------------------------------------------- */

static double value_of(bool is_bf16, uint32_t h)
{
	int bits = is_bf16 ? 7 : 10, bias = is_bf16 ? 127 : 15;
	int exponent = (int)(h >> bits & (is_bf16 ? 255 : 31));
	double fraction = (double)(h & ((1u << bits) - 1)) * ldexp(1, -bits);
	double x = exponent ? ldexp(1 + fraction, exponent - bias)
			    : ldexp(fraction, 1 - bias);
	return h & 0x8000 ? -x : x;
}

/* The nearest, of two as near the even: by search over all. */
static uint16_t nearest(bool is_bf16, double x)
{
	uint32_t top = is_bf16 ? 0x7F80 : 0x7C00, low = 0, high = top;
	double size = fabs(x), limit = ldexp(2, is_bf16 ? 127 : 15); /* infinity's place */
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	while (high - low > 1) {
		uint32_t mid = (low + high) / 2;
		(value_of(is_bf16, mid) <= size ? low : high) = mid;
	}
	double under = size - value_of(is_bf16, low);
	double over = (high == top ? limit : value_of(is_bf16, high)) - size;
	return sign | (uint16_t)(under < over || (under == over && low % 2 == 0) ? low : high);
}

/* --- tests ------------------------------------------------------------------------ */

struct worst {
	double error = 0;
	/* error of got, in units of size */
	void see(double got, double want, double size)
	{
		double e = fabs(got - want) / (size > 0 ? size : 1);
		error = e <= error ? error : isnan(e) ? INFINITY : e;
	}
};

static void test_tile(bool is_bf16)
{
	uint16_t *a = (uint16_t *)take(512), *b = (uint16_t *)take(512);
	float *c = (float *)take(1024), *out = (float *)take(2 * 2 * 1024);
	for (int i = 0; i < 256; i++) {
		a[i] = nearest(is_bf16, noise(i));
		b[i] = nearest(is_bf16, noise(i + 1));
		c[i] = noise(i);
	}
	a[17] = 0x0003; /* subnormal, at a large number */
	b[16 + 5] = nearest(is_bf16, 1000);
	if (is_bf16)
		RUN(1, 64, dialect_tile_bf16_kernel, a, b, c, out);
	else
		RUN(1, 64, dialect_tile_f16_kernel, a, b, c, out);
	struct worst worst[2];
	for (int i = 0; i < 2 * 256; i++) {
		int r = i % 256 / 16, col = i % 16, at = i % 256;
		double want = c[at], size = fabs(want);
		for (int k = 0; k < 16; k++) {
			double x = value_of(is_bf16, a[r * 16 + k]) *
				   value_of(is_bf16, b[k * 16 + col]);
			want += x;
			size += fabs(x);
		}
		for (int o = 0; o < 2; o++)
			worst[o].see(out[(i / 256 * 2 + o) * 256 + at], want, size);
	}
	for (int o = 0; o < 2; o++) {
		char what[80];
		snprintf(what, sizeof what, "%s tile, B by %s", is_bf16 ? "bf16" : "f16",
			 o ? "rows" : "columns");
		ok(worst[o].error < 3e-6, what, worst[o].error);
	}
}

static void test_scores()
{
	uint16_t *q = (uint16_t *)take(512), *k = (uint16_t *)take(512), *v = (uint16_t *)take(512);
	float *out = (float *)take(2 * SCORES_OUTS * 1024);
	for (int i = 0; i < 256; i++) {
		q[i] = nearest(false, noise(i));
		k[i] = nearest(false, noise(i + 1));
		v[i] = nearest(false, noise(i + 2));
	}
	q[17] = 0x0003; /* subnormal, at a large number */
	k[16 * 5 + 1] = nearest(false, 1000);
	RUN(1, 64, dialect_scores_kernel, q, k, v, out);
	struct worst scores, sums, most, values;
	for (int i = 0; i < 2 * 256; i++) {
		const float *wave = out + i / 256 * SCORES_OUTS * 256;
		int query = i % 256 / 16, other = i % 16, at = i % 256;
		const float *got = wave + SCORES_OUT * 256 + query * 16;
		double want = 0, size = 0, sum = 0, next = 0, next_size = 0;
		float largest = got[0];
		for (int n = 0; n < 16; n++) {
			double x = value_of(false, q[query * 16 + n]) *
				   value_of(false, k[other * 16 + n]);
			want += x;
			size += fabs(x);
			sum += got[n];
			largest = got[n] > largest ? got[n] : largest;
			x = value_of(false, nearest(false, got[n])) *
			    value_of(false, v[other * 16 + n]);
			next += x;
			next_size += fabs(x);
		}
		scores.see(got[other], want, size);
		sums.see(wave[SCORES_OUT_SUM * 256 + at], sum, fabs(sum) + 1);
		most.see(wave[SCORES_OUT_MAX * 256 + at], largest, 1);
		values.see(wave[SCORES_OUT_VALUES * 256 + at], next, next_size);
	}
	ok(scores.error < 3e-6, "scores of queries and keys", scores.error);
	ok(sums.error < 1e-5, "their sums over positions", sums.error);
	ok(most.error == 0, "their largest", most.error);
	ok(values.error < 3e-6, "they as weights of values", values.error);
}

static void test_pairs()
{
	enum { N = 1024 };
	uint32_t *a = (uint32_t *)take(N * 4), *b = (uint32_t *)take(N * 4);
	float *c = (float *)take(N * 4), *out = (float *)take(N * 16);
	for (int i = 0; i < N; i++) {
		a[i] = nearest(false, noise(i)) | (uint32_t)nearest(false, noise(i + 2)) << 16;
		b[i] = nearest(false, noise(i + 3)) | (uint32_t)nearest(false, noise(i + 1)) << 16;
		c[i] = noise(i + 5);
	}
	RUN(N / 32, 32, dialect_pairs_kernel, a, b, c, out);
	struct worst dots[2], pairs;
	for (int i = 0; i < N; i++) {
		for (int f = 0; f < 2; f++) {
			double lo = value_of(f, a[i] & 0xFFFF) * value_of(f, b[i] & 0xFFFF);
			double hi = value_of(f, a[i] >> 16) * value_of(f, b[i] >> 16);
			dots[f].see(out[i * 4 + f], lo + hi + c[i],
				    fabs(lo) + fabs(hi) + fabs(c[i]));
		}
		uint32_t got[2];
		memcpy(got, out + i * 4 + 2, sizeof got);
		for (int s = 0; s < 32; s += 16) {
			double x = value_of(false, a[i] >> s & 0xFFFF);
			double y = value_of(false, b[i] >> s & 0xFFFF);
			uint16_t want[2] = {nearest(false, x - y), nearest(false, x * y + x)};
			for (int j = 0; j < 2; j++) /* the zero's sign is free */
				pairs.see((uint16_t)(got[j] >> s), want[j],
					  want[j] & 0x7FFF || got[j] >> s & 0x7FFF ? 1 : 1e9);
		}
	}
	ok(dots[0].error < 2e-7, "dot2_f16", dots[0].error);
	ok(dots[1].error < 2e-7, "dot2_bf16", dots[1].error);
	ok(pairs.error < 1e-4, "sub2_f16 and fma2_f16 round once", pairs.error);
}

static void test_waves()
{
	enum { GROUPS = 3, N = GROUPS * 64 };
	float *x = (float *)take(N * 4), *out = (float *)take(N * WAVE_OUTS * 4);
	uint32_t *total = (uint32_t *)take(8);
	for (int i = 0; i < N; i++)
		x[i] = noise(i);
	x[40] = x[45] = 5000; /* equals: the lower id */
	x[70] = NAN;          /* below every number, and not above zero */
	RUN(GROUPS, 64, dialect_waves_kernel, x, out, total);
	struct worst sums, others;
	for (int i = 0; i < N; i++) {
		int wave = i / 32 * 32, best = wave;
		uint32_t ballot = 0, got[WAVE_OUTS];
		double sum = 0, eight = 0;
		for (int l = 0; l < 32; l++) {
			float v = x[wave + l];
			ballot |= (uint32_t)(v > 0) << l;
			sum += v;
			eight += l / 8 == i % 32 / 8 ? v : 0;
			best = v > x[best] ? wave + l : best;
		}
		const float *o = out + i * WAVE_OUTS;
		memcpy(got, o, sizeof got);
		if (wave != 64) { /* where the NaN is */
			sums.see(o[0], sum, 1000);
			sums.see(o[1], eight, 1000);
			others.see(o[3], x[wave + (i % 32 * 5 + 3) % 32], 1);
		}
		others.see(got[2], ballot, 1);
		others.see(got[4], best % 64, 1);
	}
	ok(sums.error < 1e-6, "wave_sum and lanes_sum", sums.error);
	ok(others.error == 0, "wave_ballot, wave_shuffle, wave_best", others.error);
	ok(total[0] == GROUPS * 64 * 63 / 2 && total[1] == GROUPS * 2,
	   "atomic_add of all threads", fabs((double)total[0] - GROUPS * 64 * 63 / 2));
}

static void test_group()
{
	enum { GROUPS = 5, N = GROUPS * 96 };
	float *x = (float *)take(N * 4), *sum = (float *)take(GROUPS * 4);
	float *handed = (float *)take(N * 4);
	uint16_t *halves = (uint16_t *)take(N * 4);
	for (int i = 0; i < N; i++)
		x[i] = noise(i) * (i % 11 == 0 ? 1e5f : 1);
	x[1] = 65519.99f;           /* the largest that is no infinite half */
	x[2] = 65520;               /* and the first that is */
	x[3] = ldexpf(3, -25);      /* halfway between subnormals */
	x[4] = ldexpf(1, -25);
	x[5] = 1 + ldexpf(1, -8);   /* halfway between bf16 */
	x[6] = 1 + 3 * ldexpf(1, -8);
	x[7] = -0.0f;
	RUN(GROUPS, 96, dialect_group_kernel, x, sum, handed, halves);
	struct worst sums, handing, rounding;
	for (int i = 0; i < N; i++) {
		double want = 0, size = 0;
		for (int j = 0; j < 96; j++) {
			want += x[i / 96 * 96 + j];
			size += fabs((double)x[i / 96 * 96 + j]);
		}
		sums.see(sum[i / 96], want, size);
		handing.see(handed[i], x[i / 96 * 96 + (i % 96 ^ 1)], 1);
		rounding.see(halves[i * 2], nearest(false, x[i]), 1);
		rounding.see(halves[i * 2 + 1], nearest(true, x[i]), 1);
	}
	ok(sums.error < 1e-6, "group_sum", sums.error);
	ok(handing.error == 0, "wave_barrier", handing.error);
	ok(rounding.error == 0, "f32_to_f16 and f32_to_bf16", rounding.error);
}

int main()
{
	for (int i = 0; i < 2; i++) {
#ifndef __CUDACC__
		is_reversed = i;
#endif
		test_tile(false);
		test_tile(true);
		test_scores();
		test_pairs();
		test_waves();
		test_group();
	}
#ifndef __CUDACC__
	for (void *p : taken)
		free(p);
#endif
	printf("1..%d\n", n_done);
	return n_bad > 0;
}
