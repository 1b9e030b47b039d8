/* SPDX-License-Identifier: Apache-2.0
 *
 * The LDS of attention_rows.h, and the copies of keys and values into it.
 */
#pragma once
#include "kernels/attention/attention_job.h"

/* The constants of one shape. BLOCK: positions in LDS at once. SHARE: waves that have the
 * same 16 rows. Each of them multiplies a part of a block's keys, and sums a part of the
 * values' elements. BIDIRECTIONAL: tokens see up to attention_launch.last_seen. */
template <int KEY_, int VALUE_, int BLOCK_, int WAVES_, int SHARE_, bool BIDIRECTIONAL_ = false>
struct attention_rows_of {
	enum : int {
		KEY = KEY_, VALUE = VALUE_, BLOCK = BLOCK_, WAVES = WAVES_,
		SHARE = SHARE_, THREADS = WAVES * WAVE, ROWS = WAVES / SHARE * 16,
		/* rows of state: a wave keeps 16 for itself, even if it shares its rows */
		STATES = WAVES * 16,
		SCRATCH = ATTENTION_ROWS_SCRATCH(SHARE), /* halves of scratch for a wave */
		KEY_PITCH = KEY + 8,
		VALUE_PITCH = BLOCK + 8,
		/* A thread issues the loads of half a block at once, but at least two, and
		 * all where values overwrite the keys. */
		KEY_LOADS = BLOCK * KEY / 8 / THREADS,
		VALUE_LOADS = BLOCK * VALUE / 8 / THREADS,
		OVER = ATTENTION_ROWS_OVER(SHARE, WAVES), /* values overwrite the keys */
		KEY_HALF = OVER ? KEY_LOADS : KEY_LOADS > 2 ? KEY_LOADS / 2 : 2,
		VALUE_HALF = OVER ? VALUE_LOADS : VALUE_LOADS > 2 ? VALUE_LOADS / 2 : 2,
		SCORES = BLOCK / 16,      /* score tiles of a wave and block */
		PAIRS = BLOCK / 2,        /* pairs of positions */
		VALUE_TILES = VALUE / 16 / SHARE,
		SEGMENT = ATTENTION_SEGMENT / BLOCK
	};
	static constexpr bool FUSED = false, BY_ROWS = true, BIDIRECTIONAL = BIDIRECTIONAL_;
	static_assert(WAVES % SHARE == 0 && SCORES % SHARE == 0 && BLOCK <= VALUE &&
		      VALUE_TILES * 16 * SHARE == VALUE, "");
	static_assert(SEGMENT * BLOCK == ATTENTION_SEGMENT && KEY_LOADS >= 2 &&
		      KEY_LOADS * THREADS * 8 == BLOCK * KEY && SCORES % 2 == 0 &&
		      VALUE_LOADS * THREADS * 8 == BLOCK * VALUE && VALUE_LOADS % 2 == 0 &&
		      (int)WAVE % PAIRS == 0, "");
};

/* The LDS of a workgroup; its size is ATTENTION_ROWS_LDS, with `first` ATTENTION_BIDIRECTIONAL_LDS
 * more. */
template <class S> struct attention_rows_lds {
	uint16_t *q, *k;     /* (ROWS, KEY_PITCH) (BLOCK, KEY_PITCH) */
	uint16_t *v;         /* transposed: (VALUE, VALUE_PITCH) */
	uint16_t *scratch;   /* SHARE > 1: scratch of this wave alone */
	float *total;        /* (2, STATES): maximum and sum of all earlier segments */
	int32_t *last;       /* (STATES): last position that each row sees */
	uint32_t *place;     /* (2, BLOCK): index of each position's row in the pages; of
			      * positions that no row sees, of one that is seen */
	int32_t *first;      /* BIDIRECTIONAL: (STATES): first position that each row sees */
};

template <class S> DEVICE attention_rows_lds<S> attention_rows_lds_of(u32x4 *lds)
{
	attention_rows_lds<S> l;
	l.q = (uint16_t *)lds;
	l.k = l.q + S::ROWS * S::KEY_PITCH;
	l.v = S::OVER ? l.k : l.k + S::BLOCK * S::KEY_PITCH;
	uint16_t *scratch = l.k + ATTENTION_ROWS_BLOCK(S::KEY, S::VALUE, S::BLOCK, S::OVER);
	l.scratch = scratch + wave_index() * S::SCRATCH;
	l.total = (float *)(scratch + S::WAVES * S::SCRATCH);
	l.last = (int32_t *)(l.total + 2 * S::STATES);
	l.place = (uint32_t *)(l.last + S::STATES);
	l.first = (int32_t *)(l.place + 2 * S::BLOCK);
	return l;
}

/* This wave's first row. */
template <class S> DEVICE int32_t rows_first()
{
	return (int32_t)wave_index() / S::SHARE * 16;
}

/* This wave's number among those that share its rows. */
template <class S> DEVICE int32_t rows_part()
{
	return (int32_t)wave_index() % S::SHARE;
}

/* --- keys and values to LDS ------------------------------------------------------- */

/* Row of a thread's piece i, in a block of rows of DIM elements. */
template <class S, int DIM> DEVICE int32_t rows_row(int i)
{
	return (int32_t)thread_index() / (DIM / 8) + i * (S::THREADS / (DIM / 8));
}

template <class S, int DIM> DEVICE int32_t rows_at()
{
	static_assert(S::THREADS % (DIM / 8) == 0, "the same of all of a thread's pieces");
	return (int32_t)thread_index() % (DIM / 8) * 8;
}

/* Number of loads in half h, which has n pieces, or none if the block is one half only. */
template <class S, int DIM> DEVICE constexpr int rows_loads(int h, int n)
{
	return (h + 1) * n <= S::BLOCK * DIM / 8 / S::THREADS ? n : 0;
}

/* Elements [at, at + 8) of a row of `dim` elements. Past its end a row repeats its
 * first elements: queries are 0 there, and nobody stores such values. Both factors have 32 bits, so
 * the address is one multiply-add. */
DEVICE u32x4 rows_load(const uint16_t *pages, uint32_t row, int32_t dim, int32_t at)
{
	const char *first = (const char *)(pages + (at < dim ? at : 0));
	return load_global<u32x4>(first + (size_t)row * (size_t)((uint32_t)dim * 2));
}

/* Start the loads of half h of a thread's pieces. Positions that no row sees bring a row that
 * is seen. Their weights are 0, so nothing must be cleared. */
template <class S>
DEVICE void rows_ask_keys(const attention_launch &a, const uint32_t *place, int h, u32x4 *c)
{
	int32_t at = rows_at<S, S::KEY>();
	UNROLL
	for (int i = 0; i < rows_loads<S, S::KEY>(h, S::KEY_HALF); i++)
		c[i] = rows_load(a.k, place[rows_row<S, S::KEY>(h * S::KEY_HALF + i)], a.head_dim,
				 at);
}

template <class S>
DEVICE void rows_land_keys(int h, const u32x4 *c, const attention_rows_lds<S> &l)
{
	int32_t at = rows_at<S, S::KEY>();
	UNROLL
	for (int i = 0; i < rows_loads<S, S::KEY>(h, S::KEY_HALF); i++)
		*(u32x4 *)(l.k + rows_row<S, S::KEY>(h * S::KEY_HALF + i) * S::KEY_PITCH + at) =
			c[i];
}

/* First element of a thread's piece i of the values. A thread takes two neighbouring positions,
 * and neighbouring threads take neighbouring pairs. So each thread stores a word, and the words
 * of a wave are contiguous. */
template <class S> DEVICE int32_t rows_value_at(int h, int i)
{
	return (h * S::VALUE_HALF + i) / 2 * (S::THREADS / S::PAIRS * 8) +
	       (int32_t)thread_index() / S::PAIRS * 8;
}

template <class S> DEVICE int32_t rows_value_pair()
{
	return (int32_t)thread_index() % S::PAIRS;
}

template <class S>
DEVICE void rows_ask_values(const attention_launch &a, const uint32_t *place, int h, u32x4 *c)
{
	UNROLL
	for (int i = 0; i < rows_loads<S, S::VALUE>(h, S::VALUE_HALF); i++)
		c[i] = rows_load(a.v, place[2 * rows_value_pair<S>() + i % 2], a.v_dim,
				 rows_value_at<S>(h, i));
}

template <class S>
DEVICE void rows_land_values(int h, const u32x4 *c, const attention_rows_lds<S> &l)
{
	UNROLL
	for (int i = 0; i < rows_loads<S, S::VALUE>(h, S::VALUE_HALF); i += 2) {
		int32_t at = rows_value_at<S>(h, i);
		uint32_t *to = (uint32_t *)(l.v + at * S::VALUE_PITCH) + rows_value_pair<S>();
		UNROLL
		for (int w = 0; w < 4; w++) {
			uint32_t x = c[i][w], y = c[i + 1][w];
			to[2 * w * S::VALUE_PITCH / 2] = permute_bytes<0x5410>(x, y);
			to[(2 * w + 1) * S::VALUE_PITCH / 2] = permute_bytes<0x7632>(x, y);
		}
	}
}
