/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of linear_quad_sum.h for weights of very many rows. Here a compute unit runs
 * many workgroups one after the other, so many waves keep memory busy, and a wave needs
 * no prefetch. So there is one buffer and no bounds check in a step. Rows are stored from
 * registers, and the norm is a separate launch.
 *
 * On an NVIDIA H200, in % of the bandwidth of plain reads in the same run: N 151936, K
 * 2048: 83; the same N, K 4096: 84; N 24576, K 4096: 66 (linear_quad_sum.h 67). A launch
 * that only reads as many bytes, with its start and end, reaches 94, 99 and 83 (kernels
 * bench, % alone). The three take 46.4, 91.1 and 19.1 us. Leaving out the products saves
 * 4.3, 6.7 and 2.8 us; leaving out the copy of activations to LDS saves 0, 1.2 and 0.8.
 * The scales cost what their bytes cost, except 5 us more at K 4096.
 *
 * TRIED     (the same three cases, in %) six workgroups at once: registers spill, 75 and
 *           80.
 *           Ten workgroups of two waves: the same. Turns of two steps, eight workgroups:
 *           77, 76, 57. The scales of a wave's rows copied to LDS first, in memory order:
 *           no change. Resident workgroups that go on to further rows: 82 and 83. Half a
 *           turn loaded after the other half is used: 79, 80 and 63; with turns twice as
 *           long and three workgroups: 81, 85 and 68.
 */
#pragma once
#include "kernels/linear/linear_quad_sum.h"

/* Load UNR steps from s on, which must all exist. */
template <int UNR, int KIND>
DEVICE void quad_load_turn(const quad_rows &r, int32_t s, quad_step<KIND> *out)
{
	UNROLL
	for (int u = 0; u < UNR; u++)
		quad_load<KIND>(r, s + u, s + u + 1, &out[u]);
}

template <int UNR, int KIND>
DEVICE void quad_use_turn(const quad_rows &r, const quad_step<KIND> *c, int32_t s,
			  const quad_inputs<1> &x, quad_sums<1> *sums)
{
	UNROLL
	for (int u = 0; u < UNR; u++)
		quad_use<1, KIND>(r, c[u], s + u, s + u + 1, x, sums);
}

/* Store a lane's sums of two rows of a tile. */
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

/* One token; each wave has its own rows; K is whole turns of UNR steps. */
template <int ROWS, int UNR, int KIND> DEVICE void linear_quad_lean(const linear_int4_args &a)
{
	constexpr int32_t THREADS = ROWS * WAVE;
	LDS_DYNAMIC(u32x4, lds);
	linear_quad_held<THREADS> held;
	linear_quad_hold<THREADS, false>(a, &held);
	int32_t begin, none, i_part = 0;
	linear_int4_part p = linear_int4_find(&a, &begin, &none);
	UNROLL
	for (int i = 1; i < LINEAR_INT4_MAX_PART; i++)
		i_part += (int32_t)group_index_x() >= a.first_group[i - 1];
	int32_t tile = ((int32_t)group_index_x() - begin) * ROWS + (int32_t)wave_index();
	quad_rows rows = linear_quad_rows<KIND>(a, p, tile);
	quad_step<KIND> now[UNR];
	quad_load_turn<UNR, KIND>(rows, 0, now);
	quad_zeros(lds);
	linear_quad_stage<THREADS, false>(a, held, lds + QUAD_ZEROS);
	group_barrier();
	quad_inputs<1> x = quad_inputs_of<1>(lds, a.k / 8);
	quad_sums<1> sum = {};
	int32_t s = 0;
	for (; s + UNR < a.k / QUAD_STEP; s += UNR) {
		quad_use_turn<UNR, KIND>(rows, now, s, x, &sum);
		quad_load_turn<UNR, KIND>(rows, s + UNR, now);
	}
	quad_use_turn<UNR, KIND>(rows, now, s, x, &sum);
	float low = quad_row_sum(sum.v[0][0]), high = quad_row_sum(sum.v[1][0]);
	UNROLL
	/* constant index: no registers hold part[] */
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++)
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

/* Defines the kernels of one shape (linear_quad.def) and up to M tokens, for
 * linear_quad_m*.hip. room limits registers, which matters on an H200: with 16 waves,
 * registers for only one workgroup cost 2.2 us of 9.4 (quad16, N and K 4096). But for
 * quad8, more registers gained 1.1 us of 14. */
#define LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, kind, word) \
	KERNEL_OF_MANY(split * rows * WAVE, (m == 1 ? room : split * rows > 8 ? 1 : 3)) \
	void linear_quad_##name##_m##m##word##_kernel(linear_int4_args a) \
	{ \
		linear_quad_as<m, split, rows, unr, is_lean, kind>(a); \
	}
#define LINEAR_QUAD(name, m, split, rows, unr, room, is_lean) \
	LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, QUAD_G32, ) \
	LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, QUAD_ANY, _any) \
	LINEAR_QUAD_KIND(name, m, split, rows, unr, room, is_lean, QUAD_ZERO, _zero)
