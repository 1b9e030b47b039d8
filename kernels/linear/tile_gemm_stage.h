/* SPDX-License-Identifier: Apache-2.0
 *
 * The first half of tile_gemm.h: the copies of X and W from memory to LDS.
 */
#pragma once
#include "kernels/linear/tile_gemm_int4.h"

/* The address that all lanes of a wave share; *at is the lane's bytes from there. The lanes' rows
 * must be rows of one matrix, in rising order. */
template <class T> DEVICE const T *gemm_share(const T *p, uint32_t *at)
{
	uint64_t mine = (uint64_t)p;
	uint64_t all = (uint64_t)wave_uniform((uint32_t)(mine >> 32)) << 32 |
		       wave_uniform((uint32_t)mine);
	*at = (uint32_t)(mine - all);
	return (const T *)all;
}

/* Share the addresses of a unit's row. more: the lane's chunk is so many behind the shared one. */
template <int format>
DEVICE unit_row gemm_share_unit(unit_row row, uint32_t more, unit_beside *out)
{
	row.q = gemm_share(row.q, &out->row);
	out->piece = out->row + more * (format < WEIGHT_INT4 ? 32 : 16);
	out->byte = out->row + more;
	if constexpr (!is_block(format) && format >= WEIGHT_INT4)
		row.scales = gemm_share(row.scales, &out->scales);
	return row;
}

/* Where a thread's unit of the step at k0 is: that at the step's element `at`, or the row's first
 * one if that is beyond K. */
template <class G, bool is_whole>
DEVICE unit_spot gemm_unit_spot(int32_t k, int32_t k0, int32_t at)
{
	bool is_in = is_whole || k0 + at < k;
	unit_spot spot = {};
	if constexpr (G::BK == 32) {
		spot = unit_find_beside<G::UNIT>(k0, at / 16);
		if (!is_in)
			spot.chunk = -spot.more;
	} else {
		spot.chunk = unit_find<G::UNIT>(is_in ? k0 + at : 0, &spot.unit);
	}
	return spot;
}

/* Set up a thread's pieces. x_row(m) returns where a row of X begins, in elements from
 * gemm_weight.x, and w_row(n) a row of W; for all m < BM and n < BN the result is valid and
 * 16-byte aligned. */
template <class G, class X, class W>
DEVICE void gemm_begin(gemm_thread<G> *t, X x_row, W w_row)
{
	uint32_t thread = thread_index();
	UNROLL
	for (int j = 0; j < G::A_EACH; j++) {
		uint32_t i = thread + j * G::THREADS;
		uint32_t row = i / G::PIECES, piece = i % G::PIECES;
		t->a[j] = (uint32_t)x_row((int32_t)row) * 2 + piece * 16;
		t->a_at[j] = piece * 8;
		t->a_to[j] = tile_place<G::PIECES>(row, piece);
	}
	if constexpr (G::IS_INT4) {
		uint32_t i = thread * G::B_EACH;
		t->row = w_row((int32_t)(i / G::PIECES));
		t->b_at[0] = i % G::PIECES * 8;
		t->b_to[0] = tile_place<G::PIECES>(i / G::PIECES, i % G::PIECES);
		UNROLL
		for (int j = 0; j < G::ZEROS; j++)
			/* zeros of 8; they stay if the row has no zero points */
			t->zeros[j] = 0x88888888u;
	} else if constexpr (G::IS_UNITS) {
		constexpr int32_t EACH = G::BK / 16;
		UNROLL
		for (int j = 0; j < G::B_UNITS; j++) {
			uint32_t i = thread + j * G::THREADS;
			t->unit_line[j] = i / EACH;
			t->unit_at[j] = i % EACH * 16;
			t->unit_rows[j] = gemm_share_unit<G::UNIT>(
				w_row((int32_t)(i / EACH)).unit,
				(uint32_t)gemm_unit_spot<G, true>(0, 0, i % EACH * 16).more,
				&t->unit_besides[j]);
		}
	} else {
		UNROLL
		for (int j = 0; j < G::B_EACH; j++) {
			uint32_t i = thread + j * G::THREADS;
			uint32_t row = i / G::PIECES, piece = i % G::PIECES;
			t->b[j] = (const u32x4 *)w_row((int32_t)row).q + piece;
			t->b_at[j] = piece * 8;
			t->b_to[j] = tile_place<G::PIECES>(row, piece);
		}
	}
}

/* v if is_in, else zeros. */
DEVICE u32x4 gemm_only_if(bool is_in, u32x4 v)
{
	UNROLL
	for (int i = 0; i < 4; i++)
		v[i] = is_in ? (uint32_t)v[i] : 0;
	return v;
}

/* Start the loads of the step at k0. is_whole: all of it is within K. Otherwise elements beyond K
 * are read from the row's start, and x becomes zero there. */
template <class G, bool is_whole>
DEVICE void gemm_load_step(gemm_thread<G> *t, const gemm_weight *w, int32_t k0)
{
	if constexpr (G::IS_INT4) {
		gemm_load_int4<G, is_whole>(t, w, k0);
	} else if constexpr (G::IS_UNITS) {
		UNROLL
		for (int j = 0; j < G::B_UNITS; j++) {
			t->unit_spots[j] = gemm_unit_spot<G, is_whole>(
				w->k, k0, (int32_t)t->unit_at[j]);
			unit_load<G::UNIT, true>(t->unit_rows[j], w->unit, t->unit_spots[j],
						 &t->unit_piece[j], &t->unit_besides[j]);
		}
	} else {
		UNROLL
		for (int j = 0; j < G::B_EACH; j++) {
			bool is_in = is_whole || (uint32_t)k0 + t->b_at[j] < (uint32_t)w->k;
			const u32x4 *from = t->b[j] + (is_in ? k0 : -(int32_t)t->b_at[j]) / 8;
			t->b_piece[j] = gemm_only_if(is_in, load_global<u32x4>(from));
		}
	}
	UNROLL
	for (int j = 0; j < G::A_EACH; j++) {
		bool is_in = is_whole || (uint32_t)k0 + t->a_at[j] < (uint32_t)w->k;
		u32x4 x = load_global<u32x4>(
			is_whole ? address_beside(w->x + k0, &t->a[j])
				 : (const uint8_t *)w->x + t->a[j] +
					   2 * (is_in ? k0 : -(int32_t)t->a_at[j]));
		/* f16: gemm_stage_x, since the load would be waited for here */
		t->a_piece[j] = G::FORMAT == GEMM_F16 ? x : gemm_only_if(is_in, x);
	}
}

template <class G>
DEVICE void gemm_load(gemm_thread<G> *t, const gemm_weight *w, int32_t k0)
{
	if (G::IS_WHOLE || k0 + G::BK <= w->k)
		gemm_load_step<G, true>(t, w, k0);
	else
		gemm_load_step<G, false>(t, w, k0);
}

template <class G>
DEVICE void gemm_stage_units(const gemm_thread<G> *t, const gemm_weight *w, uint16_t *b,
			     float *scales)
{
	UNROLL
	for (int j = 0; j < G::B_UNITS; j++) {
		u32x4 h[2];
		float scale, min;
		uint32_t at = t->unit_at[j], row = t->unit_line[j];
		unit_take<G::UNIT>(t->unit_piece[j], w->unit, t->unit_spots[j], h, &scale, &min);
		if constexpr (G::UNIT == WEIGHT_NVFP4) {
			uint32_t two = f32_to_f16(scale) * 0x10001u;
			UNROLL
			for (int i = 0; i < 8; i++)
				h[i / 4][i % 4] = fma2_f16(h[i / 4][i % 4], two, 0);
		} else if constexpr (G::IS_SIDE_SHARED) {
			uint32_t is_min = at / 16;
			scales[is_min * G::SCALES + row] = unit_scale_or_min<G::UNIT>(
				t->unit_piece[j], t->unit_spots[j], is_min);
		} else if (at % G::FOLD == 0) {
			scales[at / G::FOLD * G::BN + row] = scale;
			if constexpr (G::HAS_MIN)
				scales[G::SCALES + at / G::FOLD * G::BN + row] = -min;
		}
		UNROLL
		for (int i = 0; i < 2; i++)
			*(u32x4 *)(b + tile_place<G::PIECES>(row, at / 8 + i)) = h[i];
	}
}

/* Store the sum of the inputs that share a scale. Lanes that follow each other hold their
 * pieces, and the first of them stores. */
template <class G>
DEVICE void gemm_stage_sum(const gemm_thread<G> *t, int32_t j, u32x4 piece, float *sums)
{
	constexpr uint32_t ONES = 0x3C003C00u; /* two halves of 1.0 */
	static_assert(G::FOLD == 16 || G::FOLD == 32, "two lanes or four");
	float sum = 0;
	UNROLL
	for (int i = 0; i < 4; i++)
		sum = dot2_f16(piece[i], ONES, sum);
	sum += wave_xor<1>(sum);
	if constexpr (G::FOLD == 32)
		sum += wave_xor<2>(sum);
	uint32_t row = (thread_index() + j * G::THREADS) / G::PIECES;
	if (t->a_at[j] % G::FOLD == 0)
		sums[t->a_at[j] / G::FOLD * G::BM + row] = sum;
}

template <class G>
DEVICE void gemm_stage_x(gemm_thread<G> *t, const gemm_weight *w, int32_t k0, uint16_t *a,
			 float *sums)
{
	bool is_whole = k0 + G::BK <= w->k;
	UNROLL
	for (int j = 0; j < G::A_EACH; j++) {
		uint16_t *to = a + t->a_to[j];
		u32x4 out = t->a_piece[j];
		if constexpr (G::FORMAT == GEMM_F16) {
			if (!is_whole)
				out = gemm_only_if((uint32_t)k0 + t->a_at[j] < (uint32_t)w->k, out);
		} else if constexpr (G::IS_INT4) {
			out = gemm_paired(out);
		} else if constexpr (G::IS_UNITS) {
			out = unit_order<G::UNIT>(out);
			if constexpr (G::HAS_MIN)
				gemm_stage_sum(t, j, out, sums);
		} else if constexpr (G::IS_SPLIT) {
			u32x4 v = out, low;
			UNROLL
			for (int i = 0; i < 4; i++) {
				uint32_t hi, lo;
				gemm_split(v[i], &hi, &lo);
				out[i] = hi;
				low[i] = lo;
			}
			*(u32x4 *)(to + G::A_HALVES) = low;
		}
		*(u32x4 *)to = out;
	}
}

/* Store the loaded pieces of the step at k0 to LDS. */
template <class G>
DEVICE void gemm_stage(gemm_thread<G> *t, const gemm_weight *w, int32_t k0,
		       const gemm_stages &to)
{
	gemm_stage_x(t, w, k0, to.a, to.sums);
	if constexpr (G::IS_INT4) {
		gemm_stage_words(t, t->word, to.b);
		if (k0 % G::AHEAD_K == 0) /* then the step has loaded some */
			gemm_stage_scales(t, w, to.scales);
	} else if constexpr (G::IS_UNITS) {
		gemm_stage_units(t, w, to.b, to.scales);
	} else {
		UNROLL
		for (int j = 0; j < G::B_EACH; j++)
			*(u32x4 *)(to.b + t->b_to[j]) = t->b_piece[j];
	}
}
