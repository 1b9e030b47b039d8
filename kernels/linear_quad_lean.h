/* SPDX-License-Identifier: Apache-2.0
 *
 * linear_quad_sum.h, the same sums, for weights of so many rows that a compute unit has
 * many workgroups one after the other: memory is kept busy by many waves, not by what each
 * has on its way beside what it uses. So there is one buffer, no step asks whether it is
 * there, rows are stored from registers, and the norm is a launch of its own.
 *
 * On an NVIDIA H200, in % of the bandwidth read in the same run (linear_quad_sum.h in
 * brackets): N 151936, K 2048 79 (69); K 4096 84 (74); N 24576, K 4096 60 (60). TRIED six
 * workgroups at once: registers go to memory, 75 and 80; ten of two waves: the same; turns
 * of two steps, eight workgroups: 78 and 78; the scales of a wave's rows to LDS first, as
 * they lie in memory: 77, 84 and 62. A launch that only reads as many bytes, begin and end
 * included, reaches 94, 99 and 83: of that these are 84, 84 and 73 (kernels bench, % alone).
 */
#pragma once
#include "kernels/linear_quad_sum.h"

/* UNR steps from k on, all of which are there. */
template <int UNR, int KIND>
DEVICE void quad_load_turn(const quad_rows &r, int32_t k, quad_step<KIND> *out)
{
	UNROLL
	for (int u = 0; u < UNR; u++)
		quad_load<KIND>(r, k + u * QUAD_STEP, k + u * QUAD_STEP + 1, &out[u]);
}

template <int UNR, int KIND>
DEVICE void quad_use_turn(const quad_rows &r, const quad_step<KIND> *c, int32_t k,
			  const quad_inputs<1> &x, quad_sums<1> *sums)
{
	UNROLL
	for (int u = 0; u < UNR; u++)
		quad_use<1, KIND>(r, c[u], k + u * QUAD_STEP, k + u * QUAD_STEP + 1, x, sums);
}

/* A lane's two rows of a tile, from registers. */
DEVICE void linear_quad_put_one(const linear_int4_args &a, const linear_int4_part &p,
				int32_t tile, float low, float high)
{
	int32_t g = (int32_t)lane_index() / 4, row = tile * (a.is_pair ? 8 : 16) + g;
	if (row < p.n && a.is_pair)
		linear_quad_put_pair(a, p, 0, row, low, high);
	if (row < p.n && !a.is_pair)
		linear_int4_put(&p, 0, row, low);
	if (row + 8 < p.n && !a.is_pair)
		linear_int4_put(&p, 0, row + 8, high);
}

/* One token, each wave with rows of its own, K whole turns of UNR steps. */
template <int ROWS, int UNR, int KIND> DEVICE void linear_quad_lean(const linear_int4_args &a)
{
	constexpr int32_t THREADS = ROWS * WAVE, TURN = UNR * QUAD_STEP;
	LDS_DYNAMIC(u32x4, lds);
	linear_quad_held<THREADS> held;
	linear_quad_hold<THREADS, false>(a, &held);
	int32_t none, i_part = 0;
	linear_int4_part p = linear_int4_find(&a, &none);
	UNROLL
	for (int i = 1; i < LINEAR_INT4_MAX_PART; i++)
		i_part += (int32_t)group_index_x() >= a.part[i].first_group;
	int32_t tile = ((int32_t)group_index_x() - p.first_group) * ROWS + (int32_t)wave_index();
	quad_rows rows = linear_quad_rows<KIND>(a, p, tile);
	quad_step<KIND> now[UNR];
	quad_load_turn<UNR, KIND>(rows, 0, now);
	if (thread_index() == 0)
		lds[0] = u32x4{};
	linear_quad_stage<THREADS, false>(a, held, lds + 1);
	group_barrier();
	quad_inputs<1> x = quad_inputs_of<1>(lds, a.k / 8);
	quad_sums<1> sum = {};
	int32_t k = 0;
	for (; k + TURN < a.k; k += TURN) {
		quad_use_turn<UNR, KIND>(rows, now, k, x, &sum);
		quad_load_turn<UNR, KIND>(rows, k + TURN, now);
	}
	quad_use_turn<UNR, KIND>(rows, now, k, x, &sum);
	float low = quad_row_sum(sum.v[0][0]), high = quad_row_sum(sum.v[1][0]);
	UNROLL
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++) /* no register keeps what p says */
		if (i == i_part && quad_has(0))
			linear_quad_put_one(a, a.part[i], tile, low, high);
}

template <int M, int SPLIT, int ROWS, int UNR, bool IS_LEAN, int KIND>
DEVICE void linear_quad_as(const linear_int4_args &a)
{
	if constexpr (M == 1 && IS_LEAN)
		linear_quad_lean<ROWS, UNR, KIND>(a);
	else
		linear_quad<M, SPLIT, ROWS, UNR, KIND>(a);
}

/* The kernels of one shape (linear_quad.def) and up to M tokens: linear_quad_m*.hip. Room
 * left to the compiler cost 2.2 us of 9.4 where 16 waves got more registers than let two
 * workgroups in (quad16, N and K 4096, an H200), and gave 1.1 of 14 to quad8. */
#define LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, kind, word) \
	KERNEL_OF_MANY(split * rows * WAVE, (m == 1 ? room : split * rows > 8 ? 1 : 2)) \
	void linear_quad_##name##_m##m##word##_kernel(linear_int4_args a) \
	{ \
		linear_quad_as<m, split, rows, unr, is_lean, kind>(a); \
	}
#define LINEAR_QUAD(name, m, split, rows, unr, room, is_lean) \
	LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, QUAD_G32, ) \
	LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, QUAD_ANY, _any) \
	LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, QUAD_ZERO, _zero)
