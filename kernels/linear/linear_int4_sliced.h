/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      as linear_int4_dot.h, with its bits, for three tokens and more
 * GEOMETRY  as there, but LDS holds a slice of K at a time in rows with steps of 1,024. So
 *           weights are read once whatever K is
 * TRIED     (predicted for gfx1151) all of K in LDS, and launches of fewer tokens where K
 *           is large: K 12288 was read four times for eight tokens. Four waves a workgroup
 *           at eight tokens (K 4096, N 24576): 716 us; sixteen waves: 253. A store for each
 *           row and token by lane 0, in a loop over rows: masks of 16 tokens spilled
 * SEE       kernels/linear/linear_int4_dot.h
 */
#pragma once
#include "kernels/linear/linear_int4_dot.h"

/* Tokens whose pieces a thread loads together while it copies m tokens to LDS. */
constexpr int linear_int4_at_once(int m)
{
	return m % 4 == 0 ? 4 : m % 3 == 0 ? 3 : m;
}

/* Copy elements [from, from + slice) of M tokens to LDS, but none beyond K. Missing tokens repeat
 * the last one. */
template <int M, int THRDS, int CHUNK, int THREADS>
DEVICE void linear_int4_stage_slice(const linear_int4_args &a, int32_t from, u32x4 *lds)
{
	constexpr int32_t EACH = CHUNK / 8, STEP = THRDS * EACH;
	constexpr int AT_ONCE = linear_int4_at_once(M);
	int32_t n_pieces = a.slice / 8, last = (M > LINEAR_INT4_MAX_TOK ? a.n_tok : M) - 1;
	ONE_BY_ONE
	for (int32_t d = (int32_t)thread_index(); d < n_pieces; d += THREADS) {
		int32_t in = d % STEP;
		int32_t p = from / 8 + d - in + in % THRDS * EACH + in / THRDS;
		if (p >= a.k / 8)
			continue;
		ONE_BY_ONE
		for (int t0 = 0; t0 < M; t0 += AT_ONCE) {
			u32x4 v[AT_ONCE];
			UNROLL
			for (int i = 0; i < AT_ONCE; i++) {
				int32_t t = t0 + i < last ? t0 + i : last;
				v[i] = ((const u32x4 *)(a.x + (size_t)t * (size_t)a.k))[p];
			}
			UNROLL
			for (int i = 0; i < AT_ONCE; i++)
				lds[(t0 + i) * n_pieces + d] = linear_int4_piece(v[i]);
		}
	}
}

/* Add up the lanes of each row; lane t of the row stores token t. */
template <int M, int THRDS, int YTILE>
DEVICE void linear_int4_store_tokens(const linear_int4_part *p, int32_t row, int32_t n_tok,
				     float (*sum)[M])
{
	static_assert(M <= THRDS, "a lane for each token");
	int32_t mine = (int32_t)thread_index() % THRDS;
	UNROLL
	for (int y = 0; y < YTILE; y++) {
		float x = 0;
		UNROLL
		for (int t = 0; t < M; t++) {
			float all = lanes_sum<THRDS>(sum[y][t]);
			x = mine == t ? all : x;
		}
		if (mine < n_tok && row + y < p->n)
			linear_int4_put(p, mine, row + y, x);
	}
}

/* For more tokens: LDS holds a slice of K at a time, so weights are read once whatever M
 * and K are. The grid has workgroups for all rows. All waves take part in staging, also
 * those whose rows are past the end. */
template <int M, int THRDS, int YTILE, int WAVES, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void linear_int4_sliced(const linear_int4_args &a)
{
	constexpr int32_t WAVE_ROWS = WAVE / THRDS * YTILE, ROWS = WAVE_ROWS * WAVES;
	LDS_DYNAMIC(u32x4, lds);
	int32_t begin, end;
	linear_int4_part p = linear_int4_find(&a, &begin, &end);
	int32_t row = ((int32_t)group_index_x() - begin) * ROWS +
		      (int32_t)wave_index() * WAVE_ROWS;
	if (THRDS < WAVE)
		row += (int32_t)lane_index() / THRDS * YTILE;
	linear_int4_rows<YTILE> rows = linear_int4_at<YTILE, HAS_ZERO>(&a, &p, row);
	float sum[YTILE][M] = {};
	for (int32_t from = 0; from < a.k; from += a.slice) {
		int32_t to = from + a.slice < a.k ? from + a.slice : a.k;
		if (from > 0)
			group_barrier(); /* all waves have read the previous slice */
		linear_int4_stage_slice<M, THRDS, CHUNK, WAVES * WAVE>(a, from, lds);
		group_barrier();
		linear_int4_sum_part<M, THRDS, YTILE, CHUNK, UNR, HAS_ZERO>(
			&a, &rows, lds, a.slice / 8, from, to, sum);
	}
	linear_int4_store_tokens<M, THRDS, YTILE>(&p, row, a.n_tok, sum);
}

template <int M, int THRDS, int YTILE, int WAVES, int CHUNK, int UNR, bool HAS_ZERO>
DEVICE void linear_int4_kernel(const linear_int4_args &a)
{
	if constexpr (M < LINEAR_INT4_SLICED_TOK || THRDS * CHUNK < LINEAR_INT4_SLICED_STEP)
		linear_int4<M, THRDS, YTILE, WAVES, CHUNK, UNR, HAS_ZERO>(a);
	else
		linear_int4_sliced<M, THRDS, YTILE, WAVES, CHUNK, UNR, HAS_ZERO>(a);
}

/* Defines the kernels of one shape (linear_int4.def) and M tokens, for
 * linear_int4_m*.hip. */
#define LINEAR_INT4(name, m, thrds, ytile, waves, chunk, unr) \
	KERNEL(waves * WAVE) \
	void linear_int4_##name##_m##m##_kernel(linear_int4_args a) \
	{ \
		linear_int4_kernel<m, thrds, ytile, waves, chunk, unr, false>(a); \
	} \
	KERNEL(waves * WAVE) \
	void linear_int4_##name##_m##m##_zero_kernel(linear_int4_args a) \
	{ \
		linear_int4_kernel<m, thrds, ytile, waves, chunk, unr, true>(a); \
	}
