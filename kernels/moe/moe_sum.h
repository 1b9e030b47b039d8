/* SPDX-License-Identifier: Apache-2.0
 *
 * A router's sums over x before its norm is complete, which do not depend on the order of
 * adding. So workgroups that each have a part of x add to one sum by atomics, and a sum has the
 * same bits whoever adds. MATH: logit = scale * sum of R[i] w[i] x[i], with scale 1 / sqrt(mean
 * (x^2) + eps), w the norm's weight and R the router's row. Products of eight neighbours
 * (elements 8 n and on) are added in order in f32. Such an eight becomes a whole number of
 * 2^-28, and those add up exactly.
 *
 * An eight beyond 2^23 counts as 2^23, and a NaN as -2^23. So 2^11 of them, which is D <= 16384,
 * fit 64 bits.
 */
#pragma once
#include "kernels/device/dialect.h"
#include "kernels/weights/dequant.h"

constexpr float MOE_SUM_MOST = 8388608; /* 2^23 */
enum { MOE_SUM_BITS = 28 };

DEVICE uint64_t moe_sum_fixed(float x)
{
	x = x > -MOE_SUM_MOST ? x : -MOE_SUM_MOST;
	x = x < MOE_SUM_MOST ? x : MOE_SUM_MOST;
	int32_t whole = (int32_t)x;
	int32_t part = (int32_t)((x - (float)whole) * (float)(1 << MOE_SUM_BITS));
	return ((uint64_t)(int64_t)whole << MOE_SUM_BITS) + (uint64_t)(int64_t)part;
}

DEVICE float moe_sum_float(uint64_t sum)
{
	bool is_negative = sum >> 63;
	uint64_t size = is_negative ? 0 - sum : sum;
	float high = (float)(uint32_t)(size >> 32) * (float)(1 << (32 - MOE_SUM_BITS));
	float all = fma_f32((float)(uint32_t)size, 1 / (float)(1 << MOE_SUM_BITS), high);
	return is_negative ? -all : all;
}

/* The sum of eight products of a router's row and eight elements of w x. */
template <int format>
DEVICE uint64_t moe_sum_eight(const dot8_piece<format> &row, const float *x)
{
	float sum = 0;
	UNROLL
	for (int i = 0; i < 8; i++)
		sum = fma_f32(dot8_at<format>(row, i), x[i], sum);
	return moe_sum_fixed(sum);
}

/* The sum over n neighbouring lanes, a power of two, in each of them. */
DEVICE uint64_t moe_sum_lanes(uint64_t sum, uint32_t n)
{
	for (uint32_t m = 1; m < n; m *= 2) {
		uint32_t from = lane_index() ^ m;
		uint32_t low = wave_shuffle((uint32_t)sum, from);
		sum += (uint64_t)wave_shuffle((uint32_t)(sum >> 32), from) << 32 | low;
	}
	return sum;
}

DEVICE float moe_sum_logit(uint64_t sum, float scale, const float *bias, size_t e)
{
	float logit = moe_sum_float(sum) * scale;
	return bias ? logit + bias[e] : logit;
}
