/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole kernel of attention.hip where a wave keeps 16 rows to itself: their scores,
 * weights and sums are in its registers, and only keys, values and queries are in LDS.
 * Two barriers a block: while scores are made and weighed the block's values are on
 * their way, while values are added up the next block's keys. A row's bits are those of
 * attention_block.h: the same products in the same order, the same arithmetic on them.
 * (Dao, FlashAttention-2, 2023, has this division of work.) Keys and values are of a
 * multiple of eight elements.
 */
#pragma once
#include "kernels/attention/attention_block.h"
#include "kernels/attention/attention_result.h"

/* BLOCK: positions that are in LDS at once; one step where copies take registers. */
template <int KEY_, int VALUE_, int BLOCK_, int STEP_, int WAVES_>
struct attention_rows_of {
	enum : int {
		KEY = KEY_, VALUE = VALUE_, STEP = STEP_, WAVES = WAVES_,
		STEPS = COPY_LANDS ? 1 : BLOCK_ / STEP, BLOCK = STEP * STEPS,
		THREADS = WAVES * WAVE, ROWS = WAVES * 16,
		KEY_PITCH = KEY + 8,
		VALUE_PITCH = TILE_LINES_B ? BLOCK + 8 : VALUE + 8,
		/* Loads at once: of half a block, but no less than two. */
		KEY_LOADS = BLOCK * KEY / 8 / THREADS,
		VALUE_LOADS = BLOCK * VALUE / 8 / THREADS,
		KEY_HALF = KEY_LOADS > 2 ? KEY_LOADS / 2 : 2,
		VALUE_HALF = VALUE_LOADS > 2 ? VALUE_LOADS / 2 : 2,
		SCORES = STEP / 16,       /* tiles of a wave and step */
		PAIRS = BLOCK / 2,        /* of positions */
		VALUE_TILES = VALUE / 16,
		SEGMENT = ATTENTION_SEGMENT / BLOCK
	};
	static constexpr bool FRESH = false;
	static_assert(SEGMENT * BLOCK == ATTENTION_SEGMENT && WAVES == (int)ATTENTION_WAVES &&
		      KEY_LOADS * THREADS * 8 == BLOCK * KEY && SCORES % 2 == 0 &&
		      VALUE_LOADS * THREADS * 8 == BLOCK * VALUE && VALUE_LOADS % 2 == 0 &&
		      (int)WAVE % PAIRS == 0, "");
};

/* LDS of a workgroup: ATTENTION_ROWS_LDS. */
template <class S> struct attention_rows_lds {
	uint16_t *q, *k;     /* (ROWS, KEY_PITCH) (BLOCK, KEY_PITCH) */
	uint16_t *v;         /* (BLOCK, VALUE_PITCH), or (VALUE, VALUE_PITCH) */
	uint16_t *scratch;   /* the wave's */
	float *total;        /* (2, ROWS): maximum and sum of the segments so far */
	int32_t *last;       /* (ROWS): position of the row */
	uint32_t *place;     /* (2, BLOCK): rows of the pages */
};

/* A wave's rows. */
template <class S> struct attention_rows_sums {
	tile_c part[S::VALUE_TILES], total[S::VALUE_TILES];
	float max[TILE_ROWS], sum[TILE_ROWS]; /* of the segment */
};

template <class S> DEVICE attention_rows_lds<S> attention_rows_lds_of(u32x4 *lds)
{
	attention_rows_lds<S> l;
	l.q = (uint16_t *)lds;
	l.k = l.q + S::ROWS * S::KEY_PITCH;
	l.v = l.k + S::BLOCK * S::KEY_PITCH;
	uint16_t *scratch = l.v + S::VALUE * (S::BLOCK + 16);
	l.scratch = scratch + wave_index() * TILE_SCRATCH;
	l.total = (float *)(scratch + S::WAVES * TILE_SCRATCH);
	l.last = (int32_t *)(l.total + 2 * S::ROWS);
	l.place = (uint32_t *)(l.last + S::ROWS);
	return l;
}

/* --- keys and values to LDS ------------------------------------------------------- */

/* Piece i of a thread of a block of rows of DIM: its row and element. */
template <class S, int DIM> DEVICE int32_t rows_row(int i)
{
	return ((int32_t)thread_index() + i * S::THREADS) / (DIM / 8);
}

template <class S, int DIM> DEVICE int32_t rows_at()
{
	static_assert(S::THREADS % (DIM / 8) == 0, "the same of all of a thread's pieces");
	return (int32_t)thread_index() % (DIM / 8) * 8;
}

/* How many of n pieces there are in half h: the second may have none. */
template <class S, int DIM> DEVICE constexpr int rows_loads(int h, int n)
{
	return (h + 1) * n <= S::BLOCK * DIM / 8 / S::THREADS ? n : 0;
}

/* Half h of a thread's pieces. */
template <class S, int DIM, int PITCH, int N>
DEVICE void rows_ask(const uint16_t *pages, int32_t dim, const uint32_t *place, int h,
		     copy_ahead<N> *c, uint16_t *lds)
{
	int32_t at = rows_at<S, DIM>();
	const uint16_t *from = pages + (at < dim ? at : 0);
	UNROLL
	for (int i = 0; i < rows_loads<S, DIM>(h, N); i++) {
		int32_t r = rows_row<S, DIM>(h * N + i);
		uint32_t row = place[r];
		bool is_there = row != ATTENTION_NOWHERE;
		copy_ask(c, i, lds + r * PITCH + at,
			 from + (is_there ? (size_t)row * (size_t)dim : 0),
			 is_there && at < dim);
	}
}

template <class S, int DIM, int PITCH, int N>
DEVICE void rows_land(int32_t dim, const uint32_t *place, int h, copy_ahead<N> *c,
		      uint16_t *lds)
{
	int32_t at = rows_at<S, DIM>();
	UNROLL
	for (int i = 0; i < (COPY_LANDS ? rows_loads<S, DIM>(h, N) : 0); i++) {
		int32_t r = rows_row<S, DIM>(h * N + i);
		copy_land(c, i, lds + r * PITCH + at,
			  place[r] != ATTENTION_NOWHERE && at < dim);
	}
}

template <class S>
DEVICE void rows_ask_keys(const attention_launch &a, const uint32_t *place, int h,
			  copy_ahead<S::KEY_HALF> *c, const attention_rows_lds<S> &l)
{
	rows_ask<S, S::KEY, S::KEY_PITCH>(a.k, a.head_dim, place, h, c, l.k);
}

template <class S>
DEVICE void rows_land_keys(const attention_launch &a, const uint32_t *place, int h,
			   copy_ahead<S::KEY_HALF> *c, const attention_rows_lds<S> &l)
{
	rows_land<S, S::KEY, S::KEY_PITCH>(a.head_dim, place, h, c, l.k);
}

/* Where LDS has them transposed a thread takes two neighbouring positions, and threads of
 * neighbouring positions stand together: they store a word each, in a row. */
template <class S> DEVICE int32_t rows_value_at(int h, int i)
{
	return ((h * S::VALUE_HALF + i) / 2 * S::THREADS + (int32_t)thread_index()) / S::PAIRS * 8;
}

template <class S> DEVICE int32_t rows_value_pair()
{
	return (int32_t)thread_index() % S::PAIRS;
}

template <class S>
DEVICE void rows_ask_values(const attention_launch &a, const uint32_t *place, int h,
			    copy_ahead<S::VALUE_HALF> *c, const attention_rows_lds<S> &l)
{
	if constexpr (!TILE_LINES_B) {
		rows_ask<S, S::VALUE, S::VALUE_PITCH>(a.v, a.v_dim, place, h, c, l.v);
	} else {
		UNROLL
		for (int i = 0; i < rows_loads<S, S::VALUE>(h, S::VALUE_HALF); i++) {
			uint32_t row = place[2 * rows_value_pair<S>() + i % 2];
			int32_t at = rows_value_at<S>(h, i);
			bool is_there = row != ATTENTION_NOWHERE;
			copy_ask(c, i, l.v,
				 a.v + (is_there ? (size_t)row * (size_t)a.v_dim : 0) +
					 (at < a.v_dim ? at : 0), is_there);
		}
	}
}

template <class S>
DEVICE void rows_land_values(const attention_launch &a, const uint32_t *place, int h,
			     copy_ahead<S::VALUE_HALF> *c, const attention_rows_lds<S> &l)
{
	if constexpr (!TILE_LINES_B) {
		rows_land<S, S::VALUE, S::VALUE_PITCH>(a.v_dim, place, h, c, l.v);
	} else {
		UNROLL
		for (int i = 0; i < rows_loads<S, S::VALUE>(h, S::VALUE_HALF); i += 2) {
			int32_t at = rows_value_at<S>(h, i);
			uint32_t *to = (uint32_t *)(l.v + at * S::VALUE_PITCH) +
				       rows_value_pair<S>();
			u32x4 two[2];
			UNROLL
			for (int p = 0; p < 2; p++)
				two[p] = copy_piece(*c, i + p,
						    place[2 * rows_value_pair<S>() + p] !=
								    ATTENTION_NOWHERE &&
							    at < a.v_dim);
			UNROLL
			for (int w = 0; w < 4; w++) {
				uint32_t x = two[0][w], y = two[1][w];
				to[2 * w * S::VALUE_PITCH / 2] = permute_bytes<0x5410>(x, y);
				to[(2 * w + 1) * S::VALUE_PITCH / 2] =
					permute_bytes<0x7632>(x, y);
			}
		}
	}
}

/* --- a block ---------------------------------------------------------------------- */

/* The wave's rows times the block's keys. */
template <class S> DEVICE void rows_scores(const attention_rows_lds<S> &l, tile_c *c)
{
	constexpr int TILES = S::STEPS * S::SCORES;
	const uint16_t *q = l.q + wave_index() * 16 * S::KEY_PITCH;
	UNROLL
	for (int t = 0; t < TILES; t++)
		c[t] = tile_c{};
	UNROLL
	for (int i = 0; i < S::KEY / 16; i++) {
		schedule_barrier();
		tile_a<TILE_F16> x = tile_load_a<TILE_F16>(q + i * 16, S::KEY_PITCH);
		UNROLL
		for (int t = 0; t < TILES; t++)
			c[t] = tile_mma(x, tile_load_b<TILE_F16>(
						   l.k + t * 16 * S::KEY_PITCH + i * 16,
						   S::KEY_PITCH), c[t]);
		UNROLL
		for (int t = 0; t < TILES; t++)
			tile_pin(&c[t]);
	}
}

/* Scores that a row does not see. */
template <class S>
DEVICE void rows_hide(const attention_launch &a, const attention_rows_lds<S> &l,
		      int32_t block, tile_c *c)
{
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		schedule_barrier();
		int32_t last = l.last[(int32_t)wave_index() * 16 + tile_row(i)];
		int32_t first = a.window && last >= a.window ? last - a.window + 1 : 0;
		UNROLL
		for (int t = 0; t < S::STEPS * S::SCORES; t++) {
			int32_t at = block * S::BLOCK + t * 16 + tile_column(i);
			if (at < first || at > last)
				c[t].v[i] = ATTENTION_HIDDEN;
		}
	}
}

/* Scores to weights. before: factors of the sums so far. */
template <class S>
DEVICE void rows_weigh(const attention_launch &a, tile_c *c, attention_rows_sums<S> *sums,
		       float *before)
{
	float most[TILE_ROWS], all[TILE_ROWS], scale = a.scale * ATTENTION_LOG2E;
	tile_c column;
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++)
		most[s] = ATTENTION_HIDDEN;
	UNROLL
	for (int t = 0; t < S::SCORES; t++)
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			float &m = most[tile_slot(i)];
			m = c[t].v[i] > m ? c[t].v[i] : m;
		}
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
		float m = tile_row_max(most[s]);
		most[s] = m > sums->max[s] ? m : sums->max[s];
		before[s] = fast_exp2((sums->max[s] - most[s]) * scale);
		sums->max[s] = most[s];
	}
	UNROLL
	for (int t = 0; t < S::SCORES; t++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			c[t].v[i] = attention_weight(c[t].v[i], most[tile_slot(i)], scale);
		tile_round_f16(&c[t]);
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			column.v[i] = t == 0 ? c[t].v[i] : column.v[i] + c[t].v[i];
	}
	tile_row_totals(column, all);
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++)
		sums->sum[s] = fma_f32(sums->sum[s], before[s], all[s]);
}

/* part = factor part, where any of the wave's rows has another factor than 1. */
template <class S> DEVICE void rows_turn(const float *before, attention_rows_sums<S> *sums)
{
	bool changes = false;
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++)
		changes = changes || before[s] != 1;
	if (!wave_ballot(changes))
		return;
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++)
			sums->part[n].v[i] *= before[tile_slot(i)];
	}
}

/* part += weights values, of tiles from..to of the block's positions. */
template <class S>
DEVICE void rows_values(const attention_rows_lds<S> &l, const tile_c *c, int from, int to,
			attention_rows_sums<S> *sums)
{
	UNROLL
	for (int k = from; k < to; k++) {
		schedule_barrier();
		tile_a<TILE_F16> weights = tile_a_of_c<TILE_F16>(c[k], l.scratch);
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++) {
			tile_b<TILE_F16> v;
			if constexpr (TILE_LINES_B)
				v = tile_load_b<TILE_F16>(
					l.v + n * 16 * S::VALUE_PITCH + k * 16,
					S::VALUE_PITCH);
			else
				v = tile_load_b_rows<TILE_F16>(
					l.v + k * 16 * S::VALUE_PITCH + n * 16,
					S::VALUE_PITCH);
			sums->part[n] = tile_mma(weights, v, sums->part[n]);
			tile_pin(&sums->part[n]);
		}
	}
}

/* The next segment begins. */
template <class S> DEVICE void rows_segment(attention_rows_sums<S> *sums)
{
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
		sums->max[s] = ATTENTION_NOTHING;
		sums->sum[s] = 0;
	}
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++)
		sums->part[n] = tile_c{};
}

/* total = factor total + factor part, after the last block of a segment. */
template <class S>
DEVICE void rows_fold(const attention_launch &a, const attention_rows_lds<S> &l,
		      attention_rows_sums<S> *sums)
{
	constexpr int NEXT = (int)TILE_ROWS == (int)TILE_C ? 1 : 2; /* element of a new row */
	float old_factor[TILE_ROWS], new_factor[TILE_ROWS], max[TILE_ROWS], sum[TILE_ROWS];
	float *total = l.total + wave_index() * 16;
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
		max[s] = total[tile_row(s * NEXT)];
		sum[s] = total[S::ROWS + tile_row(s * NEXT)];
		attention_join(a.scale * ATTENTION_LOG2E, &max[s], &sum[s], sums->max[s], sums->sum[s], &old_factor[s],
			       &new_factor[s]);
	}
	wave_barrier(); /* all lanes have read; those of a row write the same */
	UNROLL
	for (int s = 0; s < TILE_ROWS; s++) {
		total[tile_row(s * NEXT)] = max[s];
		total[S::ROWS + tile_row(s * NEXT)] = sum[s];
	}
	wave_barrier();
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++) {
		schedule_barrier();
		UNROLL
		for (int i = 0; i < TILE_C; i++) {
			int s = tile_slot(i);
			sums->total[n].v[i] = fma_f32(sums->total[n].v[i], old_factor[s],
						      sums->part[n].v[i] * new_factor[s]);
		}
	}
}

/* --- a job ------------------------------------------------------------------------ */

template <class S>
DEVICE void rows_queries(const attention_launch &a, const attention_job &j,
			 const attention_rows_lds<S> &l)
{
	ONE_BY_ONE
	for (int32_t c = (int32_t)thread_index(); c < S::ROWS * S::KEY / 8; c += S::THREADS) {
		int32_t r = c / (S::KEY / 8), at = c % (S::KEY / 8) * 8, token, head;
		u32x4 x = {};
		if (attention_row<S>(j, r, &token, &head) && at < a.head_dim)
			x = *(const u32x4 *)(a.q + ((size_t)(j.token + token) *
						    (size_t)a.n_heads + (size_t)head) *
							   (size_t)a.head_dim + at);
		*(u32x4 *)(l.q + r * S::KEY_PITCH + at) = x;
	}
}

template <class S>
DEVICE void rows_begin(const attention_launch &a, const attention_job &j,
		       const attention_rows_lds<S> &l, attention_rows_sums<S> *sums)
{
	attention_place<S>(a, j, attention_look<S>(a, j, j.from), l.place);
	rows_queries<S>(a, j, l);
	if (thread_index() < S::ROWS) {
		l.total[thread_index()] = ATTENTION_NOTHING;
		l.total[S::ROWS + thread_index()] = 0;
		l.last[thread_index()] = j.position + (int32_t)thread_index() / j.heads;
	}
	UNROLL
	for (int n = 0; n < S::VALUE_TILES; n++)
		sums->total[n] = tile_c{};
}

/* What the wave's rows are to be multiplied by, in the place of their maxima. */
template <class S>
DEVICE void rows_scales(const attention_launch &a, const attention_job &j,
			const attention_rows_lds<S> &l)
{
	int32_t r = (int32_t)thread_index() / WAVE * 16 + (int32_t)lane_index(), token, head;
	wave_barrier();
	if (lane_index() < 16 && attention_row<S>(j, r, &token, &head))
		l.total[r] = attention_scale(a, head, l.total[r], l.total[S::ROWS + r]);
	wave_barrier();
}

/* By way of the queries' place, where a wave has its rows to itself. */
template <class S>
DEVICE void rows_finish(const attention_launch &a, const attention_job &j,
			const attention_rows_lds<S> &l, const attention_rows_sums<S> &sums)
{
	constexpr int32_t PIECES = S::VALUE / 8;
	static_assert(S::VALUE <= S::KEY, "it has room");
	int32_t first = (int32_t)wave_index() * 16;
	rows_scales<S>(a, j, l);
	UNROLL
	for (int i = 0; i < TILE_C; i++) {
		int32_t r = first + tile_row(i);
		float scale = l.total[r];
		schedule_barrier();
		UNROLL
		for (int n = 0; n < S::VALUE_TILES; n++)
			l.q[r * S::KEY_PITCH + n * 16 + tile_column(i)] =
				f32_to_f16(sums.total[n].v[i] * scale + 0.0f);
	}
	wave_barrier();
	ONE_BY_ONE
	for (int32_t c = (int32_t)lane_index(); c < 16 * PIECES; c += WAVE) {
		int32_t r = first + c / PIECES, at = c % PIECES * 8, token, head;
		if (attention_row<S>(j, r, &token, &head) && at < a.v_dim)
			*(u32x4 *)(a.y + ((size_t)(j.token + token) * (size_t)a.n_heads +
					  (size_t)head) * (size_t)a.v_dim + at) =
				*(const u32x4 *)(l.q + r * S::KEY_PITCH + at);
	}
}

/* Which blocks all rows see whole: from `clear` to `full`. */
struct attention_rows_seen {
	int32_t clear, full;
};

template <class S>
DEVICE void rows_block(const attention_launch &a, const attention_job &j,
		       const attention_rows_lds<S> &l, const attention_rows_seen &seen,
		       int32_t block, attention_rows_sums<S> *sums)
{
	uint32_t *place = l.place + ((block - j.from) & 1) * S::BLOCK;
	uint32_t *next = l.place + ((block - j.from + 1) & 1) * S::BLOCK;
	constexpr int HALF = S::SCORES / 2, STEP = S::SCORES;
	tile_c c[S::STEPS * S::SCORES];
	copy_ahead<S::VALUE_HALF> values;
	copy_ahead<S::KEY_HALF> keys;
	float before[S::STEPS][TILE_ROWS];
	attention_spot spot = attention_look<S>(a, j, block + 1);
	group_barrier(); /* keys are there; the last values have been used */
	rows_ask_values<S>(a, place, 0, &values, l);
	if (!COPY_LANDS)
		rows_ask_values<S>(a, place, 1, &values, l);
	rows_scores<S>(l, c);
	attention_place<S>(a, j, spot, next);
	rows_land_values<S>(a, place, 0, &values, l);
	if (COPY_LANDS)
		rows_ask_values<S>(a, place, 1, &values, l);
	if (block < seen.clear || block > seen.full)
		rows_hide<S>(a, l, block, c);
	UNROLL
	for (int s = 0; s < S::STEPS; s++)
		rows_weigh<S>(a, c + s * STEP, sums, before[s]);
	rows_turn<S>(before[0], sums);
	rows_land_values<S>(a, place, 1, &values, l);
	copy_wait();
	group_barrier(); /* values are there, keys have been used */
	rows_ask_keys<S>(a, next, 0, &keys, l); /* after the last: 0 */
	if (!COPY_LANDS)
		rows_ask_keys<S>(a, next, 1, &keys, l);
	rows_values<S>(l, c, 0, HALF, sums);
	rows_land_keys<S>(a, next, 0, &keys, l);
	if (COPY_LANDS)
		rows_ask_keys<S>(a, next, 1, &keys, l);
	rows_values<S>(l, c, HALF, STEP, sums);
	UNROLL
	for (int s = 1; s < S::STEPS; s++) {
		rows_turn<S>(before[s], sums);
		rows_values<S>(l, c, s * STEP, (s + 1) * STEP, sums);
	}
	rows_land_keys<S>(a, next, 1, &keys, l);
	copy_wait();
}

template <class S> DEVICE void attention_rows(const attention_launch &a)
{
	LDS_DYNAMIC(u32x4, lds);
	attention_job j;
	if (!attention_tile(a, &j))
		return;
	attention_range<S>(a, &j);
	attention_rows_lds<S> l = attention_rows_lds_of<S>(lds);
	attention_rows_sums<S> sums;
	int32_t last = j.position + j.n - 1;
	attention_rows_seen seen = {
		a.window && last >= a.window ? (last - a.window + S::BLOCK) / S::BLOCK : 0,
		(j.position + 1) / S::BLOCK - 1};
	rows_begin<S>(a, j, l, &sums);
	group_barrier();
	UNROLL
	for (int h = 0; h < 2; h++) {
		copy_ahead<S::KEY_HALF> keys;
		rows_ask_keys<S>(a, l.place, h, &keys, l);
		rows_land_keys<S>(a, l.place, h, &keys, l);
	}
	copy_wait();
	int32_t end = attention_segment_end(j, j.from);
	ONE_BY_ONE
	for (int32_t block = j.from; block <= j.to; end += j.each) {
		rows_segment<S>(&sums);
		ONE_BY_ONE
		for (; block <= end && block <= j.to; block++)
			rows_block<S>(a, j, l, seen, block, &sums);
		rows_fold<S>(a, l, &sums);
	}
	rows_finish<S>(a, j, l, sums);
}
