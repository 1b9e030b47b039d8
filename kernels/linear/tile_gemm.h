/* SPDX-License-Identifier: Apache-2.0
 *
 * The tiled product of prefill. A workgroup computes BM rows (tokens) by BN columns (rows
 * of the weight) of X W'. linear_tile.hip and moe_tile.hip use it; they decide where rows
 * come from and where results go.
 *
 *   registers   while the waves multiply the step in LDS, each thread loads its pieces of
 *               the next step's W, and of X where no hardware copies to LDS
 *   LDS         X and W of a step as 16-bit numbers, in rows as device/tile_place.h says.
 *               There are two buffers, so a step takes one barrier (W bf16: one buffer and
 *               two). Scales of int4 in groups of 32 are loaded for four groups at once
 *   W int4      nibble - zero, exact in f16. X and W have one order, either X's own or that of
 *               the pairs in a word; sums are the same. A group's sum is multiplied by its
 *               scale in f32. So nothing is rounded that the reference does not round, and
 *               no scale is too large
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
		}
	gemm_clear(part);
}

enum { GEMM_ONES = 24 }; /* row pitch, in halves, of a 16 x 16 matrix of ones */

/* Multiply the sixteen elements of the step at k. a, b: this wave's first rows. */
template <class G>
DEVICE void gemm_multiply(gemm_sums<G> *s, const uint16_t *a, const uint16_t *b, int32_t k)
{
	constexpr int F = G::TILES, P = G::PIECES;
	tile_b<F> columns[G::NT];
	UNROLL
	for (int n = 0; n < G::NT; n++)
		columns[n] = tile_load_b_placed<F, P>(b + n * 16 * G::PITCH, k / 8);
	UNROLL
	for (int m = 0; m < G::MT; m++) {
		tile_a<F> rows = tile_load_a_placed<F, P>(a + m * 16 * G::PITCH, k / 8);
		UNROLL
		for (int n = 0; n < G::NT; n++)
			s->v[m][n] = tile_mma(rows, columns[n], s->v[m][n]);
	}
}

/* What a wave multiplies: its first rows of X and W, and its columns' scales. */
struct gemm_lds {
	const uint16_t *a, *b, *ones; /* ones: for minima */
	const float *scales;
};

/* Multiply FOLD elements of K, and add them with their scales. One row of tiles after
 * another waits for its scales, so a wave needs registers for NT sums without scale, not
 * for MT times as many. For minima every column of `all` gets the sum of a row's inputs. */
template <class G>
DEVICE void gemm_multiply_scaled(gemm_sums<G> *sum, const gemm_lds &at, int32_t k0,
				 const float *scales)
{
	constexpr int F = G::TILES, P = G::PIECES, STEPS = G::FOLD / 16;
	tile_b<F> columns[STEPS][G::NT];
	UNROLL
	for (int k = 0; k < STEPS; k++)
		UNROLL
		for (int n = 0; n < G::NT; n++)
			columns[k][n] = tile_load_b_placed<F, P>(at.b + n * 16 * G::PITCH,
								 k0 / 8 + k * 2);
	UNROLL
	for (int m = 0; m < G::MT; m++) {
		tile_a<F> rows[STEPS];
		tile_c all;
		UNROLL
		for (int k = 0; k < STEPS; k++)
			rows[k] = tile_load_a_placed<F, P>(at.a + m * 16 * G::PITCH,
							   k0 / 8 + k * 2);
		if constexpr (G::HAS_MIN) {
			tile_b<F> one = tile_load_b<F>(at.ones, GEMM_ONES);
			all = tile_product(rows[0], one);
			UNROLL
			for (int k = 1; k < STEPS; k++)
				all = tile_mma(rows[k], one, all);
		}
		UNROLL
		for (int n = 0; n < G::NT; n++) {
			tile_c part = tile_product(rows[0], columns[0][n]);
			UNROLL
			for (int k = 1; k < STEPS; k++)
				part = tile_mma(rows[k], columns[k][n], part);
			UNROLL
			for (int i = 0; i < TILE_C; i++) {
				int32_t column = n * 16 + tile_column(i);
				sum->v[m][n].v[i] += part.v[i] * scales[column];
				if constexpr (G::HAS_MIN)
					sum->v[m][n].v[i] -=
						all.v[i] * scales[G::SCALES + column];
			}
		}
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

/* True if a group of int8 or fp8 ends after the sixteen elements at k. */
template <class G> DEVICE bool gemm_is_folded(const gemm_weight *w, int32_t k)
{
	if constexpr (!G::IS_GROUPED)
		return false;
	uint32_t next = (uint32_t)k + 16;
	return (next & ((1u << w->group_shift) - 1)) == 0 || (int32_t)next == w->k;
}

template <class G> DEVICE void gemm_pin(gemm_sums<G> *s)
{
	UNROLL
	for (int m = 0; m < G::MT; m++)
		UNROLL
		for (int n = 0; n < G::NT; n++)
			tile_pin(&s->v[m][n]);
}

/* Multiply the elements of K that lie in LDS, from k0 on. */
template <class G>
DEVICE void gemm_multiply_step(gemm_sums<G> *sum, gemm_sums<G> *part, const gemm_weight *w,
			       int32_t k0, const gemm_lds &at)
{
	if constexpr (G::IS_FOLDED) {
		UNROLL
		for (int k = 0; k < G::BK; k += G::FOLD)
			gemm_multiply_scaled(sum, at, k, at.scales + k / G::FOLD * G::BN);
		return;
	}
	UNROLL
	for (int k = 0; k < G::BK; k += 16) {
		gemm_multiply(G::HAS_SCALES ? part : sum, at.a, at.b, k);
		if constexpr (G::IS_SPLIT) {
			gemm_pin(sum); /* else the compiler loads everything first
				        * and spills */
			gemm_multiply(sum, at.a + G::A_HALVES, at.b, k);
			gemm_pin(sum);
		}
		if (gemm_is_folded<G>(w, k0 + k))
			gemm_fold(sum, part, at.scales + k / (G::FOLD ? G::FOLD : 1) * G::BN);
	}
}

DEVICE int32_t gemm_wave_m(int32_t waves_n)
{
	return (int32_t)wave_index() / waves_n;
}

DEVICE int32_t gemm_wave_n(int32_t waves_n)
{
	return (int32_t)wave_index() % waves_n;
}

/* Where the scales of the step at k0 lie. */
template <class G> DEVICE int32_t gemm_scales_at(int32_t k0, int32_t stage)
{
	if constexpr (G::IS_AHEAD)
		return (int32_t)((uint32_t)k0 / 32 % (2 * G::AHEAD) * G::BN);
	return stage * G::SIDE;
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
	gemm_load(&t, w, 0, a);
	gemm_stage(&t, w, 0, a, b, scales);
	group_barrier();
	int32_t row = gemm_wave_m(G::WAVES_N) * (G::MT * 16 * G::PITCH);
	int32_t column = gemm_wave_n(G::WAVES_N) * (G::NT * 16);
	uint32_t in_group = (1u << w->group_shift) - 1;
	for (int32_t k0 = 0, stage = 0; k0 < w->k; k0 += G::BK) {
		bool is_last = k0 + G::BK >= w->k;
		if (!is_last)
			gemm_load(&t, w, k0 + G::BK, a + (stage ^ 1) * A_STAGE);
		const float *s = scales + gemm_scales_at<G>(k0, stage) + column;
		gemm_lds at = {a + stage * A_STAGE + row,
			       b + stage * G::B_HALVES + column * G::PITCH, ones, s};
		gemm_multiply_step(sum, &part, w, k0, at);
		bool is_end = is_last || ((uint32_t)(k0 + G::BK) & in_group) == 0;
		if (G::FORMAT == GEMM_INT4 && is_end)
			gemm_fold(sum, &part, s);
		if (G::STAGES == 1)
			group_barrier();
		else
			stage ^= 1;
		if (!is_last)
			gemm_stage(&t, w, k0 + G::BK, a + stage * A_STAGE,
				   b + stage * G::B_HALVES,
				   scales + gemm_scales_at<G>(k0 + G::BK, stage));
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
