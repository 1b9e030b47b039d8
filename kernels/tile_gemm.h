/* SPDX-License-Identifier: Apache-2.0
 *
 * The tiled product that prefill is made of: a workgroup computes BM rows (tokens) by
 * BN columns (rows of the weight) of X W', for linear_tile.hip and moe_tile.hip, which
 * say where rows come from and where results go.
 *
 *   registers   each thread has pieces of the next step's X and W on their way from
 *               memory while the waves multiply the step that lies in LDS
 *   LDS         X and W of a step as 16-bit numbers, K contiguous, rows BK + 8 apart
 *               (an odd number of 16 bytes: rows in different banks); twice, so that a
 *               step costs one barrier (W bf16: once and two)
 *   W int4      nibble - zero, exact in f16, in the order of its word's pairs: 0 4 1 5
 *               2 6 3 7 of each eight. X is brought into the same order: a sum does not
 *               care. A group's sum is multiplied by its scale in f32, so nothing is
 *               rounded that the reference does not round, and no scale is too large
 *   W bf16      X is split in two bf16, whose sum it is exactly (f16 has 11 bits, bf16
 *               8): two products, and any bf16 is in range
 *   order       of a sum: K ascending, 16 at a time, groups added one after the other.
 *               It is the same in every shape: tiles may be chosen by M
 */
#pragma once
#include "kernels/tile_gemm_stage.h"

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

/* sum += part * scale of the column, f32; part = 0. scales: of this wave's columns. */
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

/* Sixteen of K. a, b: this wave's first row, at that K. */
template <class G>
DEVICE void gemm_multiply(gemm_sums<G> *s, const uint16_t *a, const uint16_t *b)
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
	}
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

/* The whole product of this block: *sum is this wave's part of it. */
template <class G, class X, class W>
DEVICE void gemm_run(const gemm_weight *w, X x_row, W w_row, gemm_sums<G> *sum)
{
	constexpr int A_STAGE = G::A_HALVES * (G::IS_SPLIT ? 2 : 1);
	LDS(uint16_t, a, G::STAGES * A_STAGE);
	LDS(uint16_t, b, G::STAGES * G::B_HALVES);
	LDS(float, scales, G::STAGES * G::SCALES);
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
		const float *s = scales + stage * G::SCALES + column;
		UNROLL
		for (int k = 0; k < G::BK; k += 16) {
			gemm_multiply<G>(G::IS_INT4 ? &part : sum, from_a + k, from_b + k);
			if constexpr (G::IS_SPLIT) {
				gemm_pin(sum); /* or all is loaded first, and spilled */
				gemm_multiply<G>(sum, from_a + G::A_HALVES + k, from_b + k);
				gemm_pin(sum);
			}
			if (G::FORMAT == GEMM_INT4_G32 && k % 32 == 16)
				gemm_fold(sum, &part, s + k / 32 * G::BN);
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
				   scales + stage * G::SCALES);
		group_barrier();
	}
}

/* of_column(n): a value for each column n of the block that this lane has part of;
 * f(m, n, x, value): each element of it. */
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
