/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/logits_cap.h
 * LAYOUT    x (R, V) f32
 * GEOMETRY  (V over 256, R) workgroups of 256 threads, one number a thread
 * PRECISION f32; tanh(z) = 1 - 2 / (1 + exp(2 z)), for small z its series. Both are within
 *           some units of the last place
 * ROOFLINE  memory: 2 MB at V = 262144, where the output head reads 300 MB and more
 * TRIED     no other form
 * SEE       kernels/ops/logits_cap_ref.c
 */
#include "kernels/device/dialect.h"

enum { LOGITS_CAP_THREADS = 256 };

/* For small z the difference would lose digits, so there it is the series to z^7. */
DEVICE float logits_cap_tanh(float z)
{
	float a = z < 0 ? -z : z, s = z * z;
	float series = z * (1 + s * (-0.333333333f + s * (0.133333333f - s * 0.053968254f)));
	float whole = 1 - 2 * fast_rcp(1 + fast_exp2(a * 2.88539008f));
	return a < 0.125f ? series : z < 0 ? -whole : whole;
}

KERNEL(LOGITS_CAP_THREADS)
void logits_cap_kernel(int32_t n_vocab, float cap, float inv_cap, float *x)
{
	int32_t i = (int32_t)(group_index_x() * LOGITS_CAP_THREADS + thread_index());
	size_t at = (size_t)group_index_y() * (size_t)n_vocab + (size_t)i;
	if (i < n_vocab)
		x[at] = cap * logits_cap_tanh(x[at] * inv_cap);
}
