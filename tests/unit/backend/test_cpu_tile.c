/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU's fast decoding is weight_decode, bit for bit, from any block on.
 */
#include "backend/cpu/cpu_tile.h"

#include "backend/cpu/cpu_math.h"
#include "tests/tap.h"

static uint32_t state = 1;

static uint32_t random_bits(void)
{
	state = state * 1664525u + 1013904223u;
	return state >> 16 ^ state << 16;
}

static void fill(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)p)[i] = (unsigned char)random_bits();
}

static void check(const struct weight *w, const char *what)
{
	float want[1100], got[1100];
	int wrong = 0;
	for (int32_t row = 0; row < w->n; row++) {
		weight_decode(w, row, row + 1, want);
		for (int32_t k0 = 0; k0 < w->k; k0 += 104) {
			size_t n = (size_t)(w->k - k0 < 500 ? w->k - k0 : 500);
			cpu_tile_decode(w, row, k0, k0 + (int32_t)n, got);
			for (size_t i = 0; i < n; i++) /* NaN equals NaN */
				wrong += got[i] != want[(size_t)k0 + i] &&
					 !(isnan(got[i]) &&
					   isnan(want[(size_t)k0 + i]));
		}
	}
	is_int(wrong, 0, "%s", what);
}

static void test_int4(void)
{
	enum { N = 11, K = 960 };
	static uint32_t q[N * K / 8], zeros[2 * K / 8];
	static uint16_t scales[N * K / 8];
	static const int32_t groups[] = {8, 32, 40, 64, 96, 480, 960};
	fill(q, sizeof q);
	fill(zeros, sizeof zeros);
	for (size_t i = 0; i < N * K / 8; i++)
		scales[i] = (uint16_t)(random_bits() & 0xBFFF); /* finite in both */
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
		for (int asym = 0; asym < 2; asym++) {
			char what[80];
			struct weight w = {
				.quant = QUANT_INT4, .n = N, .k = K,
				.group = groups[i], .q = q, .scales = scales,
				.scale_type = i % 2 ? DTYPE_F16 : DTYPE_BF16,
				.zero_points = asym ? zeros : NULL};
			snprintf(what, sizeof what, "int4, group %d, %s%s", groups[i],
				 dtype_name(w.scale_type), asym ? ", asymmetric" : "");
			check(&w, what);
		}
	}
}

static void test_plain(void)
{
	enum { N = 3, K = 1093 };
	static union {
		uint16_t half[N * K];
		float f[N * K];
	} q;
	fill(&q, sizeof q);
	struct weight w = {.n = N, .k = K, .group = K, .q = &q};
	w.quant = QUANT_BF16;
	check(&w, "bf16, any bits");
	w.quant = QUANT_F16;
	check(&w, "f16, any bits");
	w.quant = QUANT_F32;
	check(&w, "f32, any bits");
	/* Every half there is. */
	static uint16_t all[65536];
	for (size_t i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	w = (struct weight){.quant = QUANT_F16, .n = 64, .k = 1024, .group = 1024,
			    .q = all};
	check(&w, "f16, every number");
}

static void test_exp(void)
{
	double worst = 0;
	for (double x = -87; x <= 88; x += 0.00137) {
		float f = (float)x;
		worst = worse_of(worst, fabs(vec4_exp(vec4_all(f))[1] / exp(f) - 1));
	}
	ok(worst < 2e-7, "exp: largest relative error %.2e", worst);
	is_near(vec4_exp(vec4_all(0))[0], 1, 0, "exp 0 is 1");
	ok(vec4_exp(vec4_all(-INFINITY))[2] < 2e-38, "exp of minus infinity is nothing");
	ok(isnan(vec4_exp(vec4_all(NAN))[3]), "exp of NaN is NaN");
	vec4 mixed = vec4_exp((vec4){1, -1, 1000, -1000});
	is_near(mixed[0], 2.718281828, 4e-7, "lanes do not mix: 1");
	is_near(mixed[1], 0.367879441, 1e-7, "lanes do not mix: -1");
	ok(mixed[2] > 1e38f && isfinite(mixed[2]), "large stays finite");
}

int main(void)
{
	test_int4();
	test_plain();
	test_exp();
	return tap_done();
}
