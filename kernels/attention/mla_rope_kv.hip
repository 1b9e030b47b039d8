/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/mla_rope_kv.h
 * LAYOUT    queries, keys, pages f16; norm, rope f32
 * GEOMETRY  (H + 1, T) workgroups of four waves: first the queries' heads, then the key.
 *           LDS: one float a wave
 * PRECISION squares summed in f32: each thread its own, then a tree over threads; results
 *           rounded once
 * ROOFLINE  bound by launch overhead: 16 KB of queries and 1 KB of key at H = 128
 * TRIED     no other form
 * SEE       kernels/ops/mla_rope_kv_ref.c
 */
#include "kernels/device/dialect.h"
#include "kernels/attention/mla_launch.h"

DEVICE void mla_rotate(const mla_rope_kv_launch &a, const uint16_t *in, const float *rope,
		       float scale, uint16_t *out)
{
	int32_t n = a.rope_dim / 2, step = a.is_interleaved ? 2 : 1;
	int32_t other = a.is_interleaved ? 1 : n;
	for (int32_t i = (int32_t)thread_index(); i < n; i += MLA_ROPE_THREADS) {
		float c = rope[2 * i], s = rope[2 * i + 1];
		float x = f16_to_f32(in[i * step]), y = f16_to_f32(in[i * step + other]);
		out[i] = f32_to_f16((x * c - y * s) * scale);
		out[i + n] = f32_to_f16((y * c + x * s) * scale);
	}
}

KERNEL(MLA_ROPE_THREADS)
void mla_rope_kv_kernel(mla_rope_kv_launch a)
{
	LDS(float, part, MLA_ROPE_THREADS / WAVE);
	size_t t = group_index_y(), n = (size_t)(a.c_dim + a.rope_dim);
	const float *rope = a.rope + t * (size_t)a.rope_dim;
	int32_t h = (int32_t)group_index_x();
	if (h < a.n_heads) {
		size_t head = t * (size_t)a.n_heads + (size_t)h;
		mla_rotate(a, a.q_from + (head + 1) * (size_t)a.q_pitch - a.rope_dim, rope,
			   a.q_scale, a.q + head * n + (size_t)a.c_dim);
		return;
	}
	const uint16_t *from = a.kv_from + t * n;
	uint16_t *key = a.k_pages + (size_t)a.slot[t] * n;
	float squares = 0;
	for (int32_t i = (int32_t)thread_index(); i < a.c_dim; i += MLA_ROPE_THREADS) {
		float x = f16_to_f32(from[i]);
		squares += x * x;
	}
	float sum = group_sum<MLA_ROPE_THREADS>(squares, part);
	float scale = fast_rsqrt(sum * fast_rcp((float)a.c_dim) + a.eps);
	for (int32_t i = (int32_t)thread_index(); i < a.c_dim; i += MLA_ROPE_THREADS)
		key[i] = f32_to_f16(f16_to_f32(from[i]) * scale * a.norm[i]);
	mla_rotate(a, from + a.c_dim, rope, 1, key + a.c_dim);
}
