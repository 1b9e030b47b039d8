/* SPDX-License-Identifier: Apache-2.0
 *
 * A fused norm (kernels/linear/fused_norm.h) on the way to LDS, by all threads of a workgroup.
 */
#pragma once
#include "kernels/linear/fused_norm.h"
#include "kernels/rows/rms_norm_row.h"

/* Normalise row t of n (k elements, a multiple of 8). put(p, v) gets piece p, eight halves. The
 * first workgroup also writes the result. part: RMS_NORM_WAVES floats of LDS, which put may
 * overwrite. */
template <int THREADS, class F>
DEVICE void fused_norm_stage(const fused_norm &n, int32_t t, int32_t k, float *part, F put)
{
	const float *x = n.x + (size_t)t * (size_t)k;
	u32x4 *y = (u32x4 *)(n.y + (size_t)t * (size_t)k);
	rms_norm_held<THREADS> held;
	rms_norm_hold<THREADS, true>(x, k, &held);
	float scale = rms_norm_scale<THREADS, true>(held, x, k, n.eps, part);
	auto one = [&](int32_t p, const rms_norm_8 &from) {
		u32x4 v = rms_norm_piece(from, rms_norm_load<true>(n.weight, p * 8, k), scale);
		put(p, v);
		if (group_index_x() == 0)
			y[p] = v;
	};
	group_barrier(); /* the result overwrites the waves' sums of squares */
	int32_t p = (int32_t)thread_index();
	/* Smaller workgroups load x again: keeping it would cost registers that the product
	 * needs. */
	if constexpr (RMS_NORM_HELD(THREADS) == 1) {
		if (p < k / 8)
			one(p, held.p[0]);
		p += THREADS;
	}
	ONE_BY_ONE
	for (; p < k / 8; p += THREADS)
		one(p, rms_norm_load<true>(x, p * 8, k));
}
