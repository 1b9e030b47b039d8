/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain rotary positions rotate pair i by theta^(-i/n) for each position (Su et al.,
 * RoFormer, 2021). A model stretched to a longer context than in training rotates slower:
 *
 *   linear  every pair is divided by the factor (Chen et al., Position Interpolation,
 *           2023)
 *   llama3  pairs with less than low_freq rotations in the original context are divided by
 *           the factor. Pairs with more than high_freq rotations stay. Those between get a
 *           mix of both (Llama 3.1).
 *   factors each pair is divided by its own factor, which comes with the weights
 *   long    the same with two sets of factors (Ding et al., LongRoPE, 2024): one up to the
 *           original context, one for longer ones. Keys in the cache have been rotated, so the
 *           longest sequence that there may be chooses for all. Attention is sharpened
 *   part    the pairs behind the first n * part stand still (Gemma 4, "proportional")
 *   yarn    as llama3, between beta_slow and beta_fast rotations, with a mix that is linear
 *           in i. Attention is sharpened (Peng et al., YaRN, 2023, 3.2-3.4).
 *
 * Llama 4 and Ministral 3 also have an attention temperature: queries at late positions are
 * longer, so that attention over more tokens stays as sharp.
 *
 * Papers leave the rounding of bounds and the default sharpness open. Both are as in
 * modeling_rope_utils.py of Hugging Face Transformers.
 */
#include "engine/rope.h"

#include <math.h>

#include "base/alloc.h"

static double clamp(double x, double low, double high)
{
	return fmin(fmax(x, low), high);
}

/* The pair, as a fraction, that rotates so many times in the original context. */
static double pair_of(const struct rope *r, int n, double rotations)
{
	return n * log(r->original_ctx / (rotations * 2 * M_PI)) / log(r->theta);
}

/* The share of its speed that pair i keeps, 0 to 1. */
static double yarn_kept(const struct rope *r, int n, int i)
{
	double low = pair_of(r, n, r->beta_fast), high = pair_of(r, n, r->beta_slow);
	if (!r->is_exact) {
		low = floor(low);
		high = ceil(high);
	}
	low = fmax(low, 0);
	high = fmin(high, 2 * n - 1);
	if (low == high)
		high += 0.001;
	return 1 - clamp((i - low) / (high - low), 0, 1);
}

static double llama3_kept(const struct rope *r, double freq)
{
	double rotations = r->original_ctx * freq / (2 * M_PI);
	return clamp((rotations - r->low_freq) / (r->high_freq - r->low_freq), 0, 1);
}

double rope_mscale(double factor, double mscale)
{
	return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

bool rope_has_attn_temp(const struct model_config *c)
{
	return c->ropes[0].attn_temp_beta != 0 || c->llama4.attn_temp_every > 0;
}

float rope_attn_temp(const struct model_config *c, int32_t position)
{
	const struct rope *r = &c->ropes[0];
	if (c->llama4.attn_temp_every > 0)
		return (float)(1 + (double)c->llama4.attn_temp_scale *
					   log1p((position + 1) / c->llama4.attn_temp_every));
	return (float)(1 + r->attn_temp_beta * log(1 + floor(position / r->original_ctx)));
}

bool rope_is_long(const struct rope *r, int32_t n_ctx)
{
	return r->kind == ROPE_LONG && n_ctx > r->original_ctx;
}

double rope_sharpness(const struct rope *r)
{
	if (r->kind == ROPE_LONG && r->attention_factor == 0)
		return r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->original_ctx));
	if (r->kind == ROPE_LONG)
		return r->attention_factor;
	if (r->kind != ROPE_YARN)
		return 1;
	if (r->attention_factor != 0)
		return r->attention_factor;
	if (r->mscale != 0 && r->mscale_all != 0)
		return rope_mscale(r->factor, r->mscale) /
		       rope_mscale(r->factor, r->mscale_all);
	return rope_mscale(r->factor, 1);
}

double rope_frequencies(const struct rope *r, int32_t n_ctx, int n, double *out)
{
	const float *factors = rope_is_long(r, n_ctx) ? r->long_factors : r->factors;
	for (int i = 0; i < n; i++) {
		double freq = pow(r->theta, -(double)i / n), kept = 1;
		if (r->kind == ROPE_LINEAR || r->kind == ROPE_PART)
			kept = 0;
		else if (r->kind == ROPE_LLAMA3)
			kept = llama3_kept(r, freq);
		else if (r->kind == ROPE_YARN)
			kept = yarn_kept(r, n, i);
		else if (r->kind == ROPE_FACTORS || r->kind == ROPE_LONG)
			freq /= (double)factors[i];
		if (r->kind == ROPE_PART && i >= (int)(n * r->part))
			freq = 0;
		out[i] = kept == 1 ? freq : freq * (kept + (1 - kept) / r->factor);
	}
	return rope_sharpness(r);
}
