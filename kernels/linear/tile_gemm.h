/* SPDX-License-Identifier: Apache-2.0
 *
 * The tiled product of prefill. A workgroup computes BM rows (tokens) by BN columns (rows
 * of the weight) of X W'. linear_tile.hip and moe_tile.hip use it; they decide where rows
 * come from and where results go.
 *
 *   registers   while the waves multiply the step in LDS, each thread loads its pieces of
 *               the next step's X and W
 *   LDS         X and W of a step as 16-bit numbers, in rows as device/tile_place.h says.
 *               Workgroups of eight waves have two buffers, so a step takes one barrier.
 *               Others, and W bf16, have one and take two: half of LDS lets nearly twice as
 *               many waves be in flight. Scales of int4 are loaded for 128 elements at once
 *   W int4      nibble - zero, exact in f16. X and W have the order of the pairs in a word.
 *               That takes fewer instructions than bringing W into the order of X. The sum
 *               of 32 elements is multiplied by its group's scale in f32. So nothing is
 *               rounded that the reference does not round, and no scale is too large
 *   W bf16      X is split exactly into two bf16 (f16 has 11 significant bits, bf16 8):
 *               two products, and any bf16 is in range
 *   W in units  (kernels/weights/weight_units.h) halves without their scale. The sum of a
 *               unit or group is multiplied by its scale in f32. The minimum times the sum
 *               of the inputs is subtracted. The threads that bring X add up those sums
 *   order       of a sum: K ascending, 16 at a time, groups added one after the other. It
 *               is the same in every shape, so tiles may be chosen by M
 */
#pragma once
#include "kernels/linear/tile_gemm_multiply.h"
#include "kernels/linear/tile_gemm_stage.h"

DEVICE int32_t gemm_wave_m(int32_t waves_n)
{
	return (int32_t)wave_index() / waves_n;
}

DEVICE int32_t gemm_wave_n(int32_t waves_n)
{
	return (int32_t)wave_index() % waves_n;
}

/* Where a lane multiplies: the workgroup's LDS, its wave's first row of X and of W, and the first
 * scale and sum it needs. */
struct gemm_place {
	gemm_stages lds;
	uint32_t a, b, scale, sum;
	int32_t n_used; /* of the wave's tiles of rows; MT or more: all */
};

template <class G> DEVICE gemm_place gemm_place_of(const gemm_stages &lds, int32_t n_rows)
{
	int32_t row = gemm_wave_m(G::WAVES_N) * (G::MT * 16);
	int32_t column = gemm_wave_n(G::WAVES_N) * (G::NT * 16);
	return {lds, (uint32_t)row * G::PITCH, (uint32_t)column * G::PITCH,
		(uint32_t)(column + tile_column(0)), (uint32_t)row,
		(n_rows + 15) / 16 - gemm_wave_m(G::WAVES_N) * G::MT};
}

/* Write to LDS what all products of the block use: the format's lookup table. */
template <class G> DEVICE void gemm_prepare(u32x4 *table)
{
	if constexpr (unit_table(G::UNIT) > 0) {
		unit_make_table<G::UNIT>(table, G::THREADS);
		group_barrier();
	}
}

/* LDS of the step at k0. */
template <class G>
DEVICE gemm_stages gemm_stage_of(const gemm_stages &all, int32_t k0, int32_t stage)
{
	int32_t scales = stage * G::SIDE;
	if constexpr (G::IS_INT4)
		scales = (int32_t)((uint32_t)k0 / 32 % (G::STAGES * G::AHEAD) * G::BN);
	return {all.a + stage * G::A_STAGE, all.b + stage * G::B_HALVES, all.scales + scales,
		all.sums + stage * G::SUMS};
}

/* Multiply the step at k0, which lies in LDS, and meanwhile load the next one. */
template <class G, bool is_whole>
DEVICE void gemm_step(gemm_thread<G> *t, const gemm_weight *w, const gemm_place &at, int32_t k0,
		      int32_t stage, gemm_sums<G> *sum)
{
	int32_t next_k = k0 + G::BK;
	bool is_last = next_k >= w->k;
	gemm_stages next = gemm_stage_of<G>(at.lds, next_k, stage ^ (G::STAGES - 1));
	if (!is_last)
		gemm_load(t, w, next_k);
	gemm_stages now = gemm_stage_of<G>(at.lds, k0, stage);
	gemm_lds step = {now.a + at.a, now.b + at.b, now.scales + at.scale, now.sums + at.sum};
	gemm_multiply_step<G, is_whole>(sum, step, at.n_used);
	if (G::STAGES == 1)
		group_barrier();
	if (!is_last)
		gemm_stage(t, w, next_k, next);
	group_barrier();
}

/* The steps of the product. The first one lies in LDS. */
template <class G, bool is_whole>
DEVICE void gemm_steps(gemm_thread<G> *t, const gemm_weight *w, const gemm_place &at,
		       gemm_sums<G> *sum)
{
	int32_t stage = 0;
	for (int32_t k0 = 0; k0 < w->k; k0 += G::BK) {
		gemm_step<G, is_whole>(t, w, at, k0, stage, sum);
		stage ^= G::STAGES - 1;
	}
}

/* Which rows of X a block uses: the first n. is_whole: all, and the loop need not ask. */
struct gemm_rows {
	int32_t n;
	bool is_whole;
};

/* The whole product of this block; *sum is this wave's part of it. Sums of tiles without a
 * used row may stay 0. */
template <class G, class X, class W>
DEVICE void gemm_run(const gemm_weight *weight, X x_row, W w_row, gemm_rows rows,
		     gemm_sums<G> *sum)
{
	LDS(uint16_t, a, G::STAGES * G::A_STAGE);
	LDS(uint16_t, b, G::STAGES * G::B_HALVES);
	LDS(float, scales, G::STAGES * G::SIDE);
	LDS(float, sums, G::STAGES * G::SUMS);
	LDS(u32x4, table, unit_table(G::UNIT) ? unit_table(G::UNIT) : 1);
	gemm_weight copy = *weight, *w = &copy;
	copy.unit.table = table;
	gemm_prepare<G>(table);
	gemm_thread<G> t;
	gemm_place at = gemm_place_of<G>({a, b, scales, sums}, rows.n);
	gemm_begin(&t, x_row, w_row);
	gemm_clear(sum);
	gemm_load(&t, w, 0);
	gemm_stage(&t, w, 0, at.lds);
	group_barrier();
	if (rows.is_whole)
		gemm_steps<G, true>(&t, w, at, sum);
	else
		gemm_steps<G, false>(&t, w, at, sum);
}

/* Calls f(m, n, x, value) for each element of the block in this lane; value is
 * of_column(n), computed once for each column n. */
template <class G, class C, class F>
DEVICE void gemm_each(const gemm_sums<G> *sum, C of_column, F f)
{
	int32_t m0 = gemm_wave_m(G::WAVES_N) * (G::MT * 16);
	int32_t n0 = gemm_wave_n(G::WAVES_N) * (G::NT * 16);
	UNROLL
	for (int n = 0; n < G::NT; n++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t column = n0 + n * 16 + tile_column(i);
			auto value = of_column(column);
			UNROLL
			for (int m = 0; m < G::MT; m++)
				f(m0 + m * 16 + tile_row(i), column, sum->v[m][n].v[i],
				  value);
		}
}
