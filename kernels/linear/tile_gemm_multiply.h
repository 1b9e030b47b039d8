/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of tile_gemm.h: a wave's products of the numbers that lie in LDS, and their sums.
 */
#pragma once
#include "kernels/linear/tile_gemm_shape.h"

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

/* True if tile m of a wave's rows is left out: only where not all are used, n_used then says
 * how many are. The same in all lanes of a wave. */
template <bool is_whole> DEVICE bool gemm_is_unused(int32_t m, int32_t n_used)
{
	return !is_whole && m >= n_used;
}

/* Multiply the sixteen elements of the step at k. a, b: this wave's first rows. */
template <class G, bool is_whole>
DEVICE void gemm_multiply(gemm_sums<G> *s, const uint16_t *a, const uint16_t *b, int32_t k,
			  int32_t n_used)
{
	constexpr int F = G::TILES, P = G::PIECES;
	tile_b<F> columns[G::NT];
	UNROLL
	for (int n = 0; n < G::NT; n++)
		columns[n] = tile_load_b_placed<F, P>(b, n * 16 * G::PITCH, k / 8);
	UNROLL
	for (int m = 0; m < G::MT; m++) {
		if (gemm_is_unused<is_whole>(m, n_used))
			continue;
		tile_a<F> rows = tile_load_a_placed<F, P>(a, m * 16 * G::PITCH, k / 8);
		UNROLL
		for (int n = 0; n < G::NT; n++)
			s->v[m][n] = tile_mma(rows, columns[n], s->v[m][n]);
	}
}

/* What a wave multiplies: its first rows of X and W, the scale of the lane's first column. */
struct gemm_lds {
	const uint16_t *a, *b;
	const float *scales, *sums; /* sums: of its rows' inputs, where W has minima */
};

/* FOLD elements of K, which have one scale a column: a wave's columns of W with a lane's scales,
 * sixteen rows of X, and the product of both without the scales. */
template <class G> struct gemm_columns {
	tile_b<G::TILES> w[G::FOLD / 16][G::NT];
	float scale[G::NT][TILE_C], minus[G::NT][TILE_C]; /* minus: negated minima */
};
template <class G> struct gemm_fold_rows {
	tile_a<G::TILES> x[G::FOLD / 16];
};
template <class G> struct gemm_part {
	tile_c v[G::NT];
};

template <class G>
DEVICE void gemm_load_columns(const gemm_lds &at, int32_t k0, gemm_columns<G> *out)
{
	UNROLL
	for (int n = 0; n < G::NT; n++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int32_t column = n * 16 + tile_column(i) - tile_column(0);
			out->scale[n][i] = at.scales[column];
			if constexpr (G::HAS_MIN)
				out->minus[n][i] = at.scales[G::SCALES + column];
		}
	UNROLL
	for (int k = 0; k < G::FOLD / 16; k++)
		UNROLL
		for (int n = 0; n < G::NT; n++)
			out->w[k][n] = tile_load_b_placed<G::TILES, G::PIECES>(
				at.b, n * 16 * G::PITCH, k0 / 8 + k * 2);
}

/* Tile m of a wave's rows. */
template <class G>
DEVICE void gemm_load_rows(const gemm_lds &at, int m, int32_t k0, gemm_fold_rows<G> *out)
{
	UNROLL
	for (int k = 0; k < G::FOLD / 16; k++)
		out->x[k] = tile_load_a_placed<G::TILES, G::PIECES>(at.a, m * 16 * G::PITCH,
								    k0 / 8 + k * 2);
}

template <class G>
DEVICE void gemm_products(const gemm_fold_rows<G> &rows, const gemm_columns<G> &columns,
			  gemm_part<G> *out)
{
	UNROLL
	for (int n = 0; n < G::NT; n++)
		out->v[n] = tile_product(rows.x[0], columns.w[0][n]);
	UNROLL
	for (int k = 1; k < G::FOLD / 16; k++)
		UNROLL
		for (int n = 0; n < G::NT; n++)
			out->v[n] = tile_mma(rows.x[k], columns.w[k][n], out->v[n]);
}

/* sum + the negated minimum of column n times the sum of inputs, which two columns share. gfx11
 * does two of these in one instruction, unless both read a register as the same operand. */
DEVICE float gemm_add_minus(float all, float minus, int n, float sum)
{
	return n % 2 ? fma_f32(minus, all, sum) : fma_f32(all, minus, sum);
}

/* Multiply FOLD elements of K, and add them with their scales. One row of tiles after
 * another waits for its scales, so a wave needs registers for NT sums without scale, not
 * for MT times as many. `at` has the scales of these elements, and the sums of X. */
template <class G, bool is_whole>
DEVICE void gemm_multiply_scaled(gemm_sums<G> *sum, const gemm_lds &at, int32_t k0,
				 int32_t n_used)
{
	gemm_columns<G> columns;
	gemm_load_columns(at, k0, &columns);
	UNROLL
	for (int m = 0; m < G::MT; m++) {
		if (gemm_is_unused<is_whole>(m, n_used))
			continue;
		gemm_fold_rows<G> rows;
		gemm_part<G> part;
		float all[TILE_C];
		gemm_load_rows(at, m, k0, &rows);
		if constexpr (G::HAS_MIN)
			UNROLL
			for (int i = 0; i < TILE_C; i++)
				all[i] = at.sums[m * 16 + tile_row(i)];
		gemm_products(rows, columns, &part);
		if constexpr (G::HAS_MIN) /* else columns wait apart, and do not pair */
			schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			UNROLL
			for (int n = 0; n < G::NT; n++)
				sum->v[m][n].v[i] += part.v[n].v[i] * columns.scale[n][i];
		if constexpr (G::HAS_MIN)
			UNROLL
			for (int i = 0; i < TILE_C; i++)
				UNROLL
				for (int n = 0; n < G::NT; n++)
					sum->v[m][n].v[i] = gemm_add_minus(
						all[i], columns.minus[n][i], n, sum->v[m][n].v[i]);
		if constexpr (G::HAS_MIN) /* else all is loaded first, and registers spill */
			UNROLL
			for (int n = 0; n < G::NT; n++)
				tile_pin(&sum->v[m][n]);
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

/* Multiply the elements of K that lie in LDS. */
template <class G, bool is_whole>
DEVICE void gemm_multiply_step(gemm_sums<G> *sum, const gemm_lds &at, int32_t n_used)
{
	if constexpr (G::HAS_SCALES) {
		UNROLL
		for (int k = 0; k < G::BK; k += G::FOLD) {
			gemm_lds fold = at;
			fold.scales += k / G::FOLD * G::BN;
			fold.sums += k / G::FOLD * G::BM;
			gemm_multiply_scaled<G, is_whole>(sum, fold, k, n_used);
		}
		return;
	}
	UNROLL
	for (int k = 0; k < G::BK; k += 16) {
		gemm_multiply<G, is_whole>(sum, at.a, at.b, k, n_used);
		if constexpr (G::IS_SPLIT) {
			gemm_pin(sum); /* else the compiler loads everything first
				        * and spills */
			gemm_multiply<G, is_whole>(sum, at.a + G::A_HALVES, at.b, k, n_used);
			gemm_pin(sum);
		}
	}
}
