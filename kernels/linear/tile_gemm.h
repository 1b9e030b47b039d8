/* SPDX-License-Identifier: Apache-2.0
 *
 * The tiled product of prefill. A workgroup computes BM rows (tokens) by BN columns (rows
 * of the weight) of X W'. linear_tile.hip and moe_tile.hip use it; they decide where rows
 * come from and where results go.
 *
 *   registers   while the waves multiply the step in LDS, each thread loads its pieces of
 *               the next step's X and W
 *   LDS         X and W of a step as 16-bit numbers, K contiguous. Rows are BK + 8 apart,
 *               an odd multiple of 16 bytes, so they lie in different banks. There are two
 *               buffers, so a step takes one barrier (W bf16: one buffer and two)
 *   W int4      nibble - zero, exact in f16. The order is that of the pairs in a word: 0 4
 *               1 5 2 6 3 7. X gets the same order, which does not affect sums. A group's
 *               sum is multiplied by its scale in f32. So nothing is rounded that the
 *               reference does not round, and no scale is too large
 *   W bf16      X is split exactly into two bf16 (f16 has 11 significant bits, bf16 8):
 *               two products, and any bf16 is in range
 *   W in units  (kernels/weights/weight_units.h) halves without their scale. The sum of a
 *               unit or group is multiplied by its scale in f32. The minimum times the sum
 *               of the inputs is subtracted; that sum is one more product, with ones
 *   order       of a sum: K ascending, 16 at a time, groups added one after the other. It
 *               is the same in every shape, so tiles may be chosen by M
 */
#pragma once
#include "kernels/linear/tile_gemm_stage.h"

template <class G> struct gemm_sums {
	tile_c v[G::MT][G::NT];
	tile_c all[G::HAS_MIN ? G::MT : 1]; /* sum of a row's inputs, in every column */
};

template <class G> DEVICE void gemm_clear(gemm_sums<G> *s)
{
	UNROLL
	for (int m = 0; m < G::MT; m++)
		UNROLL
		for (int n = 0; n < G::NT; n++)
			UNROLL
			for (int i = 0; i < TILE_C; i++)
				s->v[m][n].v[i] = 0;
	if constexpr (G::HAS_MIN)
		UNROLL
		for (int m = 0; m < G::MT; m++)
			UNROLL
			for (int i = 0; i < TILE_C; i++)
				s->all[m].v[i] = 0;
}

/* sum += part * (scale of the column) in f32; then part = 0. scales: of this wave's
 * columns. */
template <class G>
DEVICE void gemm_fold(gemm_sums<G> *sum, gemm_sums<G> *part, const float *scales)
{
	UNROLL
	for (int n = 0; n < G::NT; n++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			float s = scales[n * 16 + tile_column(i)];
			UNROLL
			for (int m = 0; m < G::MT; m++)
				sum->v[m][n].v[i] += part->v[m][n].v[i] * s;
			if constexpr (G::HAS_MIN) {
				float min = scales[G::SCALES + n * 16 + tile_column(i)];
				UNROLL
				for (int m = 0; m < G::MT; m++)
					sum->v[m][n].v[i] -= part->all[m].v[i] * min;
			}
		}
	gemm_clear(part);
}

enum { GEMM_ONES = 24 }; /* row pitch, in halves, of a 16 x 16 matrix of ones */

/* Multiply sixteen elements of K. a, b: this wave's first row at that K. ones: for
 * minima. */
template <class G>
DEVICE void gemm_multiply(gemm_sums<G> *s, const uint16_t *a, const uint16_t *b,
			  const uint16_t *ones)
{
	constexpr int F = G::TILES;
	tile_b<F> columns[G::NT];
	UNROLL
	for (int n = 0; n < G::NT; n++)
		columns[n] = tile_load_b<F>(b + n * 16 * G::PITCH, G::PITCH);
	UNROLL
	for (int m = 0; m < G::MT; m++) {
		tile_a<F> rows = tile_load_a<F>(a + m * 16 * G::PITCH, G::PITCH);
		UNROLL
		for (int n = 0; n < G::NT; n++)
			s->v[m][n] = tile_mma(rows, columns[n], s->v[m][n]);
		if constexpr (G::HAS_MIN)
			s->all[m] = tile_mma(rows, tile_load_b<F>(ones, GEMM_ONES), s->all[m]);
	}
}

/* Write to LDS what all products of the block use: ones, and the format's lookup table.
 * No loop stores the ones, because clang 17 to 20 compile one wrongly
 * (docs/gpu-compilers.md). So each thread stores at most eight. */
template <class G> DEVICE void gemm_prepare(uint16_t *ones, u32x4 *table)
{
	constexpr int32_t PIECES = 16 * GEMM_ONES / 8;
	static_assert(PIECES <= G::THREADS, "one store a thread");
	if constexpr (G::HAS_MIN)
		if ((int32_t)thread_index() < PIECES) {
			constexpr uint32_t TWO = 0x3C003C00u; /* two halves of 1.0 */
			((u32x4 *)ones)[thread_index()] = u32x4{TWO, TWO, TWO, TWO};
		}
	if constexpr (unit_table(G::UNIT) > 0) {
		unit_make_table<G::UNIT>(table, G::THREADS);
		group_barrier();
	}
}

/* True if a scale's part of K ends after the sixteen elements at k0 + k. */
template <class G> DEVICE bool gemm_is_folded(const gemm_weight *w, int32_t k0, int32_t k)
{
	constexpr bool IS_GROUPED = G::UNIT == WEIGHT_INT8 || G::UNIT == WEIGHT_FP8;
	int32_t next = k0 + k + 16;
	if (G::FOLD == 0 || !G::HAS_SCALES || (k + 16) % (G::FOLD ? G::FOLD : 1) != 0)
		return false;
	if (!G::IS_UNITS || !IS_GROUPED)
		return true;
	return ((uint32_t)next & ((1u << w->group_shift) - 1)) == 0 || next == w->k;
}

template <class G> DEVICE void gemm_pin(gemm_sums<G> *s)
{
	UNROLL
	for (int m = 0; m < G::MT; m++)
		UNROLL
		for (int n = 0; n < G::NT; n++)
			tile_pin(&s->v[m][n]);
}

DEVICE int32_t gemm_wave_m(int32_t waves_n)
{
	return (int32_t)wave_index() / waves_n;
}

DEVICE int32_t gemm_wave_n(int32_t waves_n)
{
	return (int32_t)wave_index() % waves_n;
}

/* The whole product of this block; *sum is this wave's part of it. */
template <class G, class X, class W>
DEVICE void gemm_run(const gemm_weight *weight, X x_row, W w_row, gemm_sums<G> *sum)
{
	constexpr int A_STAGE = G::A_HALVES * (G::IS_SPLIT ? 2 : 1);
	LDS(uint16_t, a, G::STAGES * A_STAGE);
	LDS(uint16_t, b, G::STAGES * G::B_HALVES);
	LDS(float, scales, G::STAGES * G::SIDE);
	LDS(uint16_t, ones, G::HAS_MIN ? 16 * GEMM_ONES : 8);
	LDS(u32x4, table, unit_table(G::UNIT) ? unit_table(G::UNIT) : 1);
	gemm_weight copy = *weight, *w = &copy;
	copy.unit.table = table;
	gemm_prepare<G>(ones, table);
	gemm_thread<G> t;
	gemm_sums<G> part;
	gemm_begin(&t, x_row, w_row);
	gemm_clear(sum);
	gemm_clear(&part);
	gemm_load(&t, w, 0);
	gemm_stage(&t, w, a, b, scales);
	group_barrier();
	int32_t row = gemm_wave_m(G::WAVES_N) * (G::MT * 16 * G::PITCH);
	int32_t column = gemm_wave_n(G::WAVES_N) * (G::NT * 16);
	uint32_t in_group = (1u << w->group_shift) - 1;
	for (int32_t k0 = 0, stage = 0; k0 < w->k; k0 += G::BK) {
		bool is_last = k0 + G::BK >= w->k;
		if (!is_last)
			gemm_load(&t, w, k0 + G::BK);
		const uint16_t *from_a = a + stage * A_STAGE + row;
		const uint16_t *from_b = b + stage * G::B_HALVES + column * G::PITCH;
		const float *s = scales + stage * G::SIDE + column;
		UNROLL
		for (int k = 0; k < G::BK; k += 16) {
			gemm_multiply<G>(G::HAS_SCALES ? &part : sum, from_a + k, from_b + k,
					 ones);
			if constexpr (G::IS_SPLIT) {
				gemm_pin(sum); /* else the compiler loads everything first
					        * and spills */
				gemm_multiply<G>(sum, from_a + G::A_HALVES + k, from_b + k,
						 ones);
				gemm_pin(sum);
			}
			if (gemm_is_folded<G>(w, k0, k))
				gemm_fold(sum, &part, s + k / (G::FOLD ? G::FOLD : 1) * G::BN);
		}
		bool is_end = is_last || ((uint32_t)(k0 + G::BK) & in_group) == 0;
		if (G::FORMAT == GEMM_INT4 && is_end)
			gemm_fold(sum, &part, s);
		if (G::STAGES == 1)
			group_barrier();
		else
			stage ^= 1;
		if (!is_last)
			gemm_stage(&t, w, a + stage * A_STAGE, b + stage * G::B_HALVES,
				   scales + stage * G::SIDE);
		group_barrier();
	}
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
