/* SPDX-License-Identifier: Apache-2.0
 *
 * The first half of tile_gemm.h: the shape of a block, and the copies of X and W from
 * memory through registers to LDS.
 */
#pragma once
#include "kernels/linear/tile_gemm_host.h"
#include "kernels/weights/unit_take.h"

/* Elements of K between two scalings of a sum, for formats in units. It is a unit, or two
 * units with a common scale. NVFP4's scales are multiplied into the halves, since e2m1
 * times e4m3 is exact in f16. Groups of int8 and fp8 have 32 or more elements. */
constexpr int gemm_unit_fold(int format)
{
	return unit_scales_16(format) ? 16 : 32;
}

template <int FORMAT_, int BM_, int BN_, int BK_, int WM_, int WN_> struct gemm_tile {
	static constexpr int FORMAT = FORMAT_, BM = BM_, BN = BN_, BK = BK_, WAVES_N = WN_;
	static constexpr int THREADS = WM_ * WN_ * WAVE;
	static constexpr bool IS_INT4 = FORMAT == GEMM_INT4 || FORMAT == GEMM_INT4_G32;
	static constexpr bool IS_SPLIT = FORMAT == GEMM_BF16;
	static constexpr bool IS_UNITS = FORMAT >= GEMM_UNITS;
	static constexpr int UNIT = IS_UNITS ? FORMAT - GEMM_UNITS : WEIGHT_F16;
	static constexpr bool HAS_SCALES = IS_INT4 || (IS_UNITS && UNIT != WEIGHT_NVFP4);
	static constexpr bool HAS_MIN = IS_UNITS && unit_has_min(UNIT);
	/* 0: scale where a group ends, at the end of a step */
	static constexpr int FOLD = FORMAT == GEMM_INT4_G32 ? 32
				    : IS_UNITS		    ? gemm_unit_fold(UNIT)
							    : 0;
	static constexpr int STAGES = IS_SPLIT ? 1 : 2;
	static constexpr int TILES = IS_SPLIT ? TILE_BF16 : TILE_F16;
	static constexpr int MT = BM / 16 / WM_, NT = BN / 16 / WN_; /* tiles of a wave */
	static constexpr int PITCH = BK + 8;
	static constexpr int PIECES = BK / 8; /* pieces (eight numbers) of a row */
	static constexpr int A_EACH = BM * PIECES / THREADS; /* pieces that a thread loads */
	static constexpr int B_EACH = BN * PIECES / THREADS;
	static constexpr int B_UNITS = IS_UNITS ? BN * (BK / 16) / THREADS : 1;
	static constexpr int FOLDS = FOLD ? BK / (FOLD ? FOLD : 1) : 1; /* scalings in a step */
	static constexpr int A_HALVES = BM * PITCH, B_HALVES = BN * PITCH; /* in halves */
	static constexpr int SCALES = HAS_SCALES ? FOLDS * BN : 1; /* minima follow */
	static constexpr int SIDE = SCALES * (HAS_MIN ? 2 : 1);
	static_assert(A_EACH * THREADS == BM * PIECES && B_EACH * THREADS == BN * PIECES,
		      "pieces divide evenly");
	static_assert(!IS_UNITS || B_UNITS * THREADS == BN * (BK / 16), "so do units");
	static_assert(!IS_INT4 || B_EACH == 2 || B_EACH == 4, "words of one load");
};

/* A row of a weight. zeros is NULL if every zero is 8. */
struct gemm_row {
	const void *q;
	const uint16_t *scales;
	const uint32_t *zeros;
	uint32_t zero_shift;
	unit_row unit; /* used alone if the format is in units */
};

/* The properties that all rows of a weight share. */
struct gemm_weight {
	int32_t k;           /* multiple of 32 for int4, else of 8 */
	int32_t group_shift; /* log2(group) >= 5; 31: one group a row */
	bool is_bf16;        /* the scales are bf16 */
	unit_weight unit;
};

/* Where a thread's pieces come from, and pieces being loaded. */
template <class G> struct gemm_thread {
	const u32x4 *a[G::A_EACH];
	int32_t a_at[G::A_EACH], a_to[G::A_EACH]; /* element of K; place in LDS */
	gemm_row row; /* int4: the thread's only row */
	const u32x4 *b[G::B_EACH]; /* W of other formats */
	int32_t b_at[G::B_EACH], b_to[G::B_EACH];
	u32x4 a_piece[G::A_EACH], b_piece[G::IS_INT4 ? 1 : G::B_EACH];
	uint32_t word[4], zero;
	uint16_t scale;
	unit_row unit_rows[G::B_UNITS];
	int32_t unit_at[G::B_UNITS], unit_line[G::B_UNITS]; /* element of K; row in the block */
	int32_t unit_chunk[G::B_UNITS], unit_number[G::B_UNITS]; /* of the unit that is loaded */
	unit_raw unit_piece[G::B_UNITS];
};

DEVICE uint32_t gemm_pair_lo(uint32_t a, uint32_t b)
{
	return (a & 0xFFFFu) | b << 16;
}

DEVICE uint32_t gemm_pair_hi(uint32_t a, uint32_t b)
{
	return a >> 16 | (b & 0xFFFF0000u);
}

/* Set up a thread's pieces. x_row(m) and w_row(n) return rows of X and W; for all m < BM
 * and n < BN the result is valid and 16-byte aligned. */
template <class G, class X, class W>
DEVICE void gemm_begin(gemm_thread<G> *t, X x_row, W w_row)
{
	int32_t thread = (int32_t)thread_index();
	UNROLL
	for (int j = 0; j < G::A_EACH; j++) {
		int32_t i = thread + j * G::THREADS;
		int32_t row = i / G::PIECES, piece = i % G::PIECES;
		t->a[j] = (const u32x4 *)x_row(row) + piece;
		t->a_at[j] = piece * 8;
		t->a_to[j] = row * G::PITCH + piece * 8;
	}
	if constexpr (G::IS_INT4) {
		int32_t i = thread * G::B_EACH;
		t->row = w_row(i / G::PIECES);
		t->b_at[0] = i % G::PIECES * 8;
		t->b_to[0] = i / G::PIECES * G::PITCH + i % G::PIECES * 8;
	} else if constexpr (G::IS_UNITS) {
		constexpr int32_t EACH = G::BK / 16;
		UNROLL
		for (int j = 0; j < G::B_UNITS; j++) {
			int32_t i = thread + j * G::THREADS;
			t->unit_line[j] = i / EACH;
			t->unit_at[j] = i % EACH * 16;
			t->unit_rows[j] = w_row(i / EACH).unit;
		}
	} else {
		UNROLL
		for (int j = 0; j < G::B_EACH; j++) {
			int32_t i = thread + j * G::THREADS;
			int32_t row = i / G::PIECES, piece = i % G::PIECES;
			t->b[j] = (const u32x4 *)w_row(row).q + piece;
			t->b_at[j] = piece * 8;
			t->b_to[j] = row * G::PITCH + piece * 8;
		}
	}
}

template <int N> DEVICE void gemm_load_words(const uint32_t *q, uint32_t *out)
{
	if constexpr (N == 4) {
		u32x4 v = load_global<u32x4>(q);
		UNROLL
		for (int i = 0; i < 4; i++)
			out[i] = v[i];
	} else {
		u32x2 v = load_global<u32x2>(q);
		out[0] = v[0];
		out[1] = v[1];
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

/* Start the loads of the step at k0. is_whole: all of the step is within K. Otherwise
 * elements beyond K are read from the row's start, and x becomes zero there. */
template <class G, bool is_whole>
DEVICE void gemm_load_step(gemm_thread<G> *t, const gemm_weight *w, int32_t k0)
{
	if constexpr (G::IS_INT4) {
		int32_t at = k0 + t->b_at[0];
		at = is_whole || at < w->k ? at : 0;
		gemm_load_words<G::B_EACH>((const uint32_t *)t->row.q + at / 8, t->word);
		int32_t group = at >> w->group_shift;
		t->scale = load_global<uint16_t>(t->row.scales + group);
		const uint32_t *zeros = t->row.zeros ? t->row.zeros + group : NULL;
		t->zero = zeros ? load_global<uint32_t>(zeros) >> t->row.zero_shift & 15 : 8;
	} else if constexpr (G::IS_UNITS) {
		UNROLL
		for (int j = 0; j < G::B_UNITS; j++) {
			int32_t at = k0 + t->unit_at[j];
			at = is_whole || at < w->k ? at : 0;
			t->unit_chunk[j] = unit_find<G::UNIT>(at, &t->unit_number[j]);
			unit_load<G::UNIT>(t->unit_rows[j], w->unit, t->unit_chunk[j],
					   &t->unit_piece[j]);
		}
	} else {
		UNROLL
		for (int j = 0; j < G::B_EACH; j++) {
			bool is_in = is_whole || k0 + t->b_at[j] < w->k;
			const u32x4 *from = t->b[j] + (is_in ? k0 : -t->b_at[j]) / 8;
			t->b_piece[j] = gemm_only_if(is_in, load_global<u32x4>(from));
		}
	}
	UNROLL
	for (int j = 0; j < G::A_EACH; j++) {
		bool is_in = is_whole || k0 + t->a_at[j] < w->k;
		const u32x4 *from = t->a[j] + (is_in ? k0 : -t->a_at[j]) / 8;
		t->a_piece[j] = gemm_only_if(is_in, load_global<u32x4>(from));
	}
}

template <class G>
DEVICE void gemm_load(gemm_thread<G> *t, const gemm_weight *w, int32_t k0)
{
	if (k0 + G::BK <= w->k)
		gemm_load_step<G, true>(t, w, k0);
	else
		gemm_load_step<G, false>(t, w, k0);
}

/* The eight int4 of a word minus zero. Both halves of `minus` are 1024 + zero. Nibbles
 * that stand four bits up are 1024 + 16 n and are scaled by 1/16; for these both halves
 * of `plus` are -(64 + zero). */
DEVICE u32x4 gemm_int4(uint32_t q, uint32_t minus, uint32_t plus)
{
	uint32_t high = q >> 8;
	u32x4 out;
	out[0] = sub2_f16(and_or(q, 0x000F000Fu, 0x64006400u), minus);
	out[1] = fma2_f16(and_or(q, 0x00F000F0u, 0x64006400u), 0x2C002C00u, plus);
	out[2] = sub2_f16(and_or(high, 0x000F000Fu, 0x64006400u), minus);
	out[3] = fma2_f16(and_or(high, 0x00F000F0u, 0x64006400u), 0x2C002C00u, plus);
	return out;
}

/* Split two f16 into bf16: high is the upper half of each f32, low the remainder. */
DEVICE void gemm_split(uint32_t pair, uint32_t *high, uint32_t *low)
{
	float x = f16_to_f32((uint16_t)pair), y = f16_to_f32((uint16_t)(pair >> 16));
	uint32_t a = bits_cast<uint32_t>(x), b = bits_cast<uint32_t>(y);
	*high = a >> 16 | (b & 0xFFFF0000u);
	x -= bits_cast<float>(a & 0xFFFF0000u);
	y -= bits_cast<float>(b & 0xFFFF0000u);
	*low = bits_cast<uint32_t>(x) >> 16 | (bits_cast<uint32_t>(y) & 0xFFFF0000u);
}

template <class G>
DEVICE void gemm_stage_units(const gemm_thread<G> *t, const gemm_weight *w, uint16_t *b,
			     float *scales)
{
	UNROLL
	for (int j = 0; j < G::B_UNITS; j++) {
		u32x4 h[2];
		float scale, min;
		int32_t at = t->unit_at[j], row = t->unit_line[j];
		unit_take<G::UNIT>(t->unit_piece[j], w->unit, t->unit_chunk[j],
				   t->unit_number[j], h, &scale, &min);
		if constexpr (G::UNIT == WEIGHT_NVFP4) {
			uint32_t two = f32_to_f16(scale) * 0x10001u;
			UNROLL
			for (int i = 0; i < 8; i++)
				h[i / 4][i % 4] = fma2_f16(h[i / 4][i % 4], two, 0);
		} else if (at % G::FOLD == 0) {
			scales[at / G::FOLD * G::BN + row] = scale;
			if constexpr (G::HAS_MIN)
				scales[G::SCALES + at / G::FOLD * G::BN + row] = min;
		}
		u32x4 *to = (u32x4 *)(b + row * G::PITCH + at);
		to[0] = h[0];
		to[1] = h[1];
	}
}

/* Store the loaded pieces to LDS. */
template <class G>
DEVICE void gemm_stage(const gemm_thread<G> *t, const gemm_weight *w, uint16_t *a,
		       uint16_t *b, float *scales)
{
	UNROLL
	for (int j = 0; j < G::A_EACH; j++) {
		u32x4 v = t->a_piece[j], out = v;
		if constexpr (G::IS_INT4) {
			out[0] = gemm_pair_lo(v[0], v[2]);
			out[1] = gemm_pair_hi(v[0], v[2]);
			out[2] = gemm_pair_lo(v[1], v[3]);
			out[3] = gemm_pair_hi(v[1], v[3]);
		} else if constexpr (G::IS_UNITS) {
			out = unit_order<G::UNIT>(v);
		} else if constexpr (G::IS_SPLIT) {
			u32x4 low;
			UNROLL
			for (int i = 0; i < 4; i++) {
				uint32_t hi, lo;
				gemm_split(v[i], &hi, &lo);
				out[i] = hi;
				low[i] = lo;
			}
			*(u32x4 *)(a + G::A_HALVES + t->a_to[j]) = low;
		}
		*(u32x4 *)(a + t->a_to[j]) = out;
	}
	if constexpr (G::IS_INT4) {
		uint32_t minus = 0x64006400u | t->zero * 0x00010001u;
		uint32_t plus = 0xD400D400u | t->zero * 0x00100010u;
		UNROLL
		for (int i = 0; i < G::B_EACH; i++)
			*(u32x4 *)(b + t->b_to[0] + i * 8) =
				gemm_int4(t->word[i], minus, plus);
		if (t->b_at[0] % 32 == 0 && t->b_at[0] / 32 < G::FOLDS)
			scales[t->b_at[0] / 32 * G::BN + t->b_to[0] / G::PITCH] =
				w->is_bf16 ? bf16_to_f32(t->scale) : f16_to_f32(t->scale);
	} else if constexpr (G::IS_UNITS) {
		gemm_stage_units(t, w, b, scales);
	} else {
		UNROLL
		for (int j = 0; j < G::B_EACH; j++)
			*(u32x4 *)(b + t->b_to[j]) = t->b_piece[j];
	}
}
