/* SPDX-License-Identifier: Apache-2.0
 *
 * The root mean square of a row, with the same bits in every kernel that computes it. 512
 * lanes take eight neighbouring elements each, in turns. A wave adds up its 32 lanes,
 * then the 16 waves are added. In a workgroup with fewer waves, each wave does the work
 * of several. Piece i of a thread is the eight elements from 8 (thread + i THREADS) on.
 *
 * Loads return in order. So a kernel with other loads first loads the row and holds it in
 * registers (RMS_NORM_HELD pieces, which is a whole row up to 4096) until it is summed.
 */
#pragma once
#include "kernels/device/dialect.h"

enum { RMS_NORM_THREADS = 512, RMS_NORM_WAVES = RMS_NORM_THREADS / WAVE };
#define RMS_NORM_HELD(threads) (RMS_NORM_THREADS / (threads))

/* Eight floats, in 16-byte loads. */
struct rms_norm_8 {
	u32x4 v[2];
};

/* Elements [i, i + 8) of x (dim), 0 beyond its end. IN_EIGHTS: dim is a multiple of 8. */
template <bool IN_EIGHTS = false>
DEVICE rms_norm_8 rms_norm_load(const float *x, int32_t i, int32_t dim)
{
	rms_norm_8 out = {};
	if (IN_EIGHTS || dim % 8 == 0) { /* uniform branch: dim is the same for all lanes */
		/* Not in a branch: clang 19 takes a kernel with a block of nothing but loads
		 * for bound by memory, and gives its loops twice the registers. */
		const float *from = x + (i < dim ? i : 0);
		u32x4 lo = load_global<u32x4>(from), hi = load_global<u32x4>(from + 4);
		out.v[0] = i < dim ? lo : u32x4{};
		out.v[1] = i < dim ? hi : u32x4{};
		return out;
	}
	UNROLL
	for (int j = 0; j < 8; j++)
		out.v[j / 4][j % 4] = i + j < dim ? bits_cast<uint32_t>(x[i + j]) : 0;
	return out;
}

DEVICE float rms_norm_at(const rms_norm_8 &p, int j)
{
	return bits_cast<float>((uint32_t)p.v[j / 4][j % 4]);
}

DEVICE float rms_norm_add(float sum, const rms_norm_8 &p)
{
	UNROLL
	for (int j = 0; j < 8; j++)
		sum = fma_f32(rms_norm_at(p, j), rms_norm_at(p, j), sum);
	return sum;
}

template <int THREADS> struct rms_norm_held {
	rms_norm_8 p[RMS_NORM_HELD(THREADS)];
};

/* Load the pieces of the row that this thread holds in registers. */
template <int THREADS, bool IN_EIGHTS = false>
DEVICE void rms_norm_hold(const float *x, int32_t dim, rms_norm_held<THREADS> *out)
{
	UNROLL
	for (int i = 0; i < RMS_NORM_HELD(THREADS); i++)
		out->p[i] = rms_norm_load<IN_EIGHTS>(
			x, ((int32_t)thread_index() + i * THREADS) * 8, dim);
}

/* 1 / sqrt(mean(x^2) + eps) of x (dim), by all threads of a workgroup. part:
 * RMS_NORM_WAVES floats of LDS, reusable after the next group_barrier(). */
template <int THREADS, bool IN_EIGHTS = false>
DEVICE float rms_norm_scale(const rms_norm_held<THREADS> &held, const float *x, int32_t dim,
			    float eps, float *part)
{
	constexpr int EACH = RMS_NORM_HELD(THREADS), WAVES = THREADS / WAVE;
	float sum[EACH];
	UNROLL
	for (int v = 0; v < EACH; v++)
		sum[v] = rms_norm_add(0, held.p[v]);
	for (int32_t at = RMS_NORM_THREADS * 8; at < dim; at += RMS_NORM_THREADS * 8)
		UNROLL
		for (int v = 0; v < EACH; v++) {
			int32_t i = at + ((int32_t)thread_index() + v * THREADS) * 8;
			sum[v] = rms_norm_add(sum[v], rms_norm_load<IN_EIGHTS>(x, i, dim));
		}
	UNROLL
	for (int v = 0; v < EACH; v++) {
		float all = wave_sum(sum[v]);
		if (lane_index() == 0)
			part[(int32_t)wave_index() + v * WAVES] = all;
	}
	group_barrier();
	uint32_t lane = lane_index();
	float squares = wave_sum(lane < RMS_NORM_WAVES ? part[lane] : 0);
	return fast_rsqrt(squares * fast_rcp((float)dim) + eps);
}

DEVICE uint16_t rms_norm_one(float x, float scale, float weight)
{
	return f32_to_f16(x * scale * weight);
}

/* Eight normalised elements, as halves. */
DEVICE u32x4 rms_norm_piece(const rms_norm_8 &x, const rms_norm_8 &weight, float scale)
{
	u32x4 out;
	UNROLL
	for (int w = 0; w < 4; w++) {
		uint32_t lo = rms_norm_one(rms_norm_at(x, 2 * w), scale,
					   rms_norm_at(weight, 2 * w));
		uint32_t hi = rms_norm_one(rms_norm_at(x, 2 * w + 1), scale,
					   rms_norm_at(weight, 2 * w + 1));
		out[w] = lo | hi << 16;
	}
	return out;
}
