/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a block of tile_gemm.h, its weight's rows, and what a thread loads.
 */
#pragma once
#include "kernels/linear/tile_gemm_host.h"
#include "kernels/weights/unit_take.h"

/* Elements of K between two scalings of a sum, for formats in units. It is a unit, or two
 * units with a common scale. NVFP4's scales are multiplied into the halves, since e2m1
 * times e4m3 is exact in f16. A larger group's scale is applied to each 32 elements. */
constexpr int gemm_unit_fold(int format)
{
	return unit_scales_16(format) ? 16 : 32;
}

template <int FORMAT_, int BM_, int BN_, int BK_, int WM_, int WN_> struct gemm_tile {
	static constexpr int FORMAT = FORMAT_, BM = BM_, BN = BN_, BK = BK_, WAVES_N = WN_;
	static constexpr int THREADS = WM_ * WN_ * WAVE;
	static constexpr bool HAS_ZEROS = FORMAT == GEMM_INT4_ZERO;
	static constexpr bool IS_INT4 = FORMAT == GEMM_INT4 || HAS_ZEROS;
	static constexpr bool IS_SPLIT = FORMAT == GEMM_BF16;
	static constexpr bool IS_UNITS = FORMAT >= GEMM_UNITS;
	static constexpr int UNIT = IS_UNITS ? FORMAT - GEMM_UNITS : WEIGHT_F16;
	static constexpr bool HAS_SCALES = IS_INT4 || (IS_UNITS && UNIT != WEIGHT_NVFP4);
	static constexpr bool HAS_MIN = IS_UNITS && unit_has_min(UNIT);
	static constexpr int FOLD = IS_INT4 ? 32 : IS_UNITS ? gemm_unit_fold(UNIT) : 0;
	/* Each step is within K: steps of 32, where K is whole groups or chunks of 32. */
	static constexpr bool IS_WHOLE =
		BK == 32 && (IS_INT4 || (IS_UNITS && unit_chunk(UNIT) % 32 == 0));
	/* LDS bounds the waves in flight of small workgroups, and registers those of large ones. */
	static constexpr int STAGES = IS_SPLIT || THREADS < 256 ? 1 : 2;
	static constexpr int TILES = IS_SPLIT ? TILE_BF16 : TILE_F16;
	static constexpr int MT = BM / 16 / WM_, NT = BN / 16 / WN_; /* tiles of a wave */
	static constexpr int PITCH = BK;
	static constexpr int PIECES = BK / 8; /* pieces (eight numbers) of a row */
	static constexpr int A_EACH = BM * PIECES / THREADS; /* pieces that a thread loads */
	static constexpr int B_EACH = BN * PIECES / THREADS;
	static constexpr int B_UNITS = IS_UNITS ? BN * (BK / 16) / THREADS : 1;
	static constexpr int FOLDS = FOLD ? BK / (FOLD ? FOLD : 1) : 1; /* scalings in a step */
	/* Two lanes stage a row's scale and minimum, one each. */
	static constexpr bool IS_SIDE_SHARED = HAS_MIN && FOLD == 32 && BK == 32;
	static constexpr int A_HALVES = BM * PITCH, B_HALVES = BN * PITCH; /* sizes in halves */
	static constexpr int A_STAGE = A_HALVES * (IS_SPLIT ? 2 : 1);
	static constexpr int SUMS = HAS_MIN ? FOLDS * BM : 1; /* sums of X that minima multiply */
	static constexpr int SCALES = HAS_SCALES ? FOLDS * BN : 1; /* negated minima follow */
	/* int4: LDS has the scales of AHEAD times 32 elements of K, and those of the next
	 * AHEAD times 32. A thread loads some of its row's. */
	static constexpr int AHEAD = 4, AHEAD_K = AHEAD * 32;
	static constexpr int AHEAD_EACH = IS_INT4 ? AHEAD * B_EACH / PIECES : 1;
	/* words of zero points that a thread loads */
	static constexpr int ZEROS = HAS_ZEROS && B_EACH == 8 ? 2 : 1;
	static constexpr int SIDE = IS_INT4 ? AHEAD * BN : SCALES * (HAS_MIN ? 2 : 1);
	static_assert(A_EACH * THREADS == BM * PIECES && B_EACH * THREADS == BN * PIECES,
		      "pieces divide evenly");
	static_assert(!IS_UNITS || B_UNITS * THREADS == BN * (BK / 16), "so do units");
	static_assert(!IS_INT4 || B_EACH == 2 || B_EACH == 4 || B_EACH == 8, "whole loads");
};

/* A row of a weight. zeros: of GEMM_INT4_ZERO, NULL if every zero of the row is 8. */
struct gemm_row {
	const void *q;
	const uint16_t *scales;
	const uint32_t *zeros;
	uint32_t zero_shift;
	unit_row unit; /* the only field in use if the format is in units */
};

/* The properties that all rows of a weight share. */
struct gemm_weight {
	int32_t k;           /* multiple of 32 for int4, else of 8 */
	int32_t group_shift; /* log2(group) >= 5; 31: one group a row */
	bool is_bf16;        /* the scales are bf16 */
	unit_weight unit;
	const uint16_t *x;   /* X; rows begin less than 2^32 bytes on */
};

/* LDS of one step, or of both buffers: X, W, scales of W's rows with the negated minima
 * behind them, sums of X's rows. */
struct gemm_stages {
	uint16_t *a, *b;
	float *scales, *sums;
};

/* Addresses of a thread's pieces, and the pieces that are being loaded. */
template <class G> struct gemm_thread {
	uint32_t a[G::A_EACH]; /* bytes from gemm_weight.x: half the registers of an address */
	uint32_t a_at[G::A_EACH], a_to[G::A_EACH]; /* element of K; place in LDS */
	gemm_row row; /* int4: the thread's only row */
	const u32x4 *b[G::B_EACH]; /* W of other formats */
	uint32_t b_at[G::B_EACH], b_to[G::B_EACH];
	u32x4 a_piece[G::A_EACH], b_piece[G::IS_INT4 ? 1 : G::B_EACH];
	uint32_t word[G::IS_INT4 ? G::B_EACH : 1], zeros[G::ZEROS];
	uint32_t scales[(G::AHEAD_EACH + 1) / 2]; /* halves, two a word */
	unit_row unit_rows[G::B_UNITS];
	unit_beside unit_besides[G::B_UNITS];
	uint32_t unit_at[G::B_UNITS], unit_line[G::B_UNITS]; /* element of K; row in the block */
	unit_spot unit_spots[G::B_UNITS]; /* of the units being loaded */
	unit_raw unit_piece[G::B_UNITS];
};
