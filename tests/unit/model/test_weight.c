/* SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/blocks.h"

#include <math.h>
#include <stdlib.h>

#include "model/formats/weight_int8.h"
#include "tests/tap.h"

static void test_numbers(void)
{
	is_near(blocks_f16(0x3C00), 1, 0, "f16 one");
	is_near(blocks_f16(0xC000), -2, 0, "f16 minus two");
	is_near(blocks_f16(0x7BFF), 65504, 0, "the largest f16");
	is_near(blocks_f16(0x0001), 0x1p-24, 0, "the smallest f16");
	is_near(blocks_f16(0x83FF), -1023 * 0x1p-24, 0, "a negative subnormal");
	is_near(blocks_f16(0x0400), 0x1p-14, 0, "the smallest normal f16");
	ok(isinf(blocks_f16(0xFC00)) && blocks_f16(0xFC00) < 0, "f16 infinity");
	ok(isnan(blocks_f16(0x7E01)), "f16 NaN");
	ok(signbit(blocks_f16(0x8000)) && blocks_f16(0x8000) == 0, "minus zero");
	is_near(blocks_bf16(0x3F80), 1, 0, "bf16 one");
	is_near(blocks_bf16(0xC2F7), -123.5, 0, "bf16 -123.5");
	is_int(dtype_bytes(DTYPE_F8_E8M0) * 10 + dtype_bytes(DTYPE_F64), 18,
	       "sizes of types");
	int round = 0;
	for (enum dtype t = 0; t < DTYPE_COUNT; t++)
		round += dtype_find(dtype_name(t)) == t;
	is_int(round, DTYPE_COUNT, "every type is found by its name");
	is_int(dtype_find("F33"), DTYPE_COUNT, "no other is");
	for (enum quant q = 0; q < QUANT_COUNT; q++)
		ok(quant_bits(q) > 0 && *quant_name(q), "%s has a row", quant_name(q));
}

static void test_plain(void)
{
	static const float f32[6] = {1, -2, 3, 4.5f, 0, 1e30f};
	static const uint16_t f16[6] = {0x3C00, 0xC000, 0, 0x4400, 0x3800, 0xB400};
	static const uint16_t bf16[6] = {0x3F80, 0xC000, 0, 0x4080, 0x3F00, 0xBE80};
	static const float halves[6] = {1, -2, 0, 4, 0.5f, -0.25f};
	struct weight w = {.quant = QUANT_F32, .n = 2, .k = 3, .group = 3, .q = f32};
	float out[6];
	weight_decode(&w, 0, 2, out);
	ok(!memcmp(out, f32, sizeof out), "f32");
	is_int(weight_bytes(&w), 24, "and its bytes");
	w.quant = QUANT_F16;
	w.q = f16;
	weight_decode(&w, 0, 2, out);
	ok(!memcmp(out, halves, sizeof out), "f16");
	is_int(weight_bytes(&w), 12, "and its bytes");
	w.quant = QUANT_BF16;
	w.q = bf16;
	weight_decode(&w, 1, 2, out);
	ok(!memcmp(out, halves + 3, 3 * sizeof *out), "bf16, the second row alone");
}

/* Nine rows of 16 in groups of 8: an odd number of rows, so that the last word of
 * zero points holds one. Row r, column c has nibble (r + c) % 16; scale of group g
 * is r + 1 for g = 0, else its negative half; zero of (r, g) is (3r + g) % 16. */
static void test_int4(void)
{
	enum { N = 9, K = 16, G = 2 };
	uint32_t q[N][2] = {{0}}, zeros[2][G] = {{0}};
	float scales[N][G];
	for (unsigned r = 0; r < N; r++) {
		for (unsigned c = 0; c < K; c++)
			q[r][c / 8] |= (r + c) % 16 << c % 8 * 4;
		for (unsigned g = 0; g < G; g++) {
			zeros[r / 8][g] |= (3 * r + g) % 16 << r % 8 * 4;
			scales[r][g] = g ? -0.5f * ((float)r + 1) : (float)r + 1;
		}
	}
	struct weight w = {.quant = QUANT_INT4, .n = N, .k = K, .group = 8, .q = q,
			   .scales = scales, .scale_type = DTYPE_F32};
	float out[N * K];
	for (int asym = 0; asym < 2; asym++) {
		w.zero_points = asym ? zeros : NULL;
		weight_decode(&w, 0, N, out);
		int right = 0;
		for (int i = 0; i < N * K; i++) {
			int r = i / K, c = i % K, g = c / 8;
			int zero = asym ? (3 * r + g) % 16 : 8;
			float want = (float)((r + c) % 16 - zero) * scales[r][g];
			right += out[i] == want;
		}
		is_int(right, N * K, "int4 %s", asym ? "asymmetric" : "symmetric");
		is_int(weight_bytes(&w), N * K / 2 + N * G * 4 + (asym ? 16 : 0),
		       "and its bytes");
	}
	float last[K];
	weight_decode(&w, 8, 9, last);
	ok(!memcmp(last, out + 8 * K, sizeof last), "a row alone is the same");

	static const uint16_t one_bf16[1] = {0x4000}, one_f16[1] = {0x4000};
	w = (struct weight){.quant = QUANT_INT4, .n = 1, .k = K, .group = K, .q = q,
			    .scales = one_bf16, .scale_type = DTYPE_BF16};
	weight_decode(&w, 0, 1, out);
	is_near(out[0], -16, 0, "one bf16 scale a row");
	is_near(out[15], 14, 0, "to its end");
	w.scales = one_f16;
	w.scale_type = DTYPE_F16;
	weight_decode(&w, 0, 1, out);
	is_near(out[15], 14, 0, "f16 scales");
}

/* Each row to its own scale: nothing further off than half a step of it. */
static void test_to_int8(void)
{
	enum { N = 70, K = 33 };
	static float f32[N * K], out[N * K];
	struct weight w = {.quant = QUANT_F32, .n = N, .k = K, .group = K, .q = f32}, small;
	void *memory;
	int wrong = 0;
	for (int i = 0; i < N * K; i++)
		f32[i] = i / K == 3 ? 0 : sinf((float)i) * powf(10, (float)(i / K % 7 - 3));
	f32[5 * K] = 1000;
	is_int(weight_to_int8(&w, &small, &memory), 0, "to int8");
	is_int(small.quant, QUANT_INT8, "it says so");
	is_int(weight_bytes(&small), N * (K + 4), "a byte each, and a scale a row");
	weight_decode(&small, 0, N, out);
	for (int n = 0; n < N; n++) {
		float most = 0;
		for (int k = 0; k < K; k++)
			most = fmaxf(most, fabsf(f32[n * K + k]));
		for (int k = 0; k < K; k++)
			wrong += fabsf(out[n * K + k] - f32[n * K + k]) > most / 127 * 0.501f;
	}
	is_int(wrong, 0, "each within half a step");
	is_near(out[5 * K], 1000, 1e-3, "the greatest of a row stays");
	free(memory);
}

static void test_order(void)
{
	enum { K = 64 };
	int32_t group_of[K], order[K];
	struct weight w = {.quant = QUANT_GPTQ4, .n = 16, .k = K, .group = 32,
			   .group_of = group_of};
	int wrong = 0;
	for (int i = 0; i < K; i++)
		group_of[i] = i % 2;
	ok(weight_order(&w, order), "groups in turn have an order");
	for (int i = 0; i < K; i++)
		wrong += order[i] != i % 32 * 2 + i / 32;
	is_int(wrong, 0, "the even columns, then the odd ones");
	group_of[0] = 1;
	ok(!weight_order(&w, order), "groups of 31 and 33 have none");
}

int main(void)
{
	test_to_int8();
	test_numbers();
	test_plain();
	test_int4();
	test_order();
	return tap_done();
}
