/* SPDX-License-Identifier: Apache-2.0
 *
 * Random blocks of GGUF's formats: random bytes, whose scales are then made such that the weights
 * have mean 0 and the deviation wanted. Scales of neighbouring blocks differ. Where a block has no
 * minimum half of them are negative: the integers of Q4_0 have a mean.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/synth.h"
#include "model/formats/blocks.h"

enum { SAMPLE = 1024 /* blocks that tell the mean and deviation of all */ };

/* Where the float16 numbers d and m stand in a block; m -1: there is none. */
struct block_halves {
	enum quant quant;
	int d, m;
};

static const struct block_halves *place_of(enum quant q)
{
	static const struct block_halves places[] = {
		{QUANT_Q4_0, 0, -1}, {QUANT_Q8_0, 0, -1}, {QUANT_IQ4_XS, 0, -1},
		{QUANT_Q5_0, 0, -1}, {QUANT_IQ4_NL, 0, -1}, {QUANT_Q5_1, 0, 2},
		{QUANT_Q4_K, 0, 2},  {QUANT_Q5_K, 0, 2},  {QUANT_Q6_K, 208, -1},
	};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (places[i].quant == q)
			return &places[i];
	return NULL;
}

static double unit_of(uint64_t bits)
{
	return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

static void put_half(uint8_t *p, double x)
{
	uint16_t h = blocks_to_f16((float)x);
	p[0] = (uint8_t)h;
	p[1] = (uint8_t)(h >> 8);
}

/* With all d and m 1: m over d such that the mean is 0, and the deviation then. */
static double measure(enum quant q, const uint8_t *p, size_t n, double *out_ratio)
{
	size_t size = quant_block_bytes(q);
	double sum = 0, least = 0, square = 0, count = 0;
	struct block_parts b;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < n; i++) {
			blocks_split(q, p + i * size, &b);
			for (int j = 0; j < b.n; j++) {
				double x = (double)b.q[j] * b.scale[j / b.n_sub];
				double min = b.min[j / b.n_sub];
				sum += pass ? 0 : x;
				least += pass ? 0 : min;
				count += !pass;
				square += pass ? pow(x - *out_ratio * min, 2) : 0;
			}
		}
		*out_ratio = least != 0 ? sum / least : 0; /* Q5_1 adds m */
	}
	return sqrt(square / count);
}

/* Sets the exponent of a block of MXFP4 to one of the two powers of two around the factor. */
static void put_exponent(uint8_t *p, double factor, double random)
{
	double low = floor(log2(factor)), part = pow(factor / exp2(low), 2);
	p[0] = (uint8_t)(127 + low + (random * 3 < part - 1));
}

void synth_blocks_fill(enum quant quant, double dev, uint64_t (*random)(void *ctx), void *ctx,
		       uint8_t *out, size_t n)
{
	const struct block_halves *at = place_of(quant);
	size_t size = quant_block_bytes(quant), n_bytes = n * size;
	for (size_t i = 0; i < n_bytes; i += 8) {
		uint64_t bits = random(ctx);
		memcpy(out + i, &bits, n_bytes - i < 8 ? n_bytes - i : 8);
	}
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = out + i * size;
		if (quant == QUANT_MXFP4_BLOCK)
			p[0] = 127;
		for (int j = 0; j < 4 && quant == QUANT_NVFP4_BLOCK; j++)
			p[j] = (uint8_t)(0x64 + p[j] % 7); /* e4m3 of 48 to 80 */
		if (at)
			put_half(p + at->d, 1);
		if (at && at->m >= 0)
			put_half(p + at->m, 1);
	}
	double ratio, factor = dev / measure(quant, out, n < SAMPLE ? n : SAMPLE, &ratio);
	for (size_t i = 0; i < n && quant != QUANT_NVFP4_BLOCK; i++) {
		uint8_t *p = out + i * size;
		double u = unit_of(random(ctx)), d = factor * (0.75 + 0.5 * u);
		if (!at) {
			put_exponent(p, factor, u);
			continue;
		}
		bool is_negative = at->m < 0 && random(ctx) >> 63;
		put_half(p + at->d, is_negative ? -d : d);
		if (at->m >= 0)
			put_half(p + at->m, d * ratio);
	}
}
